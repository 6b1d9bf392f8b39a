"""Every provider of ours as a case of the suite, with answers in its wire format."""

from functools import partial

import trio

from greenroom.core import (
    Message,
    ModelRequest,
    Price,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.llm import (
    AnthropicProvider,
    GeminiProvider,
    OfflineProvider,
    OpenAIProvider,
    OpenAIResponsesProvider,
    RecordedProvider,
)
from greenroom.testing import Reply, ScriptedProvider
from greenroom.testing._internal import ProviderUnderTest
from greenroom.testing.provider_server import RecordedAnswer
from tests.llm import wire

CALLS = (
    ToolUseBlock("call_1", "look_up", {"topic": "it"}),
    ToolUseBlock("call_2", "look_up", {"topic": "that"}),
)
SPOILT = ToolUseBlock("call_3", "look_up", invalid="not JSON")


def answer(body, *blocks, stop_reason=StopReason.END_TURN, usage):
    reply = Message("assistant", blocks, stop_reason=stop_reason, usage=usage)
    return RecordedAnswer(reply, body)


def anthropic():
    usage = Usage(10, 7, 0)
    text = wire.text_block(0, "Hel", "lo ", "😀")
    thinking = wire.thinking_block(0, "Hm.", "signed")
    search = [
        wire.block_start(2, type="server_tool_use", id="srv_1", name="web_search", input={}),
        wire.block_stop(2),
        wire.block_start(3, type="web_search_tool_result", tool_use_id="srv_1", content=[]),
        wire.block_stop(3),
    ]
    calls = [
        *wire.tool_block(4, "call_1", "look_up", '{"topic"', ': "it"}'),
        *wire.tool_block(5, "call_2", "look_up", '{"topic": "that"}'),
    ]
    return [
        answer(wire.anthropic(*text), TextBlock("Hello 😀"), usage=usage),
        answer(
            wire.sse(
                wire.message_start(),
                *thinking,
                *wire.text_block(1, "Wait."),
                *search,
                *calls,
                wire.message_delta("tool_use"),
                wire.STOP,
            ),
            ThinkingBlock("Hm.", "signed"),
            TextBlock("Wait."),
            *CALLS,
            stop_reason=StopReason.TOOL_USE,
            usage=usage,
        ),
        answer(
            wire.sse(
                wire.message_start(),
                *wire.tool_block(0, "call_3", "look_up", '{"topic'),
                wire.message_delta("max_tokens", 100),
                wire.STOP,
            ),
            SPOILT,
            stop_reason=StopReason.MAX_TOKENS,
            usage=Usage(10, 100, 0),
        ),
    ]


def chat():
    usage = Usage(16, 9, 4, reasoning_tokens=3)
    calls = [
        wire.call(0, "call_1", "look_up", '{"topic"'),
        wire.call(0, arguments=': "it"}'),
        wire.call(1, "call_2", "look_up", '{"topic": "that"}'),
    ]
    spoilt = wire.call(0, "call_3", "look_up", '{"topic')
    return [
        answer(
            wire.chat({"content": "Hel"}, {"content": "lo "}, {"content": "😀"}),
            TextBlock("Hello 😀"),
            usage=usage,
        ),
        answer(
            wire.chat(
                {"reasoning_content": "Hm."}, {"content": "Wait."}, *calls, finish="tool_calls"
            ),
            ThinkingBlock("Hm."),
            TextBlock("Wait."),
            *CALLS,
            stop_reason=StopReason.TOOL_USE,
            usage=usage,
        ),
        answer(
            wire.chat(spoilt, finish="length"),
            SPOILT,
            stop_reason=StopReason.MAX_TOKENS,
            usage=usage,
        ),
    ]


def responses():
    usage = Usage(6, 7, 4, reasoning_tokens=2)
    text = wire.message_item("msg_1", "Hello 😀")
    calls = [
        wire.call_item("fc_1", "call_1", "look_up", '{"topic": "it"}'),
        wire.call_item("fc_2", "call_2", "look_up", '{"topic": "that"}'),
    ]
    thought = wire.reasoning_item("rs_1", "Hm.", "encrypted")
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    spoilt = wire.call_item("fc_3", "call_3", "look_up", '{"topic')
    limit = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    return [
        answer(
            wire.responses_stream(text, pieces=["Hel", "lo ", "😀"]),
            TextBlock("Hello 😀"),
            usage=usage,
        ),
        answer(
            wire.responses_stream(thought, search, wire.message_item("msg_2", "Wait."), *calls),
            ThinkingBlock("Hm.", "encrypted"),
            TextBlock("Wait."),
            *CALLS,
            stop_reason=StopReason.TOOL_USE,
            usage=usage,
        ),
        answer(
            wire.responses_stream(spoilt, **limit),
            SPOILT,
            stop_reason=StopReason.MAX_TOKENS,
            usage=usage,
        ),
    ]


def gemini():
    usage = Usage(6, 7, 4, reasoning_tokens=2)
    calls = [wire.function_part(call.name, call.input, call.id) for call in CALLS]
    code = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}}
    texts = map(wire.text_part, ("Hel", "lo ", "😀"))
    begun = {"functionCall": {"name": "look_up", "id": "call_3", "willContinue": True}}
    half = {"jsonPath": "$.topic", "stringValue": "i", "willContinue": True}
    piece = {"functionCall": {"partialArgs": [half], "willContinue": True}}
    return [
        answer(wire.gemini(*texts), TextBlock("Hello 😀"), usage=usage),
        answer(
            wire.gemini(
                wire.text_part("Hm.", thought=True), code, wire.text_part("Wait.", "s"), *calls
            ),
            ThinkingBlock("Hm."),
            TextBlock("Wait."),
            *CALLS,
            stop_reason=StopReason.TOOL_USE,
            usage=usage,
        ),
        answer(
            wire.gemini(begun, piece, finish="MAX_TOKENS"),
            ToolUseBlock("call_3", "look_up", {"topic": "i"}, invalid="cut off"),
            stop_reason=StopReason.MAX_TOKENS,
            usage=usage,
        ),
    ]


