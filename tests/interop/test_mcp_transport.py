"""Lines from a server: cut in linear time, bounded, and no message of theirs is a surprise."""

import json

import pytest
from hypothesis import given, strategies as st
from mcp_types import JSONRPCRequest, JSONRPCResponse

from greenroom.interop.line_reader import EscapeMender, LineReader, mend_escapes
from greenroom.interop.mcp.transport import LastWords, Screen, _complain
from tests.interop.servers import demo


@given(st.lists(st.binary(max_size=12).map(lambda each: each.replace(b"\n", b""))), st.data())
def test_lines_come_out_as_they_went_in_however_they_are_cut(lines, data) -> None:
    text = b"".join(line + b"\n" for line in lines)
    reader, found = LineReader(limit=8), []
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += reader.feed(text[:size])
        text = text[size:]
    assert found == [line if len(line) <= 8 else None for line in lines]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 7, "result": {"id": 9, "text": "x" * 20_000}},
        {"result": {"id": 9, "text": "x" * 20_000}, "jsonrpc": "2.0", "id": 7},
    ],
)
def test_the_call_of_a_message_that_is_too_long_is_known(message: dict[str, object]) -> None:
    reader = LineReader(limit=10_000)
    assert list(reader.feed(json.dumps(message).encode() + b"\n{}\n")) == [None, b"{}"]
    assert reader.skipped_id == 7


PIECES = (rb"\ud83d", rb"\ude00", rb"\\", rb"\n", rb"\u0041", b"u", b"d83d", b"x", b'"')


@given(st.lists(st.sampled_from(PIECES)).map(b"".join), st.data())
def test_lone_surrogates_are_mended_wherever_pieces_end(text: bytes, data) -> None:
    text += b'"'  # no JSON ends in an escape
    expected, mender, found = mend_escapes(text), EscapeMender(), b""
    while text:
        size = data.draw(st.integers(1, len(text)))
        found += mender.feed(text[:size])
        text = text[size:]
    assert found + mender.rest == expected


LONG = "x" * 20_000


@pytest.mark.parametrize(
    ("message", "id_", "is_answer"),
    [
        ({"jsonrpc": "2.0", "id": 7, "method": "ask", "params": {"id": 9, "text": LONG}}, 7, False),
        ({"method": "ask", "params": {"id": 9, "text": LONG}, "id": 7}, 7, False),
        ({"params": {"result": 1, "text": LONG}, "method": "ask", "id": 7}, 7, False),
        ({"method": "tell", "params": {"text": LONG}, "jsonrpc": "2.0"}, None, False),
        ({"id": 7, "error": {"code": 1, "message": LONG, "data": {"method": "x"}}}, 7, True),
        ({"result": {"method": "x", "text": LONG}, "id": 7}, 7, True),
        ({"result": {"text": '"method": ' + LONG}, "id": 7}, 7, True),
    ],
)
def test_what_was_too_long_is_told_from_its_answer(message, id_, is_answer) -> None:
    reader = LineReader(limit=10_000)
    assert list(reader.feed(json.dumps(message).encode() + b"\n")) == [None]
    assert (reader.skipped_id, reader.skipped_answer) == (id_, is_answer)


def test_a_long_notification_ends_no_call_that_it_speaks_of() -> None:
    reader = LineReader(limit=10_000)
    told = {"jsonrpc": "2.0", "method": "tell", "params": {"text": LONG, "id": 7}}
    assert list(reader.feed(json.dumps(told).encode() + b"\n")) == [None]
    assert _complain(reader) is None


@pytest.mark.parametrize(
    "head", [b"", rb'{"id": "\x", ', b'{"id": "\xff", ', rb'{"id": "\ud800", ']
)
def test_a_long_message_without_a_usable_id_belongs_to_no_call(head: bytes) -> None:
    reader = LineReader(limit=10)
    assert list(reader.feed(head + b"x" * 20_000 + b"\n")) == [None]
    assert reader.skipped_id is None


def test_a_reader_holds_no_more_than_the_limit() -> None:
    reader = LineReader(limit=100_000)
    for _ in range(1_000):
        assert list(reader.feed(b"x" * 1_000)) == []
        assert len(reader._buffer) <= 100_000


def test_unusable_tools_are_taken_out_of_a_list_and_named() -> None:
    screen = Screen()
    screen.note(JSONRPCRequest(jsonrpc="2.0", id=1, method="tools/list"))
    good = {"name": "good", "inputSchema": {"properties": {"a": {"type": "string"}, "b": 3}}}
    tools = [good, 3, {"name": "bad"}, {"name": "good", "inputSchema": {}}, {"inputSchema": {}}]
    answer = JSONRPCResponse(jsonrpc="2.0", id=1, result={"tools": tools, "nextCursor": "c"})
    assert screen.filter(answer).result == {
        "tools": [
            {
                "name": "good",
                "inputSchema": {"type": "object", "properties": {"a": {"type": "string"}}},
            }
        ],
        "nextCursor": "c",
    }
    assert screen.definitions == {"good": good}
    assert [name for name, _ in screen.left_out] == ["None", "bad", "good", "None"]
    # What was not asked for is no list, whatever it looks like.
    assert screen.filter(answer) is answer


def test_last_words_hide_what_the_server_was_given() -> None:
    words = LastWords(demo(env={"ANYTHING": "swordfish-77"}))
    words.add("the key swordfish-77 does not fit, nor does Bearer abcdef123456")
    words.add("\x1b[2J")
    assert "swordfish" not in str(words)
    assert "abcdef" not in str(words)
    assert "\x1b" not in str(words)
