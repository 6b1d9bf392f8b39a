"""A conversation stays within its model's window, and a result says what is not known of it."""

import pytest
import trio

from greenroom import (
    Agent,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    Custom,
    ImageBlock,
    InMemoryStore,
    Message,
    TextBlock,
    stream_reply,
)
from greenroom.core import Usage
from greenroom.llm import open_model
from greenroom.memory import Compactor, SQLiteMemory
from greenroom.testing import Reply, ScriptedProvider
from tests.llm.local_servers import LocalServer, as_json, running, show
from tests.llm.server import model_server

QUESTION = "Which of the towns on the coast would you visit first, and how would you travel? "
ANSWER = "I would take the slow train along the river, and stay in the old town for a night. " * 6
NAME = "scripted:script"


async def talk(agent, turns, *, question=QUESTION * 8, session=None):
    """Hold a conversation; return the warnings of each turn."""
    session = session or AgentSession.new("agent", store=InMemoryStore())
    warnings = []
    for turn in range(turns):
        result = await agent.run(f"{turn}: {question}", session=session)
        assert result.error is None
        warnings.append(list(result.warnings))
    return warnings


async def talk_to(play, turns=40, **options):
    async with model_server(play) as server:
        llm = open_model("ollama:llama3.2", {"OLLAMA_HOST": server.url})
        try:
            return await talk(Agent(llm, **options), turns)
        finally:
            await llm.aclose()


async def test_forty_turns_with_ollama_stay_within_its_window():
    play = LocalServer({"/api/show": show("num_ctx 8192")}, window=8192, text=ANSWER)
    assert await talk_to(play) == [[]] * 40
    assert play.asked == ["POST /api/show"]
    assert 4096 < max(play.sizes) <= 8192


async def test_the_window_of_a_loaded_model_is_asked_after_its_first_reply():
    def loaded(play):
        return running(("llama3.2:latest", 6000)) if play.sizes else running()

    play = LocalServer({"/api/show": show(), "/api/ps": loaded}, window=6000, text=ANSWER)
    assert await talk_to(play) == [[]] * 40
    assert play.asked == ["POST /api/show", "GET /api/ps", "GET /api/ps"]
    assert 4096 < max(play.sizes) <= 6000


async def test_a_window_that_ollama_does_not_say_is_assumed_and_that_is_said_once():
    play = LocalServer({"/api/show": show()}, window=4096, text=ANSWER)
    ((told,),) = filter(None, await talk_to(play))
    assert "4,096 tokens are assumed; say how large it is: window=" in told
    assert max(play.sizes) <= 4096


async def test_a_short_conversation_asks_for_no_window():
    play = LocalServer({"/api/show": show()}, text="Noted.")
    assert await talk_to(play, turns=5) == [[]] * 5
    assert play.asked == []


@pytest.mark.parametrize("instructions", ["Be kind.", "Be kind. " * 900])
async def test_a_long_conversation_is_not_shortened_before_the_window_is_known(instructions):
    def generate(play):
        play.paths["/api/ps"] = running(("llama3.2:latest", 32_768))
        return as_json({"done": True, "done_reason": "load"})

    play = LocalServer({"/api/show": show(), "/api/generate": generate}, window=32_768)
    session = AgentSession.new("agent", store=InMemoryStore())
    for number in range(40):
        session.add_message(Message.user(f"{number}: {QUESTION * 4}"))
        session.add_message(Message.assistant(ANSWER))
    before = session.history
    async with model_server(play) as server:
        llm = open_model("ollama:llama3.2", {"OLLAMA_HOST": server.url})
        agent = Agent(llm, instructions=instructions)
        assert await talk(agent, 1, session=session) == [[]]
        await llm.aclose()
    assert play.asked == [
        *("POST /api/show", "GET /api/ps"),
        *("POST /api/generate", "GET /api/ps"),
    ]
    assert session.history[: len(before)] == before
    assert 4_096 < play.sizes[0] <= 32_768


async def test_a_long_conversation_is_shortened_where_nothing_loads_the_model():
    play = LocalServer({"/api/show": show()}, window=4096)
    async with model_server(play) as server:
        llm = open_model("ollama:llama3.2", {"OLLAMA_HOST": server.url})
        ((told,),) = await talk(Agent(llm), 1, question=QUESTION * 400)
        await llm.aclose()
    assert "4,096 tokens are assumed" in told
    assert play.sizes == [pytest.approx(2_000, abs=1_000)]


async def test_a_window_that_is_given_wins():
    play = LocalServer({"/api/show": show("num_ctx 8192")}, window=3000, text=ANSWER)
    assert await talk_to(play, window=3000) == [[]] * 40
    assert play.asked == []
    assert max(play.sizes) <= 3000


