"""Replies of the Gemini API, read as they came."""

import pytest
from hypothesis import given, strategies as st

from greenroom.core import StopReason, TextBlock, ThinkingBlock, ToolUseBlock, UnknownBlock, Usage
from greenroom.llm import ModelError, ModelOverloadedError, ModelStreamError
from greenroom.llm.gemini.decode import GeminiDecoder
from greenroom.llm.stream import BlockDelta, BlockEnd
from tests.llm import wire
from tests.llm.wire import function_part, gemini, gemini_response, gemini_responses, text_part

THOUGHT = text_part("First.", thought=True)
CALL = function_part("look_up", {"topic": "it"}, "fc_1", "signed")
CODE = {"executableCode": {"language": "PYTHON", "code": "1 + 1"}, "thoughtSignature": "c"}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}


def read(*parts, size=1 << 30, **fields):
    events = wire.run(GeminiDecoder(), gemini(*parts, **fields), size=size)
    return events, events[-1].message


@pytest.mark.parametrize("size", [1, 7, 1 << 30])
def test_a_reply_is_its_parts_in_order(size):
    texts = map(text_part, ("Hel", "lo", ""))
    parts = (THOUGHT, text_part("\n", thought=True), CODE, RESULT, *texts, CALL)
    events, reply = read(*parts, size=size)
    assert reply.content == (
        ThinkingBlock("First.\n"),
        UnknownBlock(CODE),
        UnknownBlock(RESULT),
        TextBlock("Hello"),
        ToolUseBlock("fc_1", "look_up", {"topic": "it"}, extra={"thoughtSignature": "signed"}),
    )
    assert (reply.stop_reason, reply.native_stop_reason) == (StopReason.TOOL_USE, "STOP")
    head = (reply.provider, reply.model, reply.response_id)
    assert head == ("google", "gemini-test-1", "resp_1")
    assert reply.usage == Usage(6, 7, 4, reasoning_tokens=2)
    ends = [event.block for event in events if isinstance(event, BlockEnd)]
    assert tuple(ends) == reply.content
    said = {"text": "", "thinking": "", "tool_input": ""}
    for event in events:
        if isinstance(event, BlockDelta):
            said[event.kind] += event.text
    assert said == {"text": "Hello", "thinking": "First.\n", "tool_input": '{"topic":"it"}'}


def test_a_part_with_a_signature_is_a_block_of_its_own():
    parts = [text_part("Hel"), text_part("lo", "s1"), text_part(" you"), text_part("", "s2")]
    thought = text_part("hm", "s3", thought=True)
    _, reply = read(*parts, thought, text_part("."))
    assert reply.content == (
        TextBlock("Hel"),
        TextBlock("lo", {"thoughtSignature": "s1"}),
        TextBlock(" you"),
        TextBlock("", {"thoughtSignature": "s2"}),
        ThinkingBlock("hm", "s3"),
        TextBlock("."),
    )


def test_calls_without_an_id_get_one_each():
    _, reply = read(function_part("look_up", {}), function_part("look_up", {"n": 1}))
    first, second = reply.tool_uses
    assert first.id != second.id
    assert (first.input, second.input) == ({}, {"n": 1})


def piece(path, value, *, more=False, **fields):
    given = {"jsonPath": path, **value, **({"willContinue": True} if more else {})}
    return {"functionCall": {"partialArgs": [given], "willContinue": True} | fields}


