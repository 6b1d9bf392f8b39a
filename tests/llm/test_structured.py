"""Asking for a value of a type: scripted models, and both vendors over a real socket."""

import dataclasses
from functools import partial

import msgspec
import pytest

from greenroom.core import ConfigurationError, Message, StopReason, ToolDefinition
from greenroom.core._internal import NamedTool, OutputSchema
from greenroom.llm import (
    AnthropicProvider,
    ModelBadRequestError,
    ModelError,
    ModelOutputError,
    ModelOverloadedError,
    ModelRequest,
    OfflineProvider,
    OpenAIProvider,
    generate_structured,
    resilient,
)
from greenroom.llm._internal import HOSTS, ModelContentFilterError, OutputType
from greenroom.llm.output_type import ANSWER_TOOL
from greenroom.resilience import Retry
from greenroom.testing import Reply, ScriptedProvider, call
from tests.llm import wire
from tests.llm.server import Answer, model_server


@dataclasses.dataclass
class City:
    name: str
    people: int | None = None


ASK = ModelRequest(messages=[Message.user("Name a city.")], max_tokens=100)
PARIS = City("Paris", 7)


def answer(**fields):
    return call(ANSWER_TOOL, **fields)


class SchemaProvider(ScriptedProvider):
    """A scripted model that can hold its replies to a schema."""

    def accepts_output(self, output: OutputSchema) -> bool:
        return True


async def test_a_model_without_a_json_mode_is_made_to_call_a_tool():
    llm = ScriptedProvider(answer(name="Paris", people=7))
    assert await generate_structured(llm, ASK, City) == PARIS
    [request] = llm.requests
    [tool] = request.tools
    assert request.tool_choice == NamedTool(tool.name)
    assert tool.parameters == OutputType(City).schema.schema
    assert request.output is None
    assert request.max_tokens == 100


async def test_a_model_with_a_json_mode_is_asked_for_text():
    llm = SchemaProvider('{"name": "Paris", "people": 7}')
    tools = [ToolDefinition("Read", "Reads.", {"type": "object"})]
    asked = dataclasses.replace(ASK, tools=tools)
    output = OutputType(City)
    assert await generate_structured(llm, asked, output) == PARIS
    [request] = llm.requests
    assert request.output is output.schema
    assert request.tools == tools  # as before, for the sake of the cache
    assert request.tool_choice == "none"


@pytest.mark.parametrize("provider", [ScriptedProvider, SchemaProvider])
async def test_a_reply_that_does_not_fit_is_asked_for_again_with_what_is_wrong(provider):
    llm = provider("I like Paris.", '{"name": 7}', '{"name": "Paris", "people": 7}')
    assert await generate_structured(llm, ASK, City) == PARIS
    first, second, third = (request.messages for request in llm.requests)
    assert second[:1] == first
    assert third[:3] == second
    assert [message.role for message in third] == ["user", "assistant"] * 2 + ["user"]
    assert "the answer is not a JSON object" in second[2].text
    assert "- name: Input should be a valid string" in third[4].text
    assert len({request.tool_choice for request in llm.requests}) == 1


async def test_every_call_of_a_reply_that_does_not_fit_gets_a_result():
    calls = [answer(name=7), call("Read", path="a")]
    llm = ScriptedProvider(calls, answer(name="Paris", people=7))
    assert await generate_structured(llm, ASK, City) == PARIS
    results = llm.requests[1].messages[2].tool_results
    assert [result.tool_use_id for result in results] == [each.id for each in calls]
    assert all(result.is_error and "name: Input should" in result.text for result in results)


async def test_after_the_last_attempt_the_error_has_the_last_reply():
    llm = ScriptedProvider("one", "two", "three")
    with pytest.raises(ModelOutputError) as caught:
        await generate_structured(llm, ASK, City, retries=1)
    assert caught.value.partial.text == "two"
    assert len(caught.value.errors) == 1
    assert len(llm.requests) == 2
    with pytest.raises(ConfigurationError, match="retries is -1"):
        await generate_structured(llm, ASK, City, retries=-1)


