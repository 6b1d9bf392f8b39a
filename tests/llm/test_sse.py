"""Server-sent events from bytes."""

import itertools

import pytest
from hypothesis import given, strategies as st

from greenroom.llm import ModelStreamError, SSEEvent
from greenroom.llm._internal import SSEDecoder


def decode(data, cuts=(), limit=1 << 20):
    decoder, events = SSEDecoder(limit), []
    marks = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    for start, end in itertools.pairwise(marks):
        events += decoder.feed(data[start:end])
    return events + decoder.close()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_kind_of_line_end_splits_lines(end):
    data = b"event: a" + end + b"data: 1" + end + b"data: 2" + end + end + b"data: 3" + end + end
    assert decode(data) == [SSEEvent("1\n2", "a"), SSEEvent("3")]


def test_an_event_is_given_as_soon_as_its_empty_line_has_come():
    decoder = SSEDecoder()
    assert decoder.feed(b"data: 1\r\n\r") == [SSEEvent("1")]
    assert decoder.feed(b"\ndata: 2\n\n") == [SSEEvent("2")]


def test_separators_that_unicode_calls_line_ends_split_nothing():
    data = "data: a\u2028b\u2029c\u0085d\x0be\n\n".encode()
    assert decode(data) == [SSEEvent("a\u2028b\u2029c\u0085d\x0be")]


def test_comments_and_unknown_fields_are_passed_over():
    assert decode(b": PROCESSING\n\n:\nretry: 10\nfoo: bar\ndata: x\n\n") == [SSEEvent("x")]


def test_an_event_without_data_is_none():
    assert decode(b"event: ping\n\ndata\n\ndata:\n\n") == []


def test_one_blank_after_the_colon_is_taken_off_and_no_more():
    assert decode(b"data:  x\n\ndata:y\n\n") == [SSEEvent(" x"), SSEEvent("y")]


def test_the_id_stays_until_another_comes_and_may_hold_no_zero():
    data = b"id: 7\ndata: a\n\ndata: b\n\nid: 8\x00\ndata: c\n\n"
    assert [event.id for event in decode(data)] == ["7", "7", "7"]


def test_a_byte_order_mark_at_the_beginning_is_taken_off_and_elsewhere_kept():
    data = b"\xef\xbb\xbfdata: \xef\xbb\xbfa\n\n"
    assert decode(data) == [SSEEvent("\ufeffa")]
    assert decode(data, cuts=range(9)) == [SSEEvent("\ufeffa")]


def test_bytes_that_are_no_utf8_are_replaced():
    assert decode(b"data: a\xffb\n\n") == [SSEEvent("a\ufffdb")]


def test_what_stands_at_the_end_without_an_empty_line_counts():
    assert decode(b"data: 1\n\ndata: 2") == [SSEEvent("1"), SSEEvent("2")]
    assert decode(b"data: 1\r") == [SSEEvent("1")]


LINES = st.lists(
    st.sampled_from(
        ["data: é€😀", "data: x", "event: e", "id: 1", ": c", "", "", "data", "\ufeff"]
    ),
    max_size=12,
)


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 400), max_size=12))
def test_events_do_not_depend_on_where_the_bytes_are_cut(lines, end, cuts):
    data = (end.join(lines) + end).encode()
    assert decode(data, cuts) == decode(data)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=8))
def test_any_bytes_decode_the_same_in_any_pieces(data, cuts):
    assert decode(data, cuts) == decode(data)


BLOCKS = st.sampled_from(
    [
        b"data: x",
        b"data: \xc3\xa9\xff",
        b"data:x",
        b"data: ",
        b"data",
        b"event: e\ndata: x",
        b"event: e\ndata: x\ndata: y",
        b"event: e\nid: 1\ndata: x",
        b"event: e",
        b"event: \ndata: x",
        b": c\ndata: x",
        b"\ndata: x",
        b"",
        b"data: x\r\n\r\ndata: y",
        b"data: x\r",
    ]
)


@given(st.lists(BLOCKS, max_size=9), st.sampled_from([b"", b"data: z", b"data: z\n", b"\n"]))
def test_events_that_came_together_are_those_that_came_byte_by_byte(blocks, rest):
    data = b"\n\n".join(blocks) + b"\n\n" + rest
    assert decode(data, [0, 1]) == decode(data, range(len(data)))


@pytest.mark.parametrize("data", [b"data: " + b"x" * 95, b"data: xx\n" * 12, b":" + b"c" * 100])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_an_event_over_the_limit_is_an_error_in_any_pieces(data, size):
    with pytest.raises(ModelStreamError, match="larger than 90 bytes"):
        decode(data, cuts=range(0, len(data), size), limit=90)


def test_many_events_within_the_limit_are_fine():
    assert len(decode(b"data: 123456789\n\n" * 100, limit=90)) == 100