def said(provider, model):
    """The replies of a provider without a connection, which plays what it is given."""
    blocks = [ThinkingBlock("Hm.", "signed"), TextBlock("Wait."), *CALLS]
    return [
        Message("assistant", (TextBlock("Hello 😀"),), model, provider, StopReason.END_TURN),
        Message(
            "assistant", tuple(blocks), model, provider, StopReason.TOOL_USE, usage=Usage(6, 7)
        ),
    ]


def open_scripted(_url, _key):
    steps = [Reply(each.content, each.usage) for each in said("scripted", "script")]
    return ScriptedProvider(*steps, price=Price(1, 2))


def open_recorded(_url, _key):
    return RecordedProvider(said("recorded", "m-1"))


HELP = trio.run(OfflineProvider().generate, ModelRequest(messages=[Message.user("question")]))


def open_ours(provider, path, url, key):
    return provider("m-1", base_url=url + path, api_key=key, env={})


CASES = {
    "anthropic": ProviderUnderTest(partial(open_ours, AnthropicProvider, ""), anthropic()),
    "openai": ProviderUnderTest(partial(open_ours, OpenAIProvider, "/v1"), chat()),
    "responses": ProviderUnderTest(partial(open_ours, OpenAIResponsesProvider, "/v1"), responses()),
    "gemini": ProviderUnderTest(partial(open_ours, GeminiProvider, ""), gemini()),
    "scripted": ProviderUnderTest(
        open_scripted, [RecordedAnswer(each) for each in said("scripted", "script")]
    ),
    "recorded": ProviderUnderTest(
        open_recorded, [RecordedAnswer(each) for each in said("recorded", "m-1")]
    ),
    "offline": ProviderUnderTest(lambda _url, _key: OfflineProvider(), [RecordedAnswer(HELP)]),
}
