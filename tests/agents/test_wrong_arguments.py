"""What somebody who is new here gets wrong, and what the error says."""

import asyncio
import contextlib

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Answer,
    ConfigurationError,
    Guard,
    InMemoryStore,
    Message,
    PermissionManager,
    SessionInUseError,
    TextBlock,
    ToolError,
    ToolRegistry,
    ToolResult,
    open_model,
    run_tools,
    tool,
)
from greenroom.agents import run_turn
from greenroom.core import Price
from greenroom.core._internal import InvalidJSONError, InvalidSessionIdError
from greenroom.flow import Pattern
from greenroom.memory import SQLiteMemory, memory_tools
from greenroom.testing import ScriptedProvider, call, run_agent


def look_up(word: str) -> str:
    """Look a word up."""
    return word


def make_agent(**arguments):
    return Agent(ScriptedProvider("Hello."), **arguments)


@pytest.mark.parametrize(
    ("arguments", "kind", "says"),
    [
        ({"tools": None}, ConfigurationError, r"tools is None \(write tools=\[look_up\]\)"),
        ({"tools": "Read"}, ConfigurationError, "tools is 'Read'"),
        ({"tools": [look_up, look_up]}, ToolError, r"tool\(name='…'\)"),
        ({"memory": SQLiteMemory}, ConfigurationError, "is not a memory"),
        ({"guards": Guard(look_up)}, ConfigurationError, r"write guards=\[Guard\(check\)\]"),
        ({"handoffs": make_agent(name="sales")}, ConfigurationError, "handoffs is Agent"),
        ({"name": 5}, ConfigurationError, "5 is not a name, which is a text"),
        ({"description": 5}, ConfigurationError, "5 is not a description, which is a text"),
        ({"deps_type": "Library"}, ConfigurationError, r"not a type \(pass the type here"),
    ],
)
def test_an_argument_of_another_kind_is_told_with_what_to_write(arguments, kind, says):
    with pytest.raises(kind, match=says):
        make_agent(**arguments)


def test_an_agent_is_shown_in_a_few_words():
    assert repr(Agent("offline:", name="desk")) == "Agent('offline:', name='desk')"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (5, "content is a text or a list of blocks, not 5$"),
        (b"hello", "not b'hello'$"),
        ({"role": "user"}, "not {'role': 'user'}$"),
        (TextBlock("hello"), "pass a list of one, for a single block"),
        (Message.user("hello"), "pass its .content"),
        (["hello"], r"'hello' is not a block: write TextBlock\(…\) for a text"),
        ([Message.user("hello")], "is not a block: pass its .content"),
    ],
)
async def test_an_input_that_is_none_is_told_with_what_to_pass(given, says):
    with pytest.raises(TypeError, match=says):
        await make_agent().run(given)


@pytest.mark.parametrize("given", [5, object()])
async def test_a_session_that_is_none_is_told(given):
    with pytest.raises(InvalidSessionIdError, match="use a text of 1 to 200 characters"):
        await make_agent().run("Hello", session=given)


async def test_a_timeout_that_is_no_number_is_told_as_one():
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("desk"), make_agent())
        for timeout in ("5", -1):
            with pytest.raises(ValueError, match="a timeout is a number of seconds from 0"):
                await handle.ask("Hello", timeout=timeout)


async def test_iterating_over_a_stream_without_its_block_says_how_to_write_it():
    with pytest.raises(TypeError, match=r"async with agent.stream\(…\) as run"):
        async for _ in make_agent().stream("Hello"):
            pass


async def test_the_block_of_a_stream_passes_on_what_it_raises():
    with pytest.raises(ZeroDivisionError):
        async with make_agent().stream("Hello"):
            raise ZeroDivisionError
    with trio.CancelScope() as scope, contextlib.suppress(ZeroDivisionError):
        async with make_agent().stream("Hello"):
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught


async def test_calling_an_agent_says_what_to_write():
    with pytest.raises(TypeError, match=r"write agent.run\(…\)"):
        await make_agent()("Hello")


def test_an_option_that_a_tool_does_not_have_is_told_with_the_nearest_one():
    with pytest.raises(TypeError, match=r"tool\(\) has no option 'timout': did you mean 'timeout'"):
        tool(timout=3)
    with pytest.raises(TypeError, match=r"tool\(\) has no option 'xyz'$"):
        tool(xyz=3)


def test_an_agent_is_made_a_tool_by_its_own_method():
    with pytest.raises(ToolError, match=r"pass what its as_tool\(\) returns"):
        tool(make_agent())


