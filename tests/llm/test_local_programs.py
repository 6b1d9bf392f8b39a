"""Programs that run models on one's own machine: their names, addresses, words and thoughts."""

import pytest

from greenroom.agents import Agent
from greenroom.core import Message, TextBlock, ThinkingBlock
from greenroom.core._internal import OutputSchema, serde
from greenroom.llm import (
    ModelConnectionError,
    ModelContextTooLongError,
    ModelRequest,
    OpenAIProvider,
    open_model,
)
from greenroom.llm._internal import HOSTS, full_name
from greenroom.llm.endpoint import LOCAL_PROGRAMS
from greenroom.session import AgentSession, InMemoryStore
from tests.llm.local_servers import LocalServer, as_json, reply
from tests.llm.server import Answer, model_server
from tests.llm.test_providers import HELLO
from tests.llm.wire import chat

PROGRAMS = sorted({*LOCAL_PROGRAMS, "ollama"})
ADDRESSES = {
    "llamacpp": "http://localhost:8080/v1",
    "lmstudio": "http://localhost:1234/v1",
    "ollama": "http://localhost:11434/v1",
    "sglang": "http://localhost:30000/v1",
    "vllm": "http://localhost:8000/v1",
}


def open_at(program, server, **options):
    """Open the program's model `m` at the address of a test's server, as its variable says."""
    env = {HOSTS[program].base_variables[0]: server.url}
    return open_model(f"{program}:m", env, **({"retry": None} | options))


@pytest.fixture(params=PROGRAMS)
def program(request):
    return request.param


def test_it_has_a_usual_address_and_needs_no_key(program):
    llm = open_model(f"{program}:m", {}, retry=None)
    assert llm._endpoint.url == f"{ADDRESSES[program]}/chat/completions"
    assert (llm.name, llm.model) == (program, "m")
    assert "authorization" not in llm._endpoint.headers
    assert full_name(f"{program}:m", {}) == f"{program}:m"


def test_its_variables_say_where_it_is_and_what_the_key_is(program):
    host = HOSTS[program]
    port = ADDRESSES[program].rpartition(":")[2]
    env = {host.base_variables[0]: "gpu", host.key_variables[0]: "sk-local-1"}
    llm = open_model(f"{program}:m", env, retry=None)
    assert llm._endpoint.url == f"http://gpu:{port}/chat/completions"
    assert llm._endpoint.headers["authorization"] == "Bearer sk-local-1"


async def test_its_name_is_in_errors_and_in_replies(program):
    async with model_server(as_json({"error": {"message": "no", "type": "x"}}, 400)) as server:
        llm = open_at(program, server)
        with pytest.raises(Exception, match=f"^{program}") as caught:
            await llm.generate(HELLO)
        await llm.aclose()
    assert caught.value.provider == program
    async with model_server(Answer.stream(chat({"content": "Hello"}))) as server:
        llm = open_at(program, server)
        assert (await llm.generate(HELLO)).provider == program
        await llm.aclose()
    with pytest.raises(ModelConnectionError, match=program):
        await open_at(program, server).generate(HELLO)  # which is gone


TOO_LONG = {
    "vllm": [
        "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens "
        "(9591 in the messages, 10000 in the completion). Please reduce the length of the messages "
        "or completion.",
    ],
    "sglang": [
        "The input (61709 tokens) is longer than the model's context length (40960 tokens).",
        "Requested token count exceeds the model's maximum context length of 40960 tokens. You "
        "requested a total of 50000 tokens: 40000 tokens from the input messages and 10000 tokens "
        "for the completion.",
    ],
    "lmstudio": [
        "Trying to keep the first 15857 tokens when context the overflows. However, the model is "
        "loaded with context length of only 8192 tokens, which is not enough.",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)",
    ],
    "llamacpp": [
        "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it"
    ],
}