async def test_a_refusal_is_not_asked_again():
    llm = ScriptedProvider(Reply("I can't help with that.", stop_reason=StopReason.REFUSAL), "more")
    with pytest.raises(ModelContentFilterError, match="the model refused to answer: I can't help"):
        await generate_structured(llm, ASK, City)
    assert len(llm.requests) == 1


async def test_half_an_answer_is_asked_for_again():
    half = Reply('{"name": "Paris"}', stop_reason=StopReason.MAX_TOKENS)
    llm = ScriptedProvider(half, '{"name": "Paris", "people": 7}')
    assert await generate_structured(llm, ASK, City) == PARIS
    assert "cut off by max_tokens" in llm.requests[1].messages[2].text
    with pytest.raises(ModelOutputError, match="raise max_tokens"):
        await generate_structured(ScriptedProvider(half), ASK, City, retries=0)


async def test_a_pause_goes_back_as_it_came():
    pause = Reply("Let me look.", stop_reason=StopReason.PAUSE)
    llm = SchemaProvider(pause, '{"name": "Paris", "people": 7}')
    assert await generate_structured(llm, ASK, City) == PARIS
    assert [message.role for message in llm.requests[1].messages] == ["user", "assistant"]


@pytest.mark.parametrize(("spare", "has_form"), [(SchemaProvider, True), (ScriptedProvider, False)])
async def test_a_chain_of_models_is_asked_in_a_way_that_each_of_them_takes(spare, has_form):
    down = Reply(error=ModelOverloadedError("down"))
    last = spare('{"name": "Paris", "people": 7}')
    llm = resilient(SchemaProvider(down), fallback=[last], retry=Retry(attempts=1))
    assert await generate_structured(llm, ASK, City) == PARIS
    assert (last.requests[0].output is not None) == has_form


def refuse(text):
    """Refuse a request with this complaint."""
    return Reply(error=ModelBadRequestError(f"acme answered 400: {text}", status=400))


async def test_a_server_that_refuses_a_way_of_asking_is_asked_in_the_next():
    llm = SchemaProvider(
        refuse("Unknown parameter: 'response_format.json_schema'"),
        refuse("tool_choice: this model takes only auto"),
        "Paris!",
        answer(name="Paris", people=7),
    )
    assert await generate_structured(llm, ASK, City, retries=1) == PARIS
    choices = [request.tool_choice for request in llm.requests]
    assert choices == ["none", NamedTool(ANSWER_TOOL), "auto", "auto"]


@pytest.mark.parametrize(
    "error",
    [
        ModelBadRequestError("messages: at least one is needed"),
        ModelContentFilterError("the schema offends somebody"),
    ],
)
async def test_a_request_that_is_refused_for_another_reason_is_not_sent_again(error):
    llm = SchemaProvider(Reply(error=error))
    with pytest.raises(type(error)):
        await generate_structured(llm, ASK, City)
    assert len(llm.requests) == 1


async def test_a_model_that_thinks_is_not_forced():
    llm = ScriptedProvider(answer(name="Paris", people=7))
    await generate_structured(llm, dataclasses.replace(ASK, thinking=1024), City)
    assert llm.requests[0].tool_choice == "auto"


async def test_a_tool_of_the_same_name_is_refused():
    tools = [ToolDefinition(ANSWER_TOOL, "Mine.", {"type": "object"})]
    with pytest.raises(ConfigurationError, match="a tool of the request is called final_answer"):
        await generate_structured(ScriptedProvider(), dataclasses.replace(ASK, tools=tools), City)


@pytest.mark.parametrize("thinking", [None, 1024])
async def test_the_offline_model_says_that_it_can_not(thinking):
    request = dataclasses.replace(ASK, thinking=thinking)
    with pytest.raises(ModelBadRequestError, match="ANTHROPIC_API_KEY") as caught:
        await generate_structured(OfflineProvider(), request, City)
    assert "offline" in caught.value.message


# Over the wire


class Node(msgspec.Struct):
    name: str
    inner: "list[Node]" = []


class NativeAnthropic(AnthropicProvider):
    """Anthropic's own server, though it is at another address."""

    def accepts_output(self, output):
        return True


NativeOpenAI = partial(OpenAIProvider, host=HOSTS["openai"])


STRICT = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "people": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "additionalProperties": False,
}