def test_arguments_in_pieces_are_joined():
    parts = [
        {"functionCall": {"name": "mail", "willContinue": True}, "thoughtSignature": "s"},
        piece("$.text", {"stringValue": "Dear "}, more=True),
        piece("$.text", {"stringValue": "Ann"}, more=True),
        piece("$.text", {"stringValue": ""}),
        piece("$.to[0].name", {"stringValue": "Ann"}),
        piece("$.to[1]['last name']", {"stringValue": "Lee"}),
        piece("$.urgent", {"boolValue": False}),
        piece("$.copies", {"numberValue": 2}),
        piece("$.by", {"nullValue": "NULL_VALUE"}),
        {"functionCall": {}},
        {"functionCall": {"name": "wait", "id": "w", "willContinue": True}},
        {"functionCall": {"partialArgs": [{"jsonPath": "$.n", "numberValue": 3}]}},
    ]
    _, reply = read(*parts)
    mail, wait = reply.tool_uses
    assert mail.input == {
        "text": "Dear Ann",
        "to": [{"name": "Ann"}, {"last name": "Lee"}],
        "urgent": False,
        "copies": 2,
        "by": None,
    }
    assert (mail.extra, wait.id, wait.input) == ({"thoughtSignature": "s"}, "w", {"n": 3})


