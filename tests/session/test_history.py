"""The lines of a history: what is damaged is noticed, what is newer is kept."""

import json
import zlib

import pytest
from hypothesis import given, strategies as st

from greenroom.core import (
    Message,
    SessionError,
    StopReason,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from greenroom.core._internal import serde
from greenroom.session import SessionCorruptError
from greenroom.session.entries import (
    FORMAT,
    FormatEntry,
    MessageEntry,
    RewindEntry,
    ToolsStartedEntry,
    decode_entries,
)
from greenroom.session.history import START, encode_line, read_history

# What a torn line might be mistaken for: the end of a record, and the beginning of the next.
LOOKALIKE = {"file": [{"e": [], "crc": "0123abcd"}, {"n": 2, "e": []}, {"n": 3, "e": []}]}
ENTRIES = [
    [FormatEntry(1), MessageEntry(Message.user("read a.txt\u2028please"))],
    [
        MessageEntry(Message.assistant([ToolUseBlock("t", "Read", LOOKALIKE)])),
        ToolsStartedEntry(("t",)),
    ],
    [
        MessageEntry(Message.user([ToolResultBlock("t", (TextBlock('{"n":3,"e":['),))])),
        MessageEntry(Message.assistant("hällo")),
    ],
    [RewindEntry(1)],
]


def write(groups):
    place, lines = START, []
    for group in groups:
        lines.append(encode_line([serde.encode(entry) for entry in group], place))
        place = place.after(lines[-1]).as_synced()
    return lines


def read(data, since=START):
    return read_history(since.last + data, session_id="s", path="h", since=since)


LINES = write(ENTRIES)
DATA = b"".join(LINES)
WHOLE = read(DATA)


def upto(count):
    return tuple(entry for group in ENTRIES[:count] for entry in group)


def test_what_is_written_is_read():
    assert WHOLE.entries == upto(4)
    assert (WHOLE.end.lines, WHOLE.end.size, WHOLE.end.last) == (4, len(DATA), LINES[-1])
    assert WHOLE.torn == b""


def test_reading_goes_on_from_any_line():
    place = START
    for number, line in enumerate(LINES, 1):
        place = place.after(line)
        assert upto(number) + read(DATA[place.size :], place).entries == WHOLE.entries


def test_a_line_has_the_published_form():
    record = json.loads(LINES[1])
    body = LINES[1][: -len(',"crc":"00000000"}\n')]
    assert list(record) == ["n", "e", "crc"]
    assert record["n"] == 1
    assert record["crc"] == f"{zlib.crc32(body, zlib.crc32(LINES[0]) ^ 0x5EA71EAF):08x}"


def test_cut_at_any_byte_it_gives_whole_lines_and_the_rest_as_torn():
    ends = {len(b"".join(LINES[:count])): count for count in range(5)}
    count = 0
    for size in range(len(DATA) + 1):
        count = ends.get(size, count)
        history = read(DATA[:size])
        assert history.entries == upto(count)
        assert DATA[: history.end.size] + history.torn == DATA[:size]
        assert (history.torn == b"") == (size in ends)


@pytest.mark.parametrize("garbage", [b"\0", b"\xff", b"\n", b'{"', b'"}\n'])
def test_a_tail_of_garbage_is_never_loaded(garbage):
    for size in range(len(DATA)):
        filled = DATA[:size] + garbage * 20
        try:
            history = read(filled)
        except SessionCorruptError:
            continue
        assert history.entries == upto(history.end.lines)
        assert history.torn


def test_every_flipped_bit_is_noticed():
    for index in range(len(DATA)):
        line = DATA[:index].count(b"\n") + 1
        for bit in range(8):
            flipped = bytearray(DATA)
            flipped[index] ^= 1 << bit
            if line < 4:
                with pytest.raises(SessionCorruptError, match=f"h:{line}:"):
                    read(bytes(flipped))
            else:  # the last line may pass for an unfinished write
                history = read(bytes(flipped))
                assert history.torn
                assert history.entries == upto(3)


def test_no_line_can_be_left_out_repeated_moved_or_taken_from_elsewhere():
    other = write([ENTRIES[0], ENTRIES[2], ENTRIES[1], ENTRIES[3]])
    first, second, third, fourth = LINES
    for lines in (
        [first, third, fourth],
        [second, third, fourth],
        [first, second, second, third, fourth],
        [first, third, second, fourth],
        [first, other[1], third, fourth],
        [other[0], second, other[2], fourth],
    ):
        with pytest.raises(SessionCorruptError):
            read(b"".join(lines))


def test_lines_glued_together_do_not_verify():
    suffix = len(',"crc":"00000000"}\n')
    for at in range(3):
        glued = [*LINES[:at], LINES[at][:-suffix], *LINES[at + 1 :]]
        with pytest.raises(SessionCorruptError):
            read(b"".join(glued) + LINES[0])
        assert read(b"".join(glued[: at + 2])).entries == upto(at)


def loose_lines():
    """Three lines, of which the last two stand on lines that were not synced."""
    place, lines = START, []
    for entries in ENTRIES[:3]:
        lines.append(encode_line([serde.encode(entry) for entry in entries], place))
        place = place.after(lines[-1])
    return lines


def test_a_line_tells_how_many_bytes_before_it_were_not_synced():
    first, second, third = loose_lines()
    sizes = [len(first), len(first) + len(second)]
    assert [json.loads(line).get("u") for line in (first, second, third)] == [None, *sizes]
    assert read(first + second + third).end.loose == len(first + second + third)
    assert WHOLE.end.loose == len(LINES[3])


def test_what_was_not_synced_may_be_damaged_in_any_order_and_is_an_unfinished_write():
    first, second, third = loose_lines()
    for hole in range(1, len(second)):
        holed = second[:-hole] + bytes(hole)
        history = read(first + holed + third)
        assert history.entries == upto(1)
        assert history.torn == holed + third


def test_damage_before_a_line_that_stands_on_synced_ones_is_no_unfinished_write():
    first, second, third = loose_lines()
    place = START.after(first).after(second).after(third).as_synced()
    fourth = encode_line([serde.encode(entry) for entry in ENTRIES[3]], place)
    for hole in range(1, len(second)):
        with pytest.raises(SessionCorruptError, match="h:2:"):
            read(first + second[:-hole] + bytes(hole) + third + fourth)


def test_a_torn_write_of_a_text_that_looks_like_records_is_no_corruption():
    lines = write([ENTRIES[0], ENTRIES[1], ENTRIES[2]])
    for size in range(1, len(lines[2])):
        assert read(b"".join(lines[:2]) + lines[2][:size]).end.lines == 2


def reply(rows):
    return Message.assistant([ToolUseBlock("t", "Write", {"rows": rows})])


def test_the_ends_of_records_in_a_torn_text_are_summed_up_once(monkeypatch):
    read_bytes, real = [], zlib.crc32
    monkeypatch.setattr(
        zlib, "crc32", lambda data, *start: (read_bytes.append(len(data)), real(data, *start))[1]
    )
    row = {"file": "x" * 50, "crc": "0123abcd"}
    line = encode_line([serde.encode(MessageEntry(reply([row] * 300)))], START)
    assert read(line[:-1]).torn == line[:-1]
    assert sum(read_bytes) < 5 * len(line)


@given(
    groups=st.lists(st.lists(st.text(max_size=40), min_size=1, max_size=3), min_size=1, max_size=6),
    cut=st.integers(min_value=0),
)
def test_any_texts_survive_and_any_cut_gives_a_prefix(groups, cut):
    entries = [[MessageEntry(Message.user(text)) for text in group] for group in groups]
    data = b"".join(write(entries))
    flat = tuple(entry for group in entries for entry in group)
    assert read(data).entries == flat
    some = read(data[: cut % (len(data) + 1)]).entries
    assert some == flat[: len(some)]


def line_of(*raw):
    return encode_line([json.dumps(each).encode() for each in raw], START)


def test_kinds_and_fields_of_newer_versions_do_not_get_in_the_way():
    message = {"type": "Message", "role": "user", "content": [], "mood": "good"}
    line = line_of(
        {"kind": "format", "version": 1, "by": "greenroom 9"},
        {"kind": "hologram", "data": [1]},
        {"kind": "message", "message": message, "at": "2026-01-14"},
    )
    assert read(line).entries == (FormatEntry(1), MessageEntry(Message.user([])))


@pytest.mark.parametrize("stop_reason", ["enlightened", ["two", "reasons"]])
def test_blocks_of_newer_versions_are_kept_verbatim(stop_reason):
    hologram = {"type": "hologram", "points": [1, 2]}
    message = {
        "type": "Message",
        "role": "assistant",
        "stop_reason": stop_reason,
        "content": [
            {"type": "text", "text": "hi"},
            hologram,
            "bare",
            {"type": "tool_result", "tool_use_id": "t", "content": [hologram]},
        ],
    }
    (entry,) = decode_entries(line_of({"kind": "message", "message": message}))
    text, unknown, bare, result = entry.message.content
    assert text == TextBlock("hi")
    assert unknown == UnknownBlock(hologram)
    assert bare == UnknownBlock({"value": "bare"})
    assert result == ToolResultBlock("t", (TextBlock("", extra={"unknown": hologram}),))
    assert entry.message.stop_reason is StopReason.UNKNOWN


@pytest.mark.parametrize(
    "raw",
    [
        {"kind": "rewind"},
        {"kind": "message", "message": 1},
        {"kind": "message", "message": {"type": "Message", "role": "user", "content": 1}},
        {"kind": "message", "message": {"type": "Message", "role": "wizard"}},
        {"kind": "format", "version": "one"},
    ],
)
def test_an_entry_that_makes_no_sense_is_corruption_and_not_skipped(raw):
    with pytest.raises(SessionCorruptError, match="h:1"):
        read(line_of(raw))


@pytest.mark.parametrize("id_", ["", None])
def test_a_result_without_an_id_stays_a_result(id_):
    call = {"type": "tool_use", "id": "", "name": "Read"}
    result = {"type": "tool_result", "content": [{"type": "text", "text": "hi"}]}
    result |= {} if id_ is None else {"tool_use_id": id_}
    messages = [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    line = {"e": [{"kind": "message", "message": each} for each in messages]}
    asked, answered = decode_entries(serde.dumps(line))
    assert answered.message.tool_results[0].text == "hi"
    assert answered.message.tool_results[0].tool_use_id == asked.message.tool_uses[0].id


def test_a_file_of_a_newer_format_is_not_misread():
    with pytest.raises(SessionError, match=f"format {FORMAT + 1}"):
        read(line_of({"kind": "format", "version": FORMAT + 1}))


def test_a_newer_format_may_begin_at_any_line():
    newer = encode_line([b'{"kind":"format","version":%d}' % (FORMAT + 1)], WHOLE.end.as_synced())
    with pytest.raises(SessionError, match=f"format {FORMAT + 1}"):
        read(DATA + newer)


def test_a_history_that_begins_without_its_version_is_read():
    assert read(line_of({"kind": "hologram"})).entries == ()