@pytest.mark.parametrize(("turns", "size", "expected"), [(9, 300, 0), (1, 12_000, 1), (30, 500, 1)])
async def test_an_unknown_window_is_said_once_before_a_request_takes_10_000_tokens(
    turns, size, expected
):
    llm = ScriptedProvider(*["Noted."] * turns)
    warnings = await talk(Agent(llm), turns, question="word " * size)
    assert [len(each) for each in warnings if each] == [1] * expected
    for place, each in enumerate(warnings):
        if each:
            sent = sum(message.text.count("word") for message in llm.requests[place].messages)
            before = sent - size
            assert before < 10_000
            assert f"the context window of {NAME} is not known" in each[0]
            assert "window=" in each[0]


@pytest.mark.parametrize("memory", [None, SQLiteMemory()])
async def test_where_the_window_is_unknown_it_is_said_that_the_memory_gets_nothing(memory):
    agent = Agent(ScriptedProvider("Noted."), memory=memory)
    ((told,),) = await talk(agent, 1, question="word " * 12_000)
    assert ("nothing of the conversation is added to the memory" in told) == (memory is not None)
    assert memory is None or await memory.entries() == ()


async def test_a_session_is_warned_again_only_about_another_model():
    session = AgentSession.new("agent", store=InMemoryStore())
    for expected, model in ((1, "a"), (0, "a"), (1, "b"), (0, "b")):
        llm = ScriptedProvider("Noted.", model=model)
        (warnings,) = await talk(Agent(llm), 1, question="word " * 12_000, session=session)
        assert len(warnings) == expected


@pytest.mark.parametrize(
    ("read", "options", "is_told"),
    [
        (2_050, {"window": 100_000}, True),
        (2_050, {}, True),
        (14_000, {"window": 100_000}, False),
        (0, {}, False),
        (300, {}, False),
        (2_050, {"model": "openai/gpt-oss-20b", "name": "groq"}, False),
    ],
)
async def test_a_server_that_read_less_than_was_sent_has_dropped_the_beginning(
    read, options, is_told
):
    names = {key: options[key] for key in options if key != "window"}
    llm = ScriptedProvider(Reply("Noted.", Usage(read, 5)), **names)
    agent = Agent(llm, window=options.get("window"))
    (warnings,) = await talk(agent, 1, question="word " * 14_000)
    told = [each for each in warnings if "dropped" in each]
    assert bool(told) == is_told
    if told:
        assert told[0].startswith("scripted has read 2,050 tokens of a request of about 1")


async def test_what_a_server_read_of_a_picture_says_nothing():
    llm = ScriptedProvider(Reply("Nice.", Usage(300, 5)))
    pictures = [ImageBlock("image/png", "aGk=")] * 5
    result = await Agent(llm, window=4_096).run([TextBlock("Look!"), *pictures])
    assert result.warnings == ()


async def test_a_window_that_tools_and_prompt_fill_is_said():
    llm = ScriptedProvider("Noted.", "Noted.")
    agent = Agent(llm, instructions="Be kind. " * 600, window=1_000)
    first, second = await talk(agent, 2, question="Hello.")
    assert "the system prompt and the tools take about" in first[0]
    assert second == []


async def test_a_server_that_says_nothing_is_like_any_unknown_model():
    play = LocalServer({"/v1/models": as_json({"data": [{"id": "m"}]})})
    async with model_server(play) as server:
        env = {"OPENAI_BASE_URL": f"{server.url}/v1"}
        llm = open_model("openai:m", env)
        (warnings,) = await talk(Agent(llm), 1, question="word " * 12_000)
        await llm.aclose()
    assert "is not known" in warnings[0]
    assert play.asked == ["GET /v1/models", "GET /api/v0/models", "GET /props"]


async def test_a_loop_of_one_s_own_gets_the_warning_as_a_chunk():
    llm, told = ScriptedProvider(Reply("Noted.", Usage(2_050, 5))), []

    async def agent(internals: AgentInternals) -> None:
        compactor = Compactor(llm, window=50_000)
        async for message in internals.inputs():
            async with internals.turn(message):
                await stream_reply(internals, llm, compactor=compactor)

    async def read(chunks):
        told.extend([chunk async for chunk in chunks if isinstance(chunk, Custom)])

    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        handle = runtime.spawn(AgentSession.new("agent"), agent)
        nursery.start_soon(read, handle.subscribe())
        await handle.ask("word " * 14_000)
        await handle.shutdown()
    (chunk,) = told
    assert chunk.kind == "context.warning"
    assert chunk.data["reason"] == "dropped"
    assert chunk.data["read"] == 2_050
    assert chunk.text.startswith("scripted has read 2,050 tokens")


@pytest.mark.parametrize("window", [0, 100, "8192", True])
def test_an_agent_s_window_is_a_number_of_tokens(window):
    with pytest.raises(ConfigurationError, match="window"):
        Agent("offline:", window=window)
