"""Replies of Chat Completions, translated."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    Message,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    UnknownBlock,
    Usage,
)
from greenroom.core._internal import serde
from greenroom.llm import (
    BlockDelta,
    BlockEnd,
    ModelBadRequestError,
    ModelRateLimitError,
    ModelStreamError,
    StreamEnd,
)
from greenroom.llm._internal import BlockStart, Notice, StreamStart, UsageUpdate
from greenroom.llm.openai.decode import OpenAIDecoder
from tests.llm.wire import USAGE, call, chat, chunk, run, sse


def events_of(data, **options):
    return run(OpenAIDecoder(), data, **options)


def reply_to(*deltas, **options):
    return events_of(chat(*deltas, **options))[-1].message


def raw(*chunks):
    return sse(*chunks, named=False)


def test_a_plain_reply_gives_each_event_once_and_in_order():
    assert events_of(chat({"content": "Hel"}, {"content": "lo"})) == [
        StreamStart("gpt-test", "chatcmpl-1"),
        BlockStart(0, "text"),
        BlockDelta(0, "text", "Hel"),
        BlockDelta(0, "text", "lo"),
        UsageUpdate(Usage(16, 9, 4, None, 3)),
        BlockEnd(0, TextBlock("Hello")),
        StreamEnd(
            Message(
                "assistant",
                (TextBlock("Hello"),),
                model="gpt-test",
                provider="openai",
                stop_reason=StopReason.END_TURN,
                native_stop_reason="stop",
                response_id="chatcmpl-1",
                usage=Usage(16, 9, 4, None, 3),
                extra={"usage": USAGE},
            )
        ),
    ]


# How a reply ends


def test_without_the_mark_of_the_end_a_finish_reason_ends_the_reply_with_the_stream():
    data = raw(chunk({"content": "a"}), chunk({}, "stop"), chunk(usage=USAGE))
    assert events_of(data)[-1].message.usage == Usage(16, 9, 4, None, 3)


def test_with_neither_the_reply_is_not_complete():
    with pytest.raises(ModelStreamError, match="before the reply was complete"):
        events_of(raw(chunk({"content": "a"})))


def test_the_mark_of_the_end_suffices_where_the_finish_reason_is_blank():
    reply = events_of(raw(chunk({"content": "a"}), chunk({}, ""), "[DONE]"))[-1].message
    assert (reply.stop_reason, reply.native_stop_reason) == (StopReason.UNKNOWN, "")


@pytest.mark.parametrize("counts", [[], [chunk({}, usage=USAGE), chunk({"content": " more"})]])
def test_the_mark_of_the_end_alone_completes_nothing(counts):
    with pytest.raises(ModelStreamError, match="before the reply was complete"):
        events_of(raw(chunk({"content": "cut"}), *counts, "[DONE]"))


def test_where_no_reason_is_given_counts_and_the_mark_of_the_end_complete_a_reply():
    reply = events_of(raw(chunk({"content": "all"}), chunk({"content": ""}, usage=USAGE), "[DONE]"))
    assert reply[-1].message.text == "all"


def test_a_finish_reason_that_is_repeated_counts_once_and_a_later_null_changes_nothing():
    data = raw(chunk({"content": "a"}, "length"), chunk({}, "length"), chunk({}, None), "[DONE]")
    assert events_of(data)[-1].message.stop_reason is StopReason.MAX_TOKENS


@pytest.mark.parametrize(
    ("native", "reason"),
    [
        ("stop", StopReason.END_TURN),
        ("length", StopReason.MAX_TOKENS),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("STOP", StopReason.END_TURN),
        ("content_filter", StopReason.CONTENT_FILTER),
        ("tool_calls", StopReason.END_TURN),
        ("novelty", StopReason.UNKNOWN),
    ],
)
def test_each_finish_reason_has_one_of_ours(native, reason):
    reply = reply_to({"content": "a"}, finish=native)
    assert (reply.stop_reason, reply.native_stop_reason) == (reason, native)


FAILURES = [
    "error",
    "insufficient_system_resource",
    "network_error",
    "engine_overloaded",
    "abort",
    "cancelled",
    "function_call_filter: MALFORMED_FUNCTION_CALL",
]


@pytest.mark.parametrize("native", FAILURES)
@pytest.mark.parametrize("delta", [{"content": "a"}, call(0, "c1", "Now", "{}")])
def test_a_reply_that_ends_by_a_failure_is_an_error_that_is_retried(native, delta):
    with pytest.raises(ModelStreamError, match="could not complete the reply") as caught:
        reply_to(delta, finish=native)
    assert caught.value.retryable
    assert caught.value.code == native


@pytest.mark.parametrize("finish", ["error", "stop", None])
def test_the_error_of_a_choice_is_a_failure_of_the_reply(finish):
    error = {"code": 502, "message": "upstream is down"}
    choice = {"index": 0, "delta": {}, "finish_reason": finish, "error": error}
    for rest in ([], ["[DONE]"]):
        with pytest.raises(ModelStreamError, match="upstream is down") as caught:
            events_of(raw(chunk({"content": "a"}), chunk(choices=[choice]), *rest))
        assert caught.value.retryable
        assert caught.value.code == "502"


def test_an_answer_in_one_piece_may_be_a_failure():
    answer = {"choices": [{"message": {"content": "a"}, "finish_reason": "error"}]}
    with pytest.raises(ModelStreamError, match="could not complete the reply"):
        OpenAIDecoder().whole(answer)


@pytest.mark.parametrize("native", ["tool_calls", "stop", "", "function_call", "novelty"])
def test_a_reply_with_calls_asks_for_tools_whatever_its_finish_reason_says(native):
    assert reply_to(call(0, "c1", "Now", "{}"), finish=native).stop_reason is StopReason.TOOL_USE


def test_a_reply_that_ran_into_its_limit_says_so_though_it_holds_a_call():
    reply = reply_to(call(0, "c1", "Read", '{"file_'), finish="length")
    assert reply.stop_reason is StopReason.MAX_TOKENS
    assert reply.tool_uses[0].invalid


@pytest.mark.parametrize("pieces", [(), ("",), ('{"file_',)])
def test_a_call_that_the_limit_cut_off_is_invalid(pieces):
    begun = [call(0, "c1", "Read", '{"a":1}'), call(1, "c2", "Read")]
    reply = reply_to(*begun, *(call(1, arguments=piece) for piece in pieces), finish="length")
    whole, cut = reply.tool_uses
    assert not whole.invalid
    assert cut.invalid == "the reply was cut off by max_tokens"
    assert cut.raw_input == "".join(pieces)


def test_a_whole_call_before_the_limit_is_valid():
    (use,) = reply_to(call(0, "c1", "Now", "{}"), finish="length").tool_uses
    assert not use.invalid


# What stands around the choices


def test_a_chunk_without_choices_before_the_reply_begins_nothing():
    data = raw(chunk(model="", id="", prompt_filter_results=[1])) + chat({"content": "a"})
    events = events_of(data)
    assert events[0] == StreamStart("gpt-test", "chatcmpl-1")
    assert events[-1].message.extra["prompt_filter_results"] == [1]


@pytest.mark.parametrize("choices", [None, [], [{"index": 0}], [{"index": 0, "delta": None}]])
def test_choices_without_a_delta_are_fine(choices):
    data = raw(chunk({"content": "a"}), chunk() | {"choices": choices}, chunk({}, "stop"))
    assert events_of(data)[-1].message.text == "a"


def test_only_the_first_of_several_choices_is_read():
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    events = events_of(raw(chunk({"content": "yes"}), chunk() | other, chunk({}, "stop")))
    assert events[-1].message.text == "yes"
    assert events[-1].message.stop_reason is StopReason.END_TURN
    assert Notice("choice", "only the first choice of a reply is read") in events


def test_events_of_unknown_kinds_are_noticed():
    data = raw({"object": "news"}) + b"event: keepalive\ndata: {}\n\n" + raw({}) + chat()
    assert events_of(data)[:3] == [Notice("news"), Notice("keepalive"), Notice("unknown")]


def test_comments_are_passed_over():
    assert (
        events_of(b": OPENROUTER PROCESSING\n\n" + chat({"content": "a"}))[-1].message.text == "a"
    )


def test_unknown_fields_of_a_delta_are_kept_and_lists_of_them_joined():
    reply = reply_to({"content": "a", "annotations": [1], "channel": "final"}, {"annotations": [2]})
    assert reply.extra["annotations"] == [1, 2]
    assert reply.extra["channel"] == "final"


# Counts


def counts(*reports):
    data = raw(chunk({"content": "a"}, "stop"), *(chunk(**report) for report in reports), "[DONE]")
    return events_of(data)[-1].message.usage


def test_counts_that_are_repeated_replace_each_other():
    first = {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}
    second = {"usage": {"prompt_tokens": 3, "completion_tokens": 5}}
    assert counts(first, second, {"usage": None}) == Usage(3, 5)


def test_counts_may_be_missing():
    assert counts() is None


def test_groq_hides_its_counts():
    assert counts({"x_groq": {"usage": {"prompt_tokens": 3, "completion_tokens": 1}}}) == Usage(
        3, 1
    )


@pytest.mark.parametrize(
    ("report", "usage"),
    [
        ({"prompt_tokens": 9, "prompt_cache_hit_tokens": 4}, Usage(5, None, 4)),
        ({"prompt_tokens": 9, "cache_read_input_tokens": 0}, Usage(9, None, 0)),
        (
            {
                "prompt_tokens": 9,
                "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 3},
            },
            Usage(4, None, 2, 3),
        ),
        ({"prompt_tokens": 9, "cache_creation_input_tokens": 1}, Usage(8, None, None, 1)),
        # A server whose prompt count leaves the cached tokens out.
        (
            {"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 161}},
            Usage(10, None, 161),
        ),
        ({"completion_tokens": "many"}, Usage()),
    ],
)
def test_cached_tokens_are_told_apart_from_the_others(report, usage):
    assert counts({"usage": report}) == usage


# Reasoning


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_is_read_under_either_name_and_remembers_it(field):
    reply = reply_to({field: "so "}, {field: "what"}, {field: None}, {"content": "Hi"})
    assert reply.content == (
        ThinkingBlock("so what", extra={"field": field}),
        TextBlock("Hi"),
    )


def test_a_piece_of_reasoning_under_both_names_counts_once():
    reply = reply_to({"reasoning": "a", "reasoning_content": "a"}, {"content": "b"})
    assert reply.content[0].thinking == "a"


def test_reasoning_and_text_in_turns_keep_their_order():
    reply = reply_to(
        {"reasoning": "1", "content": ""}, {"content": "2"}, {"reasoning": "3"}, {"content": "4"}
    )
    said = [getattr(block, "thinking", "") or block.text for block in reply.content]
    assert said == ["1", "2", "3", "4"]


def test_details_of_reasoning_grow_and_the_signature_that_comes_last_counts():
    def details(**fields):
        return {"reasoning_details": [{"type": "reasoning.text", "index": 0, **fields}]}

    reply = reply_to(
        {"reasoning": "a"} | details(text="a", signature=""),
        {"reasoning": "b"} | details(text="b", signature="", format=None),
        {"reasoning": ""} | details(signature="sig", format="v1"),
        {"content": "x"},
    )
    thinking = reply.content[0]
    assert thinking.thinking == "ab"
    assert thinking.extra["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig", "format": "v1"}
    ]


def test_encrypted_reasoning_without_text_is_kept_as_it_is():
    secret = {"type": "reasoning.encrypted", "data": "xyz"}
    reply = reply_to({"reasoning_details": [secret, secret]}, {"content": "x"})
    assert reply.content[0] == ThinkingBlock("", extra={"reasoning_details": [secret, secret]})


def test_a_content_that_is_a_list_is_read_part_by_part():
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    reply = reply_to(
        {"content": [thought]},
        {"content": [{"type": "text", "text": "so"}, {"type": "reference", "ids": [1]}]},
        {"content": " on"},
    )
    assert reply.content == (
        ThinkingBlock("hm", extra={"field": "content"}),
        TextBlock("so"),
        UnknownBlock({"type": "reference", "ids": [1]}),
        TextBlock(" on"),
    )


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"city": "Köln", "type": "town"}, '{"city":"Köln","type":"town"}'),
        ([{"city": "Köln"}], '[{"city":"Köln"}]'),
        ([1, "a"], '[1,"a"]'),
        (42, "42"),
        ({}, "{}"),
        ([], ""),
        (None, ""),
    ],
)
def test_a_content_that_is_json_is_its_text(content, text):
    assert reply_to({"content": content}).text == text
    answer = {"choices": [{"message": {"content": content}, "finish_reason": "stop"}]}
    assert list(OpenAIDecoder().whole(answer))[-1].message.text == text


def test_a_refusal_is_text_that_is_marked_as_one():
    reply = reply_to({"refusal": "I "}, {"refusal": "won't"})
    assert reply.content == (TextBlock("I won't", {"refusal": True}),)
    assert reply.stop_reason is StopReason.REFUSAL


# Calls


def test_calls_in_parallel_are_told_apart_by_index():
    reply = reply_to(
        {"content": "Two:"},
        call(0, "c1", "Read", ""),
        call(0, arguments='{"file_'),
        call(1, "c2", "Glob", '{"pattern":'),
        call(0, arguments='path": "a"}'),
        call(1, arguments='"*"}'),
    )
    assert reply.content == (
        TextBlock("Two:"),
        ToolUseBlock("c1", "Read", {"file_path": "a"}),
        ToolUseBlock("c2", "Glob", {"pattern": "*"}),
    )


def test_the_pieces_of_a_call_are_told_as_they_come():
    events = events_of(
        chat(call(0, "c1", "Now", ""), call(0, arguments="{"), call(0, arguments="}"))
    )
    assert [e for e in events if isinstance(e, BlockStart | BlockDelta)] == [
        BlockStart(0, "tool_use"),
        BlockDelta(0, "tool_input", "{"),
        BlockDelta(0, "tool_input", "}"),
    ]


def test_several_whole_calls_may_come_in_one_chunk():
    both = call(0, "c1", "A", "{}")["tool_calls"] + call(1, "c2", "B", "{}")["tool_calls"]
    assert [use.name for use in reply_to({"tool_calls": both}).tool_uses] == ["A", "B"]


def test_an_id_and_name_on_every_fragment_are_no_new_calls():
    reply = reply_to(call(0, "c1", "Now", "{"), call(0, "c1", "Now", "}"))
    assert reply.tool_uses == (ToolUseBlock("c1", "Now"),)


def test_a_new_id_under_the_same_index_is_a_new_call():
    reply = reply_to(call(0, "c1", "A", "{}"), call(0, "c2", "B", '{"x":'), call(0, arguments="1}"))
    assert reply.tool_uses == (ToolUseBlock("c1", "A"), ToolUseBlock("c2", "B", {"x": 1}))


def test_a_known_id_counts_more_than_the_index():
    reply = reply_to(
        call(0, "a", "Read"),
        call(1, "b", "Glob"),
        call(0, "b", None, '{"pattern":'),
        call(1, "a", None, '{"file_path":'),
        call(None, "b", None, ' "*"}'),
        call(7, "a", "Read", ' "x"}'),
    )
    assert [use.input for use in reply.tool_uses] == [{"file_path": "x"}, {"pattern": "*"}]


@pytest.mark.parametrize("index", [0, 1, 7, None])
def test_a_fragment_with_neither_id_nor_name_continues_the_call_that_is_open(index):
    reply = reply_to(
        call(0, "a", "Read", '{"file_path": "x"}'),
        call(0, "b", "Glob", ""),
        call(index, arguments='{"pattern":'),
        call(index, arguments='"*"}'),
    )
    assert [use.input for use in reply.tool_uses] == [{"file_path": "x"}, {"pattern": "*"}]


def test_a_fragment_under_the_index_of_a_whole_call_continues_the_one_that_is_open():
    reply = reply_to(
        call(0, "a", "Read", '{"file_path": "x"}'),
        call(1, "b", "Glob"),
        call(0, arguments='{"pattern": "*"}'),
    )
    assert [use.input for use in reply.tool_uses] == [{"file_path": "x"}, {"pattern": "*"}]


def test_several_fragments_without_an_index_go_by_their_places():
    def both(*parts):
        return {"tool_calls": [part["tool_calls"][0] for part in parts]}

    reply = reply_to(
        both(call(None, "a", "Read"), call(None, "b", "Glob")),
        both(call(None, arguments='{"file_path":'), call(None, arguments='{"pattern":')),
        both(call(None, arguments='"x"}'), call(None, arguments='"*"}')),
    )
    assert [use.input for use in reply.tool_uses] == [{"file_path": "x"}, {"pattern": "*"}]


def test_a_new_id_on_each_fragment_of_a_call_begins_no_other():
    reply = reply_to(
        call(0, "a", "Read"), call(0, "x1", None, '{"file_path":'), call(0, "x2", None, '"x"}')
    )
    assert reply.tool_uses == (ToolUseBlock("a", "Read", {"file_path": "x"}),)


@pytest.mark.parametrize(
    "fragments",
    [
        [call(0, arguments='{"path": "x"}')],
        [call(0, "a", "Read", '{"path": "x"}'), call(1, arguments='{"path": "y"}')],
        [call(0, "a", "Read"), call(1, "b", None, '{"path": "x"}')],
    ],
    ids=["before any call", "after the last one", "a call without a name"],
)
def test_a_fragment_that_belongs_to_no_call_makes_the_reply_invalid(fragments):
    with pytest.raises(ModelStreamError, match="belongs to none of its blocks") as caught:
        reply_to(*fragments)
    assert caught.value.retryable


STYLES = {
    "by the book": lambda i, first: {"index": i} | ({"id": f"c{i}"} if first else {}),
    "one index": lambda i, first: {"index": 0} | ({"id": f"c{i}"} if first else {}),
    "no index": lambda i, first: {"id": f"c{i}"} if first else {},
    "the id each time": lambda i, _: {"index": 0, "id": f"c{i}"},
    "an index too high": lambda i, first: {"index": 0, "id": f"c{i}"} if first else {"index": i},
    "no ids": lambda i, first: {"index": i},
}


@given(
    style=st.sampled_from(list(STYLES)),
    calls=st.lists(st.dictionaries(st.text("ab}", max_size=3), st.text(max_size=9), min_size=1)),
    chance=st.randoms(use_true_random=False),
)
def test_each_style_of_fragments_gives_each_call_its_arguments(style, calls, chance):
    deltas = []
    for i, arguments in enumerate(calls):
        text = serde.dumps(arguments).decode()
        place = STYLES[style]
        name = {"name": f"tool_{i}", "arguments": ""}
        deltas.append({"tool_calls": [place(i, True) | {"function": name}]})
        while text:
            size = chance.randint(1, 9)
            piece = place(i, False) | {"function": {"arguments": text[:size]}}
            deltas.append({"tool_calls": [piece]})
            text = text[size:]
    uses = reply_to(*deltas).tool_uses
    assert [(use.name, use.input) for use in uses] == [
        (f"tool_{i}", arguments) for i, arguments in enumerate(calls)
    ]


def test_a_name_may_come_in_pieces():
    reply = reply_to(call(0, "a", "get_"), call(0, None, "weather"), call(0, arguments='{"x": 1}'))
    assert reply.tool_uses == (ToolUseBlock("a", "get_weather", {"x": 1}),)
    reply = reply_to(call(0, "a", "get_"), call(0, "a", "get_weather", "{}"))
    assert reply.tool_uses == (ToolUseBlock("a", "get_weather"),)


@pytest.mark.parametrize("call_id", ["", None])
def test_a_name_after_whole_arguments_without_an_id_is_a_new_call(call_id):
    uses = reply_to(
        call(0, call_id, "A", '{"x":'),
        call(0, call_id, "A", ' {"y": 1}}'),
        call(0, call_id, "A", '{"x": 2}'),
        call(0, call_id, "B", "{}"),
    ).tool_uses
    assert [(use.name, use.input) for use in uses] == [
        ("A", {"x": {"y": 1}}),
        ("A", {"x": 2}),
        ("B", {}),
    ]
    assert len({use.id for use in uses}) == 3


def test_fragments_without_index_go_by_id_and_then_to_the_last_call():
    reply = reply_to(
        call(None, "c1", "A", '{"x":'), call(None, "c1", None, "1"), call(None, None, None, "}")
    )
    assert reply.tool_uses == (ToolUseBlock("c1", "A", {"x": 1}),)
    reply = reply_to(
        call(None, None, "A", "{}"), call(None, None, "B", "{}"), call(None, "c3", "C")
    )
    assert [use.name for use in reply.tool_uses] == ["A", "B", "C"]


def test_ids_that_are_empty_or_used_before_are_replaced():
    uses = reply_to(
        call(0, "", "A", "{}"), call(1, "c", "B", "{}"), call(2, "c", "C", "{}")
    ).tool_uses
    assert [use.name for use in uses] == ["A", "B", "C"]
    assert uses[1].id == "c"
    assert len({use.id for use in uses} - {""}) == 3


@pytest.mark.parametrize(
    ("given", "arguments"),
    [("", {}), (None, {}), ({"x": 1}, {"x": 1}), ({}, {})],
)
def test_arguments_may_be_missing_or_an_object(given, arguments):
    fragment = {"index": 0, "id": "c1", "function": {"name": "A", "arguments": given}}
    assert reply_to({"tool_calls": [fragment]}).tool_uses == (ToolUseBlock("c1", "A", arguments),)


def test_arguments_that_can_not_be_used_make_the_call_invalid():
    use = reply_to(call(0, "c1", "A", "null")).tool_uses[0]
    assert use.invalid
    assert use.raw_input == "null"


@given(st.text(st.characters(max_codepoint=0x7F, exclude_characters='"\\\\')))
def test_control_characters_in_texts_need_not_be_escaped(text):
    reply = reply_to(call(0, "c1", "A", f'{{"x": "{text}"}}'))
    assert reply.tool_uses == (ToolUseBlock("c1", "A", {"x": text}),)


@pytest.mark.parametrize("first", ["{}", " { }\n", "{}{}"])
def test_an_empty_object_before_the_arguments_is_dropped(first):
    reply = reply_to(call(0, "c1", "A", first), call(0, arguments='{"x":'), call(0, arguments="1}"))
    assert reply.tool_uses == (ToolUseBlock("c1", "A", {"x": 1}),)


@pytest.mark.parametrize("text", ['{"x": 1}{"x": 2}', '{"x": 1}{}', "{}[]", "{}1", '{"x": 1,}'])
def test_arguments_that_are_further_from_json_make_the_call_invalid(text):
    use = reply_to(call(0, "c1", "A", text)).tool_uses[0]
    assert use.invalid
    assert use.raw_input == text


def test_a_number_that_could_not_be_sent_back_makes_the_call_invalid():
    assert (
        reply_to(call(0, "c1", "A", '{"x": 123456789012345678901234567890}')).tool_uses[0].invalid
    )


def test_other_fields_of_a_call_are_kept():
    extra = {"extra_content": {"google": {"thought_signature": "s"}}}
    assert reply_to(call(0, "c1", "A", "{}", **extra)).tool_uses[0].extra == extra


# Errors within the stream


def test_an_error_event_is_raised_by_its_kind():
    data = (
        raw(chunk({"content": "a"}))
        + b"event: error\n"
        + raw(
            {
                "error": {
                    "message": "bad call",
                    "type": "invalid_request_error",
                    "code": "tool_use_failed",
                }
            }
        )
    )
    with pytest.raises(ModelBadRequestError, match="bad call") as caught:
        events_of(data)
    assert caught.value.code == "tool_use_failed"


def test_an_error_beside_the_choices_is_raised_even_after_a_finish_reason():
    data = raw(
        chunk({"content": "a"}, "length"), chunk(error={"code": 429, "message": "slow down"})
    )
    with pytest.raises(ModelRateLimitError, match="slow down"):
        events_of(data)


def test_an_error_object_of_its_own_is_raised():
    with pytest.raises(ModelStreamError, match="out of memory"):
        events_of(raw({"object": "error", "message": "out of memory"}))


REPLY = chat(
    {"reasoning": "é"},
    {"content": "Grüße "},
    {"content": "\u2028😀"},
    call(0, "c1", "Read", '{"file_path":'),
    call(0, arguments='"ü"}'),
    finish="tool_calls",
)


@given(st.integers(1, 40))
def test_a_reply_is_the_same_however_its_bytes_are_cut(size):
    assert events_of(REPLY, size=size) == events_of(REPLY)


@given(st.integers(0, REPLY.index(b'"tool_calls"}]')))
def test_a_reply_that_is_cut_before_its_finish_reason_is_never_complete(cut):
    with pytest.raises(ModelStreamError):
        events_of(REPLY[:cut])


def test_a_custom_tool_is_called_with_free_text():
    first = {"index": 0, "id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT"}}
    more = {"index": 0, "custom": {"input": " 1"}}
    [use] = reply_to({"tool_calls": [first]}, {"tool_calls": [more]}).tool_uses
    assert use == ToolUseBlock("c1", "sql", {"input": "SELECT 1"}, extra={"type": "custom"})


def test_probabilities_are_joined_on_the_message():
    chunks = [chunk({"content": piece}) for piece in "ab"]
    for at, piece in zip(chunks, "ab", strict=True):
        at["choices"][0]["logprobs"] = {
            "content": [{"token": piece, "logprob": -1}],
            "refusal": None,
        }
    reply = events_of(raw(*chunks, chunk({}, "stop"), "[DONE]"))[-1].message
    assert [token["token"] for token in reply.extra["logprobs"]["content"]] == ["a", "b"]


def plain(message, finish="stop", **fields):
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "chatcmpl-1", "model": "gpt-test", "choices": [choice], "usage": USAGE} | fields


def test_an_answer_in_one_piece_is_the_reply_that_the_stream_would_be():
    calls = [
        {"id": "", "type": "function", "function": {"name": "A", "arguments": "{}"}},
        {"id": "", "type": "function", "function": {"name": "A", "arguments": '{"b": 1}'}},
    ]
    said = {"reasoning_content": "hm", "content": "Hello", "tool_calls": calls}
    events = list(OpenAIDecoder().whole(plain({"role": "assistant"} | said, "tool_calls")))
    reply = events[-1].message
    assert (reply.text, reply.stop_reason) == ("Hello", StopReason.TOOL_USE)
    assert reply.content[0] == ThinkingBlock("hm", extra={"field": "reasoning_content"})
    assert [use.input for use in reply.tool_uses] == [{}, {"b": 1}]
    assert len({use.id for use in reply.tool_uses}) == 2
    assert (
        "".join(e.text for e in events if isinstance(e, BlockDelta) and e.kind == "text") == "Hello"
    )
    assert reply.usage == Usage(16, 9, 4, None, 3)


def test_an_answer_in_one_piece_may_come_as_an_event():
    said = {"role": "assistant", "content": "Hello"} | call(0, "c1", "A", "{}")
    events = events_of(raw(plain(said, "tool_calls"), "[DONE]"))
    reply = events[-1].message
    assert (reply.text, [use.name for use in reply.tool_uses]) == ("Hello", ["A"])
    assert BlockDelta(0, "text", "Hello") in events


def test_a_message_beside_a_delta_says_nothing_new():
    chunks = [chunk({"content": piece}) for piece in ("Hel", "lo")]
    for at, so_far in zip(chunks, ("Hel", "Hello"), strict=True):
        at["choices"][0]["message"] = {"content": so_far}
    assert events_of(raw(*chunks, chunk({}, "stop"), "[DONE]"))[-1].message.text == "Hello"


@pytest.mark.parametrize("answer", [{}, [], None, {"choices": []}, {"choices": [{"text": "x"}]}])
def test_json_that_is_not_a_reply_is_refused(answer):
    with pytest.raises(ModelStreamError, match="not a reply"):
        list(OpenAIDecoder().whole(answer))


def test_an_answer_in_one_piece_may_be_an_error():
    with pytest.raises(ModelBadRequestError):
        list(OpenAIDecoder().whole({"error": {"message": "no", "type": "invalid_request_error"}}))


def test_a_host_may_count_cached_tokens_apart():
    report = {"prompt_tokens": 200, "prompt_tokens_details": {"cached_tokens": 150}}
    decoder = OpenAIDecoder("azure", counts_cache_apart=True)
    reply = run(decoder, raw(chunk({"content": "a"}, "stop"), chunk(usage=report), "[DONE]"))
    assert reply[-1].message.usage == Usage(200, None, 150)
