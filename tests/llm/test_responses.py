"""The Responses API: replies read as they came, requests written as it takes them."""

import random

import pytest
from msgspec.structs import replace

from greenroom.agents import run_tools, stream_reply
from greenroom.core import (
    ImageBlock,
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    TurnStatus,
)
from greenroom.llm import (
    AnthropicProvider,
    ModelBadRequestError,
    ModelError,
    ModelRequest,
    ModelSettings,
    ModelStreamError,
    OpenAIResponsesProvider,
)
from greenroom.llm._internal import HOSTS
from greenroom.llm.responses.decode import ResponsesDecoder
from greenroom.llm.stream import BlockDelta
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing._internal import request_from_wire, same_request
from greenroom.tools import ToolRegistry
from tests.agents.test_bound_thinking import ALL, look_up
from tests.llm import wire
from tests.llm.refusals import ClaudeServer, OpenAIServer, refuse_responses
from tests.llm.server import model_server
from tests.llm.test_request_rules import NAMES, TOOL, combine_settings

THOUGHT = wire.reasoning_item("rs_1", "First.", "encrypted")
CALL = wire.call_item("fc_1", "call_1", "look_up", '{"topic":"it"}')
TEXT = wire.message_item("msg_1", "Hello", " there")
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


def read(*items, size=1 << 30, **fields):
    events = wire.run(ResponsesDecoder(), wire.responses_stream(*items, **fields), size=size)
    return events, events[-1].message


@pytest.mark.parametrize("size", [1, 7, 1 << 30])
def test_a_reply_is_its_items_in_order(size):
    events, reply = read(THOUGHT, SEARCH, TEXT, CALL, size=size)
    thought, search, one, two, call = reply.content
    assert (thought.thinking, thought.signature) == ("First.", "encrypted")
    assert search.raw == SEARCH
    assert (one.text, two.text) == ("Hello", " there")
    assert (call.id, call.name, call.input) == ("call_1", "look_up", {"topic": "it"})
    assert (reply.stop_reason, reply.native_stop_reason) == (StopReason.TOOL_USE, "completed")
    assert (reply.provider, reply.api, reply.model) == ("openai", "responses", "gpt-test-1")
    usage = reply.usage
    counts = (usage.input_tokens, usage.cache_read_tokens, usage.output_tokens)
    assert (*counts, usage.reasoning_tokens) == (6, 4, 7, 2)
    said = {}
    for event in events:
        if isinstance(event, BlockDelta):
            said[event.kind] = said.get(event.kind, "") + event.text
    assert said == {"thinking": "First.", "text": "Hello there", "tool_input": '{"topic":"it"}'}


OTHER = wire.call_item("fc_2", "call_2", "look_up", '{"topic":"that"}')


@pytest.mark.parametrize(
    "change",
    [
        lambda event: event | {"output_index": 0},
        lambda event: {name: value for name, value in event.items() if name != "output_index"},
    ],
)
def test_a_known_id_counts_more_than_the_index(change):
    def altered(event):
        event = change(event) if "output_index" in event else event
        is_done = event["type"] == "response.output_item.done"
        if is_done and event["item"]["type"] == "function_call":  # only its pieces have arguments
            event["item"] = event["item"] | {"arguments": ""}
        return event

    events = [altered(event) for event in wire.responses_events(THOUGHT, TEXT, CALL, OTHER)]
    reply = wire.run(ResponsesDecoder(), wire.sse(*events))[-1].message
    assert [use.input for use in reply.tool_uses] == [{"topic": "it"}, {"topic": "that"}]
    assert reply.text == "Hello there"


