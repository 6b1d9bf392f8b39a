"""Replies that were cut off at any event: the history they leave is one that every API accepts."""

import pytest

from greenroom.agents.guards import GuardedStream, Guards
from greenroom.core import (
    Message,
    ModelRequest,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
)
from greenroom.llm._internal import events_of
from greenroom.llm.gemini.decode import GeminiDecoder
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.recorded import replay
from greenroom.llm.responses.decode import ResponsesDecoder
from greenroom.llm.stream import Draft
from tests.llm import wire
from tests.llm.dialects import (
    encode_anthropic,
    encode_gemini,
    encode_openai,
    encode_responses,
)
from tests.llm.refusals import refuse_messages_of_chat, refuse_responses

ITEMS = [
    wire.reasoning_item("rs_1", "hm", "secret"),
    wire.call_item("fc_1_reasoned", "call_1", "look_up", '{"topic": "it"}'),
    wire.call_item("fc_2", "call_2", "look_up", '{"topic": "that"}'),
    wire.message_item("msg_1", "Hello."),
]


def cuts(decoder, data, provider="openai"):
    """Return the reply as it is after each of its events."""
    draft = Draft(provider)
    for event in wire.run(decoder, data):
        draft.add(event)
        yield draft.partial()


def history(reply):
    """A history with a reply, and the results of its calls."""
    results = [ToolResultBlock(call.id, (TextBlock("found"),)) for call in reply.tool_uses]
    return [Message.user("hi"), reply, Message.user([*results, TextBlock("go on")])]


def test_a_responses_reply_that_was_cut_off_anywhere_pairs_its_calls_in_each_api():
    replies = list(cuts(ResponsesDecoder(), wire.responses_stream(*ITEMS)))
    assert [len(each.tool_uses) for each in replies][-1] == 2
    for reply in replies:
        request = ModelRequest(messages=history(reply))
        chat = encode_openai(request)["messages"]
        assert refuse_messages_of_chat(chat) == ""
        assert all(call.keys() == {"id", "type", "function"} for call in calls_of(chat))
        assert refuse_responses(encode_responses(request, model="gpt-5.4")) == ""
        ids = {call.id for call in reply.tool_uses}
        claude = encode_anthropic(request)["messages"][-1]["content"]
        assert {each["tool_use_id"] for each in claude if "tool_use_id" in each} == ids
        gemini = encode_gemini(request)["contents"][-1]["parts"]
        assert {p["functionResponse"]["id"] for p in gemini if "functionResponse" in p} == ids


def calls_of(messages):
    return [call for message in messages for call in message.get("tool_calls", ())]


def test_a_reply_that_was_cut_off_keeps_its_reasoning_if_the_item_behind_it_is_complete():
    replies = list(cuts(ResponsesDecoder(), wire.responses_stream(*ITEMS)))
    by_calls = {len(each.tool_uses): each for each in replies if not each.text}
    for count, kinds in ((0, []), (1, ["reasoning", "function_call"])):
        sent = encode_responses(ModelRequest(messages=history(by_calls[count])))["input"]
        reply = [each for each in sent if each["type"] in ("reasoning", "function_call")]
        assert [each["type"] for each in reply] == kinds
    assert reply[0]["encrypted_content"] == "secret"


def test_reasoning_before_a_text_that_was_cut_off_is_left_out():
    items = [ITEMS[0], wire.message_item("msg_1_reasoned", "Hello.")]
    *cut, complete = cuts(ResponsesDecoder(), wire.responses_stream(*items))
    sent = [encode_responses(ModelRequest(messages=history(each)), model="gpt-5.4") for each in cut]
    assert not any(map(refuse_responses, sent))
    whole = encode_responses(ModelRequest(messages=history(complete)))["input"]
    half = next(each for reply, each in zip(cut, sent, strict=True) if reply.text == "Hel")
    assert [each["type"] for each in half["input"]] == ["message"] * 3
    assert [each["type"] for each in whole] == ["message", "reasoning", "message", "message"]


def test_a_cut_off_reply_says_where_it_came_from_as_the_complete_one_does():
    gemini = wire.gemini(wire.text_part("Hel"), wire.text_part("lo"))
    chat = wire.chat({"content": "Hel"}, {"content": "lo"})
    for decoder, data in (
        (GeminiDecoder(model="gemini-pro-latest"), gemini),
        (OpenAIDecoder(), chat),
        (ResponsesDecoder(), wire.responses_stream(ITEMS[-1])),
    ):
        *some, complete = cuts(decoder, data)
        assert complete.stop_reason is not StopReason.INTERRUPTED
        for each in some:
            assert each.stop_reason is StopReason.INTERRUPTED
            assert (each.model, each.api) == (complete.model, complete.api)
            assert each.extra.items() <= complete.extra.items()


def test_a_signature_goes_back_to_the_model_of_a_reply_that_was_cut_off():
    parts = wire.function_part("look_up", {"topic": "it"}, "c1", "signed"), wire.text_part("Hel")
    data = wire.gemini(*parts, modelVersion="gemini-3.5-pro-001")
    *_, cut, _ = cuts(GeminiDecoder(model="gemini-3.5-pro"), data, "google")
    assert cut.stop_reason is StopReason.INTERRUPTED
    request = ModelRequest(messages=history(cut))
    part, *_ = encode_gemini(request, model="gemini-3.5-pro")["contents"][1]["parts"]
    assert part["thoughtSignature"] == "signed"


@pytest.mark.parametrize("taken", [1, 2, 3])
async def test_a_guarded_reply_that_was_cut_off_keeps_its_prefix(taken):
    thought = ThinkingBlock("hm", "signature")
    reply = Message("assistant", (thought, TextBlock("one two")), prefix="p", api="responses")
    inner = replay(reply)
    inner.bind("p")
    assert len(list(events_of(reply))) > taken
    stream = GuardedStream(inner, Guards((), None), is_last=False)
    for _ in range(taken):
        await anext(stream)
    assert (stream.partial().prefix, stream.partial().api) == ("p", "responses")