KEYS = st.text("ab.[]'\"\\ é", min_size=1, max_size=4)
LEAVES = st.text(max_size=9) | st.integers(-9, 9) | st.booleans() | st.none()
VALUES = st.recursive(
    LEAVES,
    lambda each: (
        st.lists(each, min_size=1, max_size=3) | st.dictionaries(KEYS, each, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def leaves(value, path="$"):
    """Each value that is no object and no list, by its path."""
    if isinstance(value, dict):
        for key, each in value.items():
            quoted = key.replace("\\", "\\\\").replace("'", "\\'")
            yield from leaves(each, f"{path}['{quoted}']")
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from leaves(each, f"{path}[{at}]")
    else:
        yield path, value


def as_pieces(path, value):
    match value:
        case None:
            return [piece(path, {"nullValue": "NULL_VALUE"})]
        case bool():
            return [piece(path, {"boolValue": value})]
        case int():
            return [piece(path, {"numberValue": value})]
        case _:
            letters = [piece(path, {"stringValue": letter}, more=True) for letter in value]
            return [*letters, piece(path, {"stringValue": ""})]


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_any_arguments_in_pieces_are_joined(arguments):
    parts = [{"functionCall": {"name": "mail", "willContinue": True}}]
    for path, value in leaves(arguments):
        parts += as_pieces(path, value)
    call = read(*parts, {"functionCall": {}})[1].tool_uses[0]
    assert call.input == arguments


@pytest.mark.parametrize(
    "path",
    [
        "",
        "$",
        "text",
        "$.",
        "$.a.b",
        "$.c.d",
        "$[0]",
        "$.a[99999999]",
        "$.d[99]",
        "$.a[x]",
        "$" + ".a" * 500,
    ],
)
def test_a_piece_that_has_no_place_makes_its_call_invalid(path):
    begin = {"functionCall": {"name": "mail", "args": {"a": 1, "c": [1]}, "willContinue": True}}
    _, reply = read(begin, piece(path, {"stringValue": "x"}))
    assert "has no place" in reply.tool_uses[0].invalid


@pytest.mark.parametrize("finish", ["STOP", "MAX_TOKENS"])
def test_a_call_never_runs_with_half_a_text(finish):
    begin = {"functionCall": {"name": "rm", "willContinue": True}}
    _, reply = read(begin, piece("$.path", {"stringValue": "/a"}, more=True), finish=finish)
    assert reply.tool_uses[0].invalid


@pytest.mark.parametrize(
    ("finish", "reason"),
    [
        ("STOP", StopReason.END_TURN),
        ("MAX_TOKENS", StopReason.MAX_TOKENS),
        ("SAFETY", StopReason.CONTENT_FILTER),
        ("RECITATION", StopReason.CONTENT_FILTER),
        ("PROHIBITED_CONTENT", StopReason.CONTENT_FILTER),
        ("MALFORMED_FUNCTION_CALL", StopReason.MALFORMED_CALL),
        ("UNEXPECTED_TOOL_CALL", StopReason.MALFORMED_CALL),
        ("OTHER", StopReason.UNKNOWN),
        (1, StopReason.END_TURN),
        (9, StopReason.MALFORMED_CALL),
        (99, StopReason.UNKNOWN),
    ],
)
def test_the_reason_of_the_end_is_one_of_ours_also_as_a_number(finish, reason):
    _, reply = read(text_part("Hello"), finish=finish)
    assert reply.stop_reason is reason
    assert reply.native_stop_reason == {1: "STOP", 9: "MALFORMED_FUNCTION_CALL"}.get(
        finish, str(finish)
    )


def test_a_blocked_prompt_is_a_reply_without_content():
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "gemini-test-1"}
    [*_, end] = wire.run(GeminiDecoder(), wire.sse(blocked, named=False))
    assert end.message.content == ()
    reasons = (end.message.stop_reason, end.message.native_stop_reason)
    assert reasons == (StopReason.CONTENT_FILTER, "SAFETY")


def test_what_has_no_typed_place_is_kept():
    first, second = gemini_responses(text_part("a"), text_part("b"), createTime="now")
    first["candidates"][0] |= {"citationMetadata": {"citationSources": [{"uri": "a"}]}}
    second["candidates"][0] |= {
        "citationMetadata": {"citationSources": [{"uri": "b"}]},
        "groundingMetadata": {"webSearchQueries": ["q"]},
        "finishMessage": "done",
    }
    extra = wire.run(GeminiDecoder(), wire.sse(first, second, named=False))[-1].message.extra
    assert extra["citationMetadata"] == {"citationSources": [{"uri": "a"}, {"uri": "b"}]}
    assert extra["groundingMetadata"] == {"webSearchQueries": ["q"]}
    assert (extra["finishMessage"], extra["createTime"]) == ("done", "now")
    assert extra["usage"]["totalTokenCount"] == 17


def test_of_several_candidates_the_first_one_counts():
    response = gemini_response(text_part("one"), finish="STOP")
    other = {"index": 1, "content": {"parts": [text_part("two")]}, "finishReason": "MAX_TOKENS"}
    response["candidates"].insert(0, other)
    [*_, end] = wire.run(GeminiDecoder(), wire.sse(response, named=False))
    assert (end.message.text, end.message.stop_reason) == ("one", StopReason.END_TURN)


def test_a_reply_without_a_reason_for_its_end_is_incomplete():
    with pytest.raises(ModelStreamError, match="before the reply was complete"):
        read(text_part("Hello"), finish="")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (
            {"error": {"code": 503, "message": "busy", "status": "UNAVAILABLE"}},
            ModelOverloadedError,
        ),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}, ModelError),
        (gemini_response(finish="MALFORMED_RESPONSE"), ModelStreamError),
    ],
)
def test_a_failure_in_the_stream_is_an_error(value, kind):
    begun = gemini_response(text_part("Hel"))
    with pytest.raises(kind):
        wire.run(GeminiDecoder(), wire.sse(begun, value, named=False))


def test_a_reply_in_one_piece_is_read_and_so_is_a_list_of_responses():
    parts = [THOUGHT, text_part("Hello"), CALL]
    [*_, one] = GeminiDecoder().whole(gemini_response(*parts, finish="STOP"))
    [*_, many] = GeminiDecoder().whole(gemini_responses(*parts))
    assert one.message == many.message == read(*parts)[1]
    for value in ({"models": []}, [], [{"a": 1}], "text"):
        with pytest.raises(ModelStreamError, match="not a reply"):
            list(GeminiDecoder().whole(value))
    with pytest.raises(ModelStreamError, match="before the reply"):
        list(GeminiDecoder().whole(gemini_responses(*parts, finish="")))


def test_the_model_that_was_asked_for_is_kept_if_another_name_answers():
    data = gemini(text_part("Hello"))
    for asked, kept in (("gemini-flash-latest", True), ("gemini-test-1", False)):
        reply = wire.run(GeminiDecoder("google", asked), data)[-1].message
        assert reply.extra.get("requested_model") == (asked if kept else None)