def test_a_piece_of_another_kind_than_its_item_makes_the_reply_invalid():
    piece = {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{"}
    events = [*wire.responses_events(TEXT, CALL)][:2]
    with pytest.raises(ModelStreamError, match="belongs to none of its blocks"):
        wire.run(ResponsesDecoder(), wire.sse(*events, piece))


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_reply_that_ends_by_a_failure_is_an_error_that_is_retried(status):
    with pytest.raises(ModelStreamError, match="could not complete the reply") as caught:
        read(TEXT, status=status)
    assert caught.value.retryable


def test_a_character_split_over_two_pieces_is_shown_whole():
    at = {"output_index": 0, "content_index": 0, "item_id": "msg_1"}
    pieces = [
        {"type": "response.output_text.delta", "delta": piece} | at for piece in ("HIGH", "LOW")
    ]
    [_, added, *_] = wire.responses_events(TEXT)
    data = wire.sse(added, *pieces).replace(b"HIGH", rb"\ud83d").replace(b"LOW", rb"\ude00")
    with pytest.raises(ModelStreamError):
        wire.run(decoder := _Kept(), data)
    assert decoder.text == "😀"


class _Kept(ResponsesDecoder):
    """A decoder that keeps the text that it has told readers of."""

    text = ""

    def feed(self, event):
        events = list(super().feed(event))
        self.text += "".join(each.text for each in events if isinstance(each, BlockDelta))
        return events


@pytest.mark.parametrize("streamed", [True, False])
def test_it_goes_back_as_it_came(streamed):
    items = [THOUGHT, SEARCH, TEXT, CALL]
    if streamed:
        _, reply = read(*items)
    else:
        *_, end = ResponsesDecoder().whole(wire.response(*items))
        reply = end.message
    llm = OpenAIResponsesProvider("gpt-6.1-sol", api_key="k", env={})
    result = Message.user([ToolResultBlock("call_1", (TextBlock("All."),))])
    sent = llm.encode(ModelRequest(messages=[Message.user("hi"), reply, result]))["input"]
    assert sent[1:-1] == items
    assert sent[-1] == {"type": "function_call_output", "call_id": "call_1", "output": "All."}


def test_arguments_that_only_came_in_pieces_are_joined():
    events = list(wire.responses_events(CALL))
    for event in events:
        if event["type"] == "response.output_item.done":
            event["item"] = CALL | {"arguments": ""}
    reply = wire.run(ResponsesDecoder(), wire.sse(*events))[-1].message
    assert reply.tool_uses[0].input == {"topic": "it"}


CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_9", "name": "run"}


@pytest.mark.parametrize("provider", ["openai", "acme"])
def test_the_result_of_a_call_with_free_text_says_so(provider):
    _, reply = read(CUSTOM | {"input": "ls", "status": "completed"})
    reply = replace(reply, provider=provider)
    result = Message.user([ToolResultBlock("call_9", (TextBlock("a.py"),))])
    llm = OpenAIResponsesProvider("gpt-6.1-sol", api_key="k", env={})
    [_, call, sent] = llm.encode(ModelRequest(messages=[Message.user("hi"), reply, result]))[
        "input"
    ]
    assert sent["type"] == call["type"] + "_output"
    assert sent["call_id"] == call["call_id"]


def test_a_reply_that_was_cut_off_keeps_nothing_that_is_refused_alone():
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    for items in ([THOUGHT], [TEXT, THOUGHT], [THOUGHT, TEXT, THOUGHT]):
        _, reply = read(*items, **cut)
        assert reply.stop_reason is StopReason.MAX_TOKENS
        llm = OpenAIResponsesProvider("gpt-6.1-sol", api_key="k", env={})
        messages = [Message.user("hi"), reply, Message.user("Go on.")]
        assert not refuse_responses(llm.encode(ModelRequest(messages=messages)))
    _, reply = read(CALL, **cut)
    assert reply.tool_uses[0].invalid


def test_a_refusal_is_one():
    refusal = {"type": "refusal", "refusal": "No."}
    _, reply = read({**wire.message_item("msg_1"), "content": [refusal]})
    assert (reply.text, reply.stop_reason) == ("No.", StopReason.REFUSAL)


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"type": "error", "code": "rate_limit_exceeded", "message": "slow"}, ModelError),
        (
            {
                "type": "response.failed",
                "response": {"error": {"code": "server_error", "message": "broken"}},
            },
            ModelError,
        ),
        ({"type": "response.created", "response": {}}, ModelStreamError),
    ],
)
def test_a_failure_is_an_error(event, kind):
    with pytest.raises(kind):
        wire.run(ResponsesDecoder(), wire.sse(event))


def test_another_vendor_s_reply_is_sent_without_what_is_its_own():
    reply = Message(
        "assistant",
        (
            ThinkingBlock("hm", "signature"),
            TextBlock("Look.", {"citations": [1]}),
            ToolUseBlock("toolu_1", "look_up", {"topic": "it"}, extra={"caller": 1}),
        ),
        provider="anthropic",
        model="claude-opus-5",
    )
    image = ImageBlock("image/png", "aGk=")
    result = Message.user([ToolResultBlock("toolu_1", (TextBlock("It"), image), is_error=True)])
    llm = OpenAIResponsesProvider("gpt-6.1-sol", api_key="k", env={})
    sent = llm.encode(ModelRequest(messages=[Message.user("hi"), reply, result]))["input"]
    assert sent[1:] == [
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "Look."}],
        },
        {
            "type": "function_call",
            "call_id": "toolu_1",
            "name": "look_up",
            "arguments": '{"topic":"it"}',
        },
        {
            "type": "function_call_output",
            "call_id": "toolu_1",
            "output": [
                {"type": "input_text", "text": "Error:"},
                {"type": "input_text", "text": "It"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
            ],
        },
    ]