@pytest.mark.parametrize("given", ["Read", look_up])
def test_a_registry_wants_a_list(given):
    with pytest.raises(ToolError, match=r"write ToolRegistry\(\[…\]\)"):
        ToolRegistry(given)


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (lambda: AgentRuntime(InMemoryStore), TypeError, r"write store=InMemoryStore\(…\)"),
        (lambda: AgentSession.new(make_agent()), TypeError, "the type of an agent is a text"),
        (lambda: Price("2", "8"), ConfigurationError, "'2' is not a price"),
        (lambda: Answer("yes"), ValueError, "'yes' is not a decision"),
        (lambda: ToolResult.ok(5), TypeError, "a result is a text, not 5"),
        (lambda: open_model(5), ConfigurationError, "5 is not the name of a model"),
        (lambda: memory_tools("memory.db"), TypeError, r"write memory_tools\(SQLiteMemory"),
        (lambda: memory_tools(SQLiteMemory), TypeError, r"write memory_tools\(SQLiteMemory"),
        (lambda: make_agent(output_type="City"), ConfigurationError, "pass the type itself"),
        (lambda: make_agent(output_type=None), ConfigurationError, "a text is the default"),
        (lambda: make_agent(output_type=look_up), ConfigurationError, "function look_up is not a"),
        (
            lambda: tool(requires_permission=lambda *_: True)(look_up),
            ToolError,
            r"requires_permission is .*PermissionRule.ask_if\(function\)",
        ),
        (
            lambda: Pattern("relay", lambda team: "done").run_sync("Go."),
            TypeError,
            "the function of relay is not async: write `async def`",
        ),
        (lambda: tool("search"), ToolError, r"write @tool\(name='search'\)"),
        (lambda: make_agent().run_sync("Hi", store="shelf"), TypeError, r"write store=FileStore"),
        (
            lambda: make_agent().run_sync("Hi", settings={"temperature": 0}),
            ConfigurationError,
            r"write ModelSettings\(temperature=0\)",
        ),
        (
            lambda: make_agent().run_sync(session="ann", answers=True),
            ConfigurationError,
            r"answers=True names no question \(write answers=",
        ),
        (
            lambda: AgentSession.new("ann").add_message(Message("system", "Be brief.")),
            InvalidJSONError,
            r"'system' is not a role.*write Agent\(…, instructions=…\)",
        ),
        (lambda: run_agent(make_agent(), inputs=5), TypeError, "inputs is a text, or a list"),
    ],
)
def test_a_value_of_another_kind_is_told_where_it_is_passed(make, kind, says):
    with pytest.raises(kind, match=says):
        make()


def test_a_key_in_place_of_the_environment_is_refused_and_not_shown():
    with pytest.raises(ConfigurationError, match="should be a dict") as found:
        open_model("openai:gpt-5.4", "sk-1")
    assert "sk-1" not in str(found.value)


def test_a_decision_that_is_given_as_its_word_counts():
    assert Answer("allow").allowed


async def test_a_tool_that_returns_a_coroutine_is_told_to_be_async():
    async def fetch() -> str:
        return "text"

    @tool
    def get_text() -> object:
        """Get a text."""
        return fetch()

    llm = ScriptedProvider(call("get_text"), "Hm.")
    result = await Agent(llm, tools=[get_text]).run("Go")
    assert "make it an `async def`" in result.messages[2].tool_results[0].text


async def test_the_reply_in_place_of_its_calls_is_told():
    async def loop(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                await run_tools(agent, Message.assistant("Hm."), registry, PermissionManager())

    registry = ToolRegistry()
    async with AgentRuntime(InMemoryStore()) as runtime:
        result = await runtime.spawn(AgentSession.new("desk"), loop).ask("Go")
    assert "write reply.tool_uses" in result.error


def test_a_store_in_which_the_session_would_not_be_kept_is_refused():
    agent = Agent(ScriptedProvider("One.", "Two."))
    first = agent.run_sync("Count.")
    with pytest.raises(ConfigurationError, match=r"is kept in InMemoryStore.*leave store= out"):
        agent.run_sync("Go on.", session=first.session, store=InMemoryStore())
    again = agent.run_sync("Go on.", session=first.session, store=first.session.store)
    assert again.output == "Two."


async def sleep_in_asyncio() -> None:
    await asyncio.sleep(1)


async def yield_in_asyncio() -> None:
    await asyncio.sleep(0)


@pytest.mark.parametrize("function", [sleep_in_asyncio, yield_in_asyncio])
def test_a_tool_that_uses_asyncio_is_told_what_to_do(function):
    llm = ScriptedProvider(call(function.__name__), "It failed.")
    result = Agent(llm, tools=[function]).run_sync("Wait.")
    [failure] = result.messages[2].tool_results
    assert failure.is_error
    assert "the event loop here is trio's: make it a plain function" in failure.text


@pytest.mark.parametrize("messages", ["Hi", [{"role": "user", "content": "Hi"}]])
async def test_messages_of_a_single_turn_that_are_none_are_told(messages):
    with pytest.raises(TypeError, match=r"is not a message: write Message.user\(…\)"):
        await run_turn(ScriptedProvider("Hello."), messages)


def test_a_session_that_is_busy_is_told_with_the_queue():
    assert "on_busy='queue'" in SessionInUseError.remedy
