"""Events that are nothing but a piece of text are read by a shorter way, to the same end."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core._internal import serde
from greenroom.llm import BlockDelta, ModelError, SSEEvent
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.openai.decode import OpenAIDecoder
from greenroom.llm.responses.decode import ResponsesDecoder

PIECES = st.sampled_from(
    [
        "a",
        "",
        "Ab c",
        "\n",
        "é😀",
        "<think>",
        "</think>",
        "a\n<tool_call>",
        "</tool_call>",
        "{",
        "\u2028",
    ]
)
HALVES = (r"\ud83d", r"\ude00", r"x\ud83d", r"\ude00y", r"\ud83d\ude00")


def data(value):
    return serde.dumps(value).decode()


def finish(text, half, number):
    """Put half a character into an event, which no encoder writes, and an id of its own."""
    return text.replace("HALF", half).replace("CALL", f"call{number}")


def anthropic(draw, piece):
    index = draw(st.sampled_from([0, 0, 0, 0, 1, 2, None, True, 0.0, "0"]))
    kinds = {"text": "text_delta", "thinking": "thinking_delta", "partial_json": "input_json_delta"}
    field = draw(st.sampled_from(["text", "text", "text", "thinking", "partial_json"]))
    delta = {"type": kinds[field], field: piece} | draw(EXTRA)
    blocks = [
        {"type": "text", "text": draw(st.sampled_from(["", "first"]))},
        {"type": "thinking", "thinking": ""},
        {"type": "tool_use", "id": "CALL", "name": "look", "input": {}},
        {"type": "new"},
    ]
    start = {"content_block": draw(st.sampled_from([*blocks[:1] * 4, *blocks])), "index": index}
    kind = draw(st.sampled_from(["delta"] * 8 + ["start", "start", "stop"]))
    fields = {"delta": {"delta": delta, "index": index}, "start": start, "stop": {"index": index}}
    return {"type": f"content_block_{kind}"} | fields[kind] | draw(EXTRA)


def chat(draw, piece):
    delta = {"content": piece} | draw(EXTRA)
    others = [{}, {"role": "assistant"}, {"refusal": "no"}, {"reasoning_content": "hm"}]
    others += [{"reasoning": None, "tool_calls": None}, {"refusal": None, "role": None}]
    delta |= draw(st.sampled_from([{}] * 8 + others))
    index = draw(st.sampled_from([0] * 8 + [None, 1, False]))
    choice = {"index": index, "delta": delta, "finish_reason": None}
    choice |= draw(st.sampled_from([{}] * 8 + [{"logprobs": None}, {"finish_reason": ""}]))
    choice |= draw(EXTRA)
    many = draw(st.sampled_from([1] * 9 + [0, 2]))
    chunk = {"id": "c", "model": "m", "created": 1, "choices": [choice] * many} | draw(EXTRA)
    facts = [{"service_tier": "a"}, {"system_fingerprint": "f"}, {"system_fingerprint": "g"}]
    facts += [{"usage": None}, {"usage": {"prompt_tokens": 1}}, {"service_tier": None}]
    facts += [{"object": "chat.completion.chunk"}, {"object": "error"}, {"created": 1.5}]
    return chunk | draw(st.sampled_from([{}] * 5 + facts))


def responses(draw, piece):
    number = draw(st.sampled_from([0] * 8 + [1, 2, None]))
    item = {"output_index": number, "item_id": draw(st.sampled_from([f"i{number}"] * 8 + ["x"]))}
    part = draw(st.sampled_from([0] * 5 + [1, None]))
    delta = item | {"content_index": part, "delta": piece, "type": "response.output_text.delta"}
    delta |= draw(st.sampled_from([{}] * 6 + [{"logprobs": []}, {"logprobs": [{"a": 1}]}]))
    delta |= draw(EXTRA)
    refusal = delta | {"type": "response.refusal.delta"}
    kind = draw(st.sampled_from(["message"] * 4 + ["reasoning", "function_call"]))
    raw = {"type": kind, "id": f"i{number}", "call_id": "CALL", "name": "look"}
    added = item | {"type": "response.output_item.added", "item": raw}
    done = item | {"type": "response.output_item.done", "item": raw | {"content": []}}
    return draw(st.sampled_from([delta] * 8 + [refusal, added, added, added, done]))


EXTRA = st.sampled_from([{}] * 12 + [{"new": 1}, {"obfuscation": "x"}, {"new": None}])
BEGIN = {
    AnthropicDecoder: [
        {"type": "message_start", "message": {"id": "m", "model": "m"}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    ],
    OpenAIDecoder: [{"id": "c", "model": "m", "choices": [{"delta": {"role": "assistant"}}]}],
    ResponsesDecoder: [
        {"type": "response.created", "response": {"id": "r", "model": "m"}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {"type": "message", "id": "i0"},
        },
    ],
}
END = {
    AnthropicDecoder: [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ],
    OpenAIDecoder: [{"choices": [{"delta": {}, "finish_reason": "stop"}]}],
    ResponsesDecoder: [
        {"type": "response.completed", "response": {"status": "completed", "output": []}}
    ],
}
MAKE = {AnthropicDecoder: anthropic, OpenAIDecoder: chat, ResponsesDecoder: responses}


@st.composite
def replies(draw, decoder):
    """Write the events of a reply: most are pieces of text, and the rest is nearly that."""
    events = [data(each) for each in BEGIN[decoder]]
    for number in range(draw(st.integers(0, 12))):
        half = draw(st.sampled_from([""] * 9 + list(HALVES)))
        piece = draw(PIECES) + ("HALF" if half else "")
        event = finish(data(MAKE[decoder](draw, piece)), half, number)
        name = draw(st.sampled_from([""] * 9 + ["error", "content_block_delta"]))
        events.append(SSEEvent(event, name))
    events += [data(each) for each in END[decoder]]
    return [SSEEvent(each) if isinstance(each, str) else each for each in events]


def read(decoder, events):
    """Return what comes out, the last of it the error if there is one."""
    found = []
    try:
        for event in events:
            found += decoder.feed(event)
        found += decoder.close()
    except ModelError as error:
        found.append((type(error), error.message))
    return found


@pytest.mark.parametrize("kind", list(MAKE))
@pytest.mark.parametrize("tags", [False, True])
@given(drawn=st.data())
def test_a_piece_of_text_reads_the_same_by_the_shorter_way(kind, tags, drawn):
    given_tags = {"has_tags": True} if tags and kind is OpenAIDecoder else {}
    events = drawn.draw(replies(kind))
    shorter, longer = kind(**given_tags), kind(**given_tags)
    longer._read_lone = lambda _: None
    assert read(shorter, events) == read(longer, events)


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (
            AnthropicDecoder,
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": "a"},
            },
        ),
        (
            OpenAIDecoder,
            {
                "id": "c",
                "object": "chat.completion.chunk",
                "created": 1,
                "model": "m",
                "service_tier": None,
                "choices": [
                    {"index": 0, "delta": {"content": "a"}, "logprobs": None, "finish_reason": None}
                ],
                "usage": None,
                "obfuscation": "xyz",
            },
        ),
        (
            ResponsesDecoder,
            {
                "type": "response.output_text.delta",
                "item_id": "i0",
                "output_index": 0,
                "content_index": 0,
                "delta": "a",
                "logprobs": [],
                "obfuscation": "xyz",
                "sequence_number": 7,
            },
        ),
    ],
)
def test_what_the_vendors_send_takes_the_shorter_way(kind, event):
    decoder = kind()
    for each in BEGIN[kind]:
        decoder.feed(SSEEvent(data(each)))
    first, second = SSEEvent(data(event)), SSEEvent(data(event))
    decoder.feed(first)  # begins the text in some dialects
    decoder._reader.read = None  # the longer way
    assert [delta.text for delta in decoder.feed(second)] == ["a"]


def test_the_arguments_of_a_call_take_the_shorter_way():
    decoder = AnthropicDecoder()
    block = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    decoder.feed(SSEEvent(data(start), "content_block_start"))
    decoder._reader.read = None  # the longer way
    delta = {"type": "input_json_delta", "partial_json": '{"a"'}
    event = {"type": "content_block_delta", "index": 0, "delta": delta}
    (found,) = decoder.feed(SSEEvent(data(event), "content_block_delta"))
    assert found == BlockDelta(0, "tool_input", '{"a"')


@pytest.mark.parametrize(
    ("kind", "event"),
    [
        (
            AnthropicDecoder,
            {"index": 0, "delta": {"type": "text_delta", "text": "content_block_delta"}},
        ),
        (
            ResponsesDecoder,
            {"item_id": "i0", "output_index": 0, "content_index": 0, "delta": "a"},
        ),
    ],
)
def test_an_event_without_its_type_is_no_piece_of_text(kind, event):
    decoder = kind()
    for each in BEGIN[kind]:
        list(decoder.feed(SSEEvent(data(each))))
    list(decoder.feed(SSEEvent(data({"type": "response.output_text.delta"} | event))))
    assert decoder._read_lone(data(event)) is None