def test_a_recorded_request_is_written_again_as_it_was():
    body = {
        "model": "gpt-5.5",
        "input": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "input_text", "text": "hi"}]},
            {"role": "user", "content": "again"},
            THOUGHT,
            CALL,
            {"type": "function_call_output", "call_id": "call_1", "output": "All."},
            CUSTOM | {"input": "ls"},
            {"type": "custom_tool_call_output", "call_id": "call_9", "output": "a.py"},
            SEARCH,
            TEXT,
            {"type": "item_reference", "id": "msg_0"},
        ],
        "tools": [
            {"type": "web_search"},
            {
                "type": "function",
                "name": "look_up",
                "parameters": {"type": "object"},
                "strict": True,
            },
        ],
        "reasoning": {"effort": "low", "summary": "auto"},
        "store": True,
        "previous_response_id": "resp_0",
    }
    request = request_from_wire(body, "openai-responses")
    assert len(request.messages) == 11
    assert request.messages[7].tool_results[0].text == "a.py"
    assert request.effort == "low"
    llm = OpenAIResponsesProvider("gpt-5.5", api_key="k", env={})
    assert same_request(llm.encode(request), body)
    assert same_request(
        llm.encode(request_from_wire({"model": "gpt-5.5", "input": "hi"}, "openai-responses")),
        {"model": "gpt-5.5", "input": "hi"},
    )


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("claude")])
def test_every_model_takes_every_effort_with_tools(name):
    llm = OpenAIResponsesProvider(name, api_key="k", env={})
    for settings in combine_settings(llm):
        for tools in ((), (TOOL,)):
            body = llm.encode(ModelRequest(messages=[Message.user("hi")], tools=tools, **settings))
            assert not refuse_responses(body), body


def test_what_the_api_lacks_is_an_error_with_a_hint():
    llm = OpenAIResponsesProvider("gpt-4.1", api_key="k", env={})
    for settings in (ModelSettings(seed=1), ModelSettings(stop=["END"])):
        with pytest.raises(ModelBadRequestError, match="the Responses API has no") as refused:
            llm.encode(settings.complete(ModelRequest(messages=[Message.user("hi")])))
        assert refused.value.hint == "leave it out"


@pytest.mark.parametrize("seed", range(3))
async def test_no_change_makes_a_request_that_is_refused(seed):
    dice = random.Random(seed)
    openai, anthropic = OpenAIServer(), ClaudeServer()
    tools = ToolRegistry([look_up])
    async with model_server(openai) as address, model_server(anthropic) as other:
        models = [
            OpenAIResponsesProvider(
                name,
                api_key="k",
                base_url=f"{address.url}/v1",
                host=HOSTS["openai"],
                env={},
            )
            for name in ("gpt-6.1-sol", "gpt-5.4", "gpt-6-luna")
        ]
        models.append(AnthropicProvider("claude-opus-5-5", api_key="k", base_url=other.url, env={}))

        async def converse(agent):
            async for message in agent.inputs():
                async with agent.turn(message):
                    calls = True
                    while calls:
                        settings = ModelSettings(effort=dice.choice((None, "none", "high")))
                        llm = dice.choice(models)
                        reply = await stream_reply(agent, llm, tools, settings=settings)
                        calls = reply.tool_uses
                        await run_tools(agent, calls, tools, ALL)

        async with AgentRuntime(InMemoryStore()) as runtime:
            session = AgentSession.new("a")
            handle = runtime.spawn(session, converse)
            for _ in range(15):
                if dice.random() < 0.2 and len(session.history) > 4:
                    await session.compact("So far so good.", keep=dice.randrange(4))
                result = await handle.ask("And this?")
                refused = openai.refused, anthropic.refused
                assert result.status is TurnStatus.COMPLETED, (refused, result)
        for llm in models:
            await llm.aclose()
    assert not openai.refused + anthropic.refused
