"""Lines from a server: cut in linear time, bounded, and no message of theirs is a surprise."""

import json

import pytest
from hypothesis import given, strategies as st
from mcp_types import JSONRPCRequest, JSONRPCResponse

from greenroom.interop.line_reader import LineReader
from greenroom.interop.mcp.transport import LastWords, Screen
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