@pytest.mark.parametrize(
    ("program", "text"), [(name, text) for name, texts in TOO_LONG.items() for text in texts]
)
@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("in_band", [False, True])
async def test_each_says_in_its_own_words_that_a_conversation_is_too_long(
    program, text, as_text, in_band
):
    error = {"error": text if as_text else {"message": text, "code": 400, "type": "BadRequest"}}
    events = b"event: error\ndata: " + serde.dumps(error) + b"\n\n"
    async with model_server(Answer.stream(events) if in_band else as_json(error, 400)) as server:
        llm = open_at(program, server)
        with pytest.raises(ModelContextTooLongError):
            await llm.generate(HELLO)
        await llm.aclose()


WINDOWS = {
    "vllm": {"/v1/models": as_json({"data": [{"id": "m", "max_model_len": 8192}]})},
    "sglang": {"/v1/models": as_json({"data": [{"id": "m", "max_model_len": 8192}]})},
    "lmstudio": {
        "/v1/models": as_json({"data": [{"id": "m"}]}),
        "/api/v0/models": as_json({"data": [{"id": "m", "loaded_context_length": 8192}]}),
    },
    "llamacpp": {
        "/v1/models": as_json({"data": [{"id": "m", "meta": {"n_ctx_train": 131_072}}]}),
        "/props": as_json({"default_generation_settings": {"n_ctx": 8192}}),
    },
}


@pytest.mark.parametrize("program", WINDOWS)
async def test_each_is_asked_for_its_window(program):
    async with model_server(LocalServer(WINDOWS[program])) as server:
        llm = open_at(program, server)
        assert (await llm.find_window()).tokens == 8192
        await llm.aclose()


FIELDS = {
    "vllm": ["reasoning", "reasoning_content"],
    "lmstudio": ["reasoning", "reasoning_content"],
    "sglang": ["reasoning_content"],
    "llamacpp": ["reasoning_content"],
    "ollama": ["reasoning"],
}


@pytest.mark.parametrize(
    ("program", "field"), [(name, field) for name, fields in FIELDS.items() for field in fields]
)
async def test_its_thoughts_are_read_and_go_back_as_they_came(program, field):
    answer = Answer.stream(chat({field: "Hm."}, {"content": "Six."}))
    async with model_server(answer) as server:
        llm = open_at(program, server)
        first = await llm.generate(HELLO)
        assert [type(block) for block in first.content] == [ThinkingBlock, TextBlock]
        await llm.generate(ModelRequest(messages=[*HELLO.messages, first, Message.user("So?")]))
        await llm.aclose()
    sent = server.requests[1].body["messages"][1]
    assert sent == {"role": "assistant", "content": "Six.", field: "Hm."}


async def test_it_is_asked_for_usage_and_for_a_schema(program):
    schema = OutputSchema("answer", {"type": "object", "properties": {}})
    request = ModelRequest(
        messages=HELLO.messages, output=schema, max_tokens=9, parallel_tools=False
    )
    async with model_server(reply("{}", 5)) as server:
        llm = open_at(program, server)
        assert llm.accepts_output(schema)
        assert (await llm.generate(request)).usage.input_tokens == 5
        await llm.aclose()
    body = server.requests[0].body
    assert body["stream_options"] == {"include_usage": True}
    assert body["response_format"]["type"] == "json_schema"
    assert body["max_tokens"] == 9


@pytest.mark.parametrize("program", sorted(LOCAL_PROGRAMS))
async def test_a_session_under_an_address_goes_on_under_the_program_s_name(program):
    answer = Answer.stream(chat({"reasoning_content": "Hm."}, {"content": "Six."}))
    store = InMemoryStore()
    async with model_server(answer) as server:
        older = OpenAIProvider("m", base_url=f"{server.url}/v1", env={})
        session = AgentSession.new("a", store=store)
        await Agent(older).run("How many?", session=session)
        await session.save()
        stored = f"{older.name}:{older.model}"
        env = {HOSTS[program].base_variables[0]: server.url}
        llm = open_model(stored, env, retry=None)
        assert llm.name == program
        again = await AgentSession.load(session.session_id, store=store)
        assert (await Agent(llm).run("Sure?", session=again)).output == "Six."
        await older.aclose()
        await llm.aclose()
        chats = [each.body for each in server.requests if each.path.endswith("completions")]
    assert [each.provider for each in again.history if each.provider] == [older.name, program]
    assert chats[1]["messages"][1]["reasoning_content"] == "Hm."
