"""Anthropic's replies, translated."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    Message,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    Endpoint,
    ModelContextTooLongError,
    ModelOverloadedError,
    ModelRateLimitError,
    ModelStreamError,
    SSEEvent,
    StreamEnd,
)
from greenroom.llm._internal import BlockStart, Draft, Notice, StreamStart, UsageUpdate
from greenroom.llm.anthropic.decode import AnthropicDecoder
from greenroom.llm.http_stream import read_reply
from tests.llm.wire import (
    STOP,
    anthropic,
    block_start,
    block_stop,
    delta,
    message_delta,
    message_start,
    run,
    sse,
    text_block,
    tool_block,
)


def events_of(data, **options):
    return run(AnthropicDecoder(), data, **options)


def message_of(*events):
    return events_of(anthropic(*events))[-1].message


def test_a_plain_reply_gives_each_event_once_and_in_order():
    assert events_of(anthropic(*text_block(0, "Hel", "lo"))) == [
        StreamStart("claude-test-1", "msg_1"),
        UsageUpdate(Usage(10, 1, 0)),
        BlockStart(0, "text"),
        BlockDelta(0, "text", "Hel"),
        BlockDelta(0, "text", "lo"),
        BlockEnd(0, TextBlock("Hello")),
        UsageUpdate(Usage(10, 7, 0)),
        StreamEnd(
            Message(
                "assistant",
                (TextBlock("Hello"),),
                model="claude-test-1",
                provider="anthropic",
                stop_reason=StopReason.END_TURN,
                native_stop_reason="end_turn",
                response_id="msg_1",
                usage=Usage(10, 7, 0),
                extra={
                    "usage": {
                        "input_tokens": 10,
                        "output_tokens": 7,
                        "cache_read_input_tokens": 0,
                    }
                },
            )
        ),
    ]


def test_counts_are_the_last_ones_that_are_not_null_and_never_a_sum():
    data = sse(
        message_start(usage={"input_tokens": 5, "output_tokens": 3, "cache_read_input_tokens": 2}),
        message_delta(
            output_tokens=8,
            input_tokens=6,
            cache_read_input_tokens=None,
            cache_creation_input_tokens=9,
            output_tokens_details={"thinking_tokens": 4},
        ),
        STOP,
    )
    assert events_of(data)[-1].message.usage == Usage(6, 8, 2, 9, 4)


def test_a_reply_without_counts_has_no_usage():
    data = sse(message_start(usage=None), {"type": "message_delta", "delta": {}}, STOP)
    reply = events_of(data)[-1].message
    assert reply.usage is None
    assert reply.stop_reason is StopReason.UNKNOWN


def test_calls_come_in_parallel_and_their_arguments_in_pieces():
    reply = message_of(
        *tool_block(0, "t1", "Read", "", '{"file_pa', 'th": "a.', 'py"}'),
        *tool_block(1, "t2", "Glob", '{"pattern": "*"}'),
    )
    assert reply.tool_uses == (
        ToolUseBlock("t1", "Read", {"file_path": "a.py"}),
        ToolUseBlock("t2", "Glob", {"pattern": "*"}),
    )


def test_blocks_that_interleave_are_told_apart():
    reply = message_of(
        block_start(0, type="text", text=""),
        block_start(1, type="text", text="B"),
        delta(1, "text_delta", text="b"),
        delta(0, "text_delta", text="a"),
        block_stop(1),
        block_stop(0),
    )
    assert reply.content == (TextBlock("a"), TextBlock("Bb"))


@pytest.mark.parametrize("pieces", [(), ("",), ("", "")])
def test_a_call_without_argument_text_has_empty_arguments(pieces):
    assert message_of(*tool_block(0, "t1", "Now", *pieces)).tool_uses == (
        ToolUseBlock("t1", "Now"),
    )


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
@pytest.mark.parametrize("pieces", [(), ("",), ('{"file_',)])
def test_a_call_that_the_limit_cut_off_is_invalid(pieces, reason):
    events = [*tool_block(0, "t1", "Now"), *tool_block(1, "t2", "Read", *pieces)]
    reply = events_of(sse(message_start(), *events, message_delta(reason), STOP))[-1].message
    whole, cut = reply.tool_uses
    assert not whole.invalid
    assert cut.invalid == "the reply was cut off by max_tokens"
    assert cut.raw_input == "".join(pieces)


@pytest.mark.parametrize("rest", [[], text_block(1, "so")])
def test_a_whole_call_before_the_limit_is_valid(rest):
    events = [*tool_block(0, "t1", "Now", "{}"), *rest]
    reply = events_of(sse(message_start(), *events, message_delta("max_tokens"), STOP))[-1].message
    assert not reply.tool_uses[0].invalid


def test_arguments_that_came_with_the_start_count():
    reply = message_of(
        block_start(0, type="tool_use", id="t1", name="Read", input={"file_path": "a"}),
        block_stop(0),
    )
    assert reply.tool_uses[0].input == {"file_path": "a"}


@pytest.mark.parametrize("text", ['{"a": 1', "[1]", "null", '{"a": 1, "a": 2}', '{"a": NaN}'])
def test_arguments_that_can_not_be_used_make_the_call_invalid(text):
    use = message_of(*tool_block(0, "t1", "Read", text)).tool_uses[0]
    assert use.invalid
    assert use.raw_input == text
    assert use.input == {}


def test_a_call_without_id_or_with_one_used_before_gets_its_own():
    uses = message_of(
        *tool_block(0, "", "A"), *tool_block(1, "t", "B"), *tool_block(2, "t", "C")
    ).tool_uses
    assert uses[1].id == "t"
    assert len({use.id for use in uses} - {""}) == 3


def test_thinking_keeps_its_signature_even_where_its_text_is_empty():
    reply = message_of(
        block_start(0, type="thinking", thinking="", signature=""),
        delta(0, "thinking_delta", thinking="so"),
        delta(0, "signature_delta", signature="sig-1"),
        block_stop(0),
        block_start(1, type="thinking", thinking=""),
        delta(1, "signature_delta", signature="sig-2"),
        block_stop(1),
    )
    assert reply.content == (ThinkingBlock("so", "sig-1"), ThinkingBlock("", "sig-2"))


def test_redacted_thinking_comes_whole_with_its_start():
    reply = message_of(block_start(0, type="redacted_thinking", data="xyz"), block_stop(0))
    assert reply.content == (RedactedThinkingBlock("xyz"),)


def test_citations_are_kept_with_their_text():
    reply = message_of(
        block_start(0, type="text", text="", citations=[]),
        delta(0, "text_delta", text="Paris"),
        delta(0, "citations_delta", citation={"url": "http://a"}),
        delta(0, "citations_delta", citation={"url": "http://b"}),
        block_stop(0),
    )
    assert reply.content == (
        TextBlock("Paris", {"citations": [{"url": "http://a"}, {"url": "http://b"}]}),
    )


def test_blocks_of_unknown_kinds_are_kept_verbatim_with_their_streamed_input():
    found = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u"}]}
    reply = message_of(
        block_start(0, type="server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"query": '),
        delta(0, "input_json_delta", partial_json='"x"}'),
        block_stop(0),
        block_start(1, **found),
        block_stop(1),
    )
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}}
    assert reply.content == (UnknownBlock(search), UnknownBlock(found))


def test_a_server_tool_whose_input_is_cut_keeps_what_its_start_said():
    reply = message_of(
        block_start(0, type="server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json='{"que'),
        block_stop(0),
    )
    assert reply.content[0].raw["input"] == {}


def test_a_server_tool_whose_input_could_not_be_sent_back_keeps_what_its_start_said():
    deep = '{"a": ' * 300 + "1" + "}" * 300
    reply = message_of(
        block_start(0, type="server_tool_use", id="s1", name="web_search", input={}),
        delta(0, "input_json_delta", partial_json=deep),
        block_stop(0),
    )
    assert reply.content[0].raw["input"] == {}


@pytest.mark.parametrize("kind", ["tool_use", "web_search_tool_result"])
def test_what_is_nested_too_deeply_to_be_sent_back_breaks_the_stream(kind):
    deep = '{"a": ' * 300 + "1" + "}" * 300
    block = f'{{"type": "{kind}", "id": "t1", "name": "Read", "input": {deep}, "content": {deep}}}'
    event = f'{{"type": "content_block_start", "index": 0, "content_block": {block}}}'
    with pytest.raises(ModelStreamError, match="nested"):
        AnthropicDecoder().feed(SSEEvent(event))
    with pytest.raises(ModelStreamError, match="nested"):
        read_reply(f'{{"content": [{block}]}}'.encode(), Endpoint("acme", "https://a.b", {}))


def test_pieces_of_unknown_kinds_are_merged_and_noticed():
    events = events_of(
        anthropic(
            block_start(0, type="compaction", content=None),
            delta(0, "compaction_delta", content="summary"),
            block_stop(0),
        )
    )
    assert Notice("compaction_delta") in events
    assert events[-1].message.content == (
        UnknownBlock({"type": "compaction", "content": "summary"}),
    )


def test_pings_and_unknown_events_become_notices():
    events = events_of(anthropic({"type": "ping"}, {"type": "news", "x": 1}, *text_block(0, "a")))
    assert Notice("ping") in events
    assert Notice("news") in events
    assert events[-1].message.text == "a"


def test_an_event_whose_name_stands_only_outside_its_data_is_noticed_by_it():
    events = events_of(b"event: keepalive\ndata: {}\n\n" + anthropic())
    assert events[0] == Notice("keepalive")


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("end_turn", StopReason.END_TURN),
        ("tool_use", StopReason.TOOL_USE),
        ("max_tokens", StopReason.MAX_TOKENS),
        ("model_context_window_exceeded", StopReason.MAX_TOKENS),
        ("stop_sequence", StopReason.STOP_SEQUENCE),
        ("refusal", StopReason.REFUSAL),
        ("pause_turn", StopReason.PAUSE),
        ("novelty", StopReason.UNKNOWN),
    ],
)
def test_each_stop_reason_has_one_of_ours(native, reason):
    reply = events_of(sse(message_start(), message_delta(native), STOP))[-1].message
    assert (reply.stop_reason, reply.native_stop_reason) == (reason, native)


@pytest.mark.parametrize("native", ["error", "server_error", "model_timeout"])
def test_a_reply_that_ends_by_a_failure_is_an_error_that_is_retried(native):
    data = sse(message_start(), *text_block(0, "a"), message_delta(native), STOP)
    with pytest.raises(ModelStreamError, match="could not complete the reply") as caught:
        events_of(data)
    assert caught.value.retryable


def test_a_reply_may_be_empty():
    assert message_of().content == ()


def test_other_fields_of_the_reply_are_kept():
    data = sse(
        message_start(container={"id": "c1"}),
        {"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": {"k": 1}}},
        STOP,
    )
    extra = events_of(data)[-1].message.extra
    assert extra["container"] == {"id": "c1"}
    assert extra["stop_details"] == {"k": 1}


def test_a_block_that_was_not_ended_is_ended_with_the_reply():
    data = sse(message_start(), block_start(0, type="text", text="a"), message_delta(), STOP)
    assert events_of(data)[-1].message.text == "a"


@pytest.mark.parametrize("ends", [True, False])
def test_a_block_under_an_index_that_was_used_replaces_none(ends):
    # Gateways that translate another API begin every block under index 0.
    blocks = (
        text_block(0, "Let me see."),
        tool_block(0, "t1", "Read", "{}"),
        text_block(1, "Done."),
    )
    pieces = [piece for each in blocks for piece in (each if ends else each[:-1])]
    events = events_of(anthropic(*pieces))
    text, call, rest = events[-1].message.content
    assert (text.text, call.name, rest.text) == ("Let me see.", "Read", "Done.")
    seen = Draft("anthropic")
    for event in events[:-1]:
        seen.add(event)
    assert seen.partial().content == (text, call, rest)


@pytest.mark.parametrize(("kind", "field"), [("text", "text"), ("thinking", "thinking")])
def test_text_that_comes_with_the_start_of_its_block_is_shown(kind, field):
    piece = delta(0, f"{kind}_delta", **{field: "lo"})
    data = anthropic(block_start(0, **{"type": kind, field: "Hel"}), piece, block_stop(0))
    events = events_of(data)
    shown = [(each.kind, each.text) for each in events if isinstance(each, BlockDelta)]
    assert shown == [(kind, "Hel"), (kind, "lo")]
    assert getattr(events[-1].message.content[0], field) == "Hello"


def test_the_end_of_a_block_that_is_not_open_is_noticed():
    assert Notice("content_block_stop", "block 3 is not open") in events_of(
        anthropic(block_stop(3))
    )


def test_a_piece_without_an_index_belongs_to_the_latest_block_that_is_open():
    events = tool_block(0, "a", "Read", '{"file_path": "x"}') + tool_block(1, "b", "Now", "{}")
    bare = [
        {k: v for k, v in each.items() if k != "index" or "content_block" in each}
        for each in events
    ]
    assert message_of(*bare).tool_uses == (
        ToolUseBlock("a", "Read", {"file_path": "x"}),
        ToolUseBlock("b", "Now"),
    )


@pytest.mark.parametrize(
    ("block", "piece"),
    [
        ({"type": "text", "text": ""}, delta(1, "input_json_delta", partial_json='{"a": 1}')),
        ({"type": "thinking", "thinking": ""}, delta(1, "text_delta", text="a")),
        ({"type": "tool_use", "id": "b", "name": "Now"}, delta(1, "text_delta", text="a")),
    ],
)
def test_a_piece_of_another_kind_than_its_block_makes_the_reply_invalid(block, piece):
    call = block_start(0, type="tool_use", id="a", name="Read", input={})
    with pytest.raises(ModelStreamError, match="belongs to none of its blocks") as caught:
        message_of(call, block_start(1, **block), piece)
    assert caught.value.retryable


def test_a_piece_of_a_block_that_is_not_open_breaks_the_stream():
    with pytest.raises(ModelStreamError, match="block 4, which is not open"):
        events_of(anthropic(delta(4, "text_delta", text="x")))


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("overloaded_error", ModelOverloadedError),
        ("rate_limit_error", ModelRateLimitError),
        ("something_new", ModelStreamError),
    ],
)
def test_an_error_in_the_stream_is_raised_by_its_kind(kind, error):
    data = {"type": "error", "error": {"type": kind, "message": "Over"}, "request_id": "req_1"}
    with pytest.raises(error, match="Over") as caught:
        events_of(sse(message_start(), data))
    assert caught.value.code == kind
    assert caught.value.request_id == "req_1"


def test_an_overflow_is_told_by_its_words():
    data = {"type": "error", "error": {"type": "x", "message": "prompt is too long: 9 > 8"}}
    with pytest.raises(ModelContextTooLongError):
        events_of(sse(data))


def test_an_event_that_is_no_json_breaks_the_stream():
    with pytest.raises(ModelStreamError, match="not JSON"):
        events_of(b"data: {oops\n\n")


def test_half_a_surrogate_pair_costs_one_character_and_not_the_reply():
    data = rb'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"'
    data = (
        sse(message_start(), block_start(0, type="text", text=""))
        + data
        + rb'a\ud83d\ude00 \uD83D \\ud83d"}}'
        + b"\n\n"
        + sse(message_delta(), STOP)
    )
    assert events_of(data)[-1].message.text == "a😀 \ufffd \\ud83d"


REPLY = anthropic(
    block_start(0, type="thinking", thinking="", signature=""),
    delta(0, "thinking_delta", thinking="é€😀"),
    delta(0, "signature_delta", signature="s"),
    block_stop(0),
    *text_block(1, "Grüße ", "\u2028 😀"),
    *tool_block(2, "t1", "Read", '{"file_path"', ': "ü.py"}'),
)


@given(st.integers(1, 40))
def test_a_reply_is_the_same_however_its_bytes_are_cut(size):
    assert events_of(REPLY, size=size) == events_of(REPLY)


@given(st.integers(0, len(REPLY) - 1))
def test_a_reply_that_is_cut_anywhere_is_never_complete(cut):
    end = REPLY.index(b'"message_stop"') + len(b'"message_stop"}')
    draft, decoder = Draft("anthropic"), AnthropicDecoder()
    if cut >= end:
        assert events_of(REPLY[:cut])[-1] == events_of(REPLY)[-1]
        return
    with pytest.raises(ModelStreamError):
        run(_Kept(decoder, draft), REPLY[:cut])
    partial = draft.partial()
    assert partial.stop_reason is StopReason.INTERRUPTED
    assert "Grüße \u2028 😀".startswith(partial.text)
    assert not any(use.invalid for use in partial.tool_uses)


class _Kept:
    """A decoder whose events also go into a draft."""

    def __init__(self, decoder, draft):
        self._decoder, self._draft = decoder, draft

    def feed(self, event):
        return [self._keep(made) for made in self._decoder.feed(event)]

    def close(self):
        return [self._keep(made) for made in self._decoder.close()]

    def _keep(self, event):
        self._draft.add(event)
        return event


def test_after_a_fallback_the_reply_names_the_model_that_answered():
    hops = [("claude-test-1", "claude-b"), ("claude-b", "claude-c")]
    blocks = [
        {"type": "fallback", "from": {"model": old}, "to": {"model": new}, "trigger": {}}
        for old, new in hops
    ]
    streamed = [e for i, b in enumerate(blocks) for e in (block_start(i, **b), block_stop(i))]
    reply = message_of(*streamed, *text_block(2, "Yes."))
    assert (reply.model, reply.text) == ("claude-c", "Yes.")
    assert reply.content[0] == UnknownBlock(blocks[0])


def test_fields_beside_the_last_delta_are_kept():
    edits = {"applied_edits": []}
    data = sse(message_start(), message_delta() | {"context_management": edits}, STOP)
    assert events_of(data)[-1].message.extra["context_management"] == edits


def test_an_answer_in_one_piece_is_the_reply_that_the_stream_would_be():
    content = [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "Hello", "citations": [{"cited_text": "x"}]},
        {"type": "tool_use", "id": "t1", "name": "A", "input": {"b": 1}},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}},
    ]
    whole = message_start()["message"] | {"content": content, "stop_reason": "tool_use"}
    events = list(AnthropicDecoder().whole(whole))
    reply = events[-1].message
    assert reply.content == (
        ThinkingBlock("hm", "s"),
        TextBlock("Hello", {"citations": [{"cited_text": "x"}]}),
        ToolUseBlock("t1", "A", {"b": 1}),
        UnknownBlock(content[3]),
    )
    assert (reply.stop_reason, reply.usage) == (StopReason.TOOL_USE, Usage(10, 1, 0))
    assert (
        "".join(e.text for e in events if isinstance(e, BlockDelta) and e.kind == "text") == "Hello"
    )


@pytest.mark.parametrize("answer", [{}, [], None, {"content": "text"}])
def test_json_that_is_not_a_reply_is_refused(answer):
    with pytest.raises(ModelStreamError, match="not a reply"):
        list(AnthropicDecoder().whole(answer))


def test_an_answer_in_one_piece_may_be_an_error():
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}
    with pytest.raises(ModelOverloadedError):
        list(AnthropicDecoder().whole(error))