async def ask_over_http(provider, replies, kind=City, **options):
    """Ask for the type; return its value, or the error, and the bodies of the requests."""
    answers = iter(replies)
    async with model_server(lambda _: Answer.stream(next(answers))) as server:
        llm = provider("m", base_url=server.url, api_key="sk-1", env={})
        try:
            value = await generate_structured(llm, dataclasses.replace(ASK, **options), kind)
        except ModelError as error:
            value = error
        await llm.aclose()
    return value, [request.body for request in server.requests]


PIECES = ['{"name": "Par', 'is", "people": 7}']


async def test_anthropic_is_asked_by_its_output_config():
    replies = [wire.anthropic(*wire.text_block(0, *PIECES))]
    options = {"output_config": {"effort": "low"}}
    value, [body] = await ask_over_http(NativeAnthropic, replies, options=options)
    assert value == PARIS
    assert body["output_config"] == {
        "format": {"type": "json_schema", "schema": STRICT | {"required": ["name"]}},
        "effort": "low",
    }
    assert "tools" not in body


async def test_openai_is_asked_by_its_response_format():
    replies = [wire.chat(*({"content": piece} for piece in PIECES))]
    value, [body] = await ask_over_http(NativeOpenAI, replies)
    assert value == PARIS
    form = {"name": "City", "strict": True, "schema": STRICT | {"required": ["name", "people"]}}
    assert body["response_format"] == {"type": "json_schema", "json_schema": form}


async def test_openai_is_not_strict_where_the_schema_can_not_be():
    replies = [wire.chat({"content": '{"a": 1}'})]
    value, [body] = await ask_over_http(NativeOpenAI, replies, dict[str, int])
    assert value == {"a": 1}
    form = body["response_format"]["json_schema"]
    assert not form["strict"]
    assert form["schema"] == OutputType(dict[str, int]).schema.schema


async def test_other_servers_are_given_a_tool_and_told_what_is_wrong():
    wrong, right = '{"name": 7}', '{"name": "root", "inner": [{"name": "leaf"}]}'
    replies = [
        wire.chat(wire.call(0, "c1", ANSWER_TOOL, said), finish="stop") for said in (wrong, right)
    ]
    value, [first, second] = await ask_over_http(OpenAIProvider, replies, Node)
    assert value == Node("root", [Node("leaf")])
    assert first["tool_choice"] == {"type": "function", "function": {"name": ANSWER_TOOL}}
    assert second["tools"] == first["tools"]
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["messages"][-1]["role"] == "tool"
    assert "name: Expected `str`, got `int`" in second["messages"][-1]["content"]

    replies = [
        wire.anthropic(*wire.tool_block(0, "c1", ANSWER_TOOL, said)) for said in (wrong, right)
    ]
    value, [first, second] = await ask_over_http(AnthropicProvider, replies, Node)
    assert value == Node("root", [Node("leaf")])
    assert first["tool_choice"] == {"type": "tool", "name": ANSWER_TOOL}
    assert second["messages"][-1]["content"][0]["is_error"]


async def test_openai_refuses_in_a_field_of_its_own():
    replies = [wire.chat({"refusal": "I can't."})]
    error, _ = await ask_over_http(NativeOpenAI, replies)
    assert isinstance(error, ModelContentFilterError)
    assert error.message == "the model refused to answer: I can't."


def test_a_schema_that_anthropic_can_not_enforce_is_refused_before_it_is_sent():
    llm = AnthropicProvider("m", api_key="sk-1", env={})
    request = dataclasses.replace(ASK, output=OutputType(dict[str, int]).schema)
    with pytest.raises(ModelBadRequestError, match="use generate_structured"):
        llm.encode(request)


def test_providers_say_of_a_schema_whether_they_can_enforce_it():
    city, node = OutputType(City).schema, OutputType(Node).schema
    anthropic = AnthropicProvider("m", api_key="sk-1", env={})
    assert anthropic.accepts_output(city)
    assert not anthropic.accepts_output(node)  # it holds itself
    assert OpenAIProvider("m", api_key="sk-1", env={}).accepts_output(node)
    elsewhere = OpenAIProvider("m", base_url="http://localhost:8000/v1", env={})
    assert not elsewhere.accepts_output(city)
