"""Messages: which one it is, and whether it says the same."""

import os
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from functools import partial

import pytest

from greenroom.core import Message, TextBlock, ToolResult, ToolResultBlock, UserInput
from greenroom.core._internal import new_id, serde, set_clock
from greenroom.core.message import seed_ids

WHEN = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)


def said_by(name):
    return UserInput((TextBlock("hi"),), sender=name)


@pytest.fixture
def still():
    """A wall clock that stands still."""
    set_clock(lambda: WHEN)
    yield
    set_clock(None)


@pytest.mark.parametrize("make", [Message.user, Message.assistant])
def test_a_message_has_an_id_of_its_own_and_the_time_at_which_it_was_made(still, make):
    one, two = make("hi"), make("hi")
    assert one.id.startswith("m-")
    assert one.id != two.id
    assert (one.created_at, one.created_at.tzinfo) == (WHEN, UTC)


def test_messages_are_equal_when_they_say_the_same():
    one = Message.user("hi")
    assert one == Message.user("hi") == Message("user", (TextBlock("hi"),))
    assert one != Message.assistant("hi")
    assert one != Message.user("ho")
    assert one != Message("user", (TextBlock("hi"),), provider="acme")
    assert one != "hi"
    assert one in (Message.user("ho"), Message.user("hi"))
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_what_is_there_is_left_as_it_is(still):
    plain = Message("user", (TextBlock("hi"),))
    assert (plain.id, plain.created_at) == ("", None)
    stamped = plain.stamp()
    assert stamped.stamp() is stamped
    assert Message.user("hi", id="i-1").id == "i-1"
    assert Message("user", id="i-1").stamp().id == "i-1"
    earlier = WHEN - timedelta(days=1)
    assert Message("user", created_at=earlier).stamp().created_at == earlier


def test_ids_of_messages_can_be_made_repeatable():
    seed_ids(7)
    try:
        expected = new_id("m")
        seed_ids(7)
        assert Message.user("hi").id == expected
    finally:
        seed_ids(None)


def test_a_time_is_told_in_utc_and_one_in_no_zone_is_refused():
    there = datetime(2026, 1, 14, 12, 30, tzinfo=timezone(timedelta(hours=2)))
    message = Message("user", created_at=there)
    assert message.created_at.tzinfo is UTC
    assert message.created_at == WHEN
    with pytest.raises(ValueError, match=r"has no time zone.*datetime\.now\(UTC\)"):
        Message("user", created_at=datetime(2026, 1, 14))  # noqa: DTZ001


@pytest.mark.parametrize("make", [lambda name: Message.user("hi", sender=name), said_by])
def test_a_sender_can_be_called_what_fits_in_a_line_and_can_be_seen(make):
    for name in ("", "plan", "reviewer 2", "Zoë", "x" * 64, "a(b)"):
        assert make(name).sender == name
    bad = (
        "x" * 65,
        "a]",
        "[b",
        "a\nb",
        "a\tb",
        " a",
        "a ",
        "a\u200bb",
        "\u3164",
        "\u202ea",
        "\ud800",
    )
    for name in bad:
        with pytest.raises(ValueError, match="can't name a sender: use at most 64 printable"):
            make(name)


def test_who_says_it_is_part_of_what_is_said():
    assert Message.user("hi", sender="plan") != Message.user("hi")


@pytest.mark.parametrize(
    "make", [ToolResultBlock, lambda: ToolResultBlock(""), lambda: ToolResultBlock(None)]
)
def test_a_tool_result_without_the_id_of_its_call_is_refused(make):
    with pytest.raises(
        ValueError, match=r"needs the id of its call: write ToolResultBlock\(call.id"
    ):
        make()


@pytest.mark.parametrize(
    "make",
    [
        partial(ToolResultBlock, "t1"),
        partial(Message, "user"),
        ToolResult,
    ],
)
def test_a_text_or_a_list_in_place_of_blocks_becomes_blocks(make):
    block = TextBlock("12 degrees")
    assert make("12 degrees") == make([block]) == make((block,))
    assert make("12 degrees").content == (block,)
    for wrong in (block, 3, ["12 degrees"], ("12 degrees",), [{"text": "a"}]):
        with pytest.raises(TypeError, match="block"):
            make(wrong)


def test_the_time_of_a_message_keeps_milliseconds_and_older_ones_load():
    moment = datetime(2026, 1, 14, 10, 30, 0, 123_987, UTC)
    set_clock(lambda: moment)
    try:
        message = Message.user("hi")
    finally:
        set_clock(None)
    assert message.created_at == moment.replace(microsecond=123_000)
    assert serde.decode(serde.encode(message), Message).created_at == message.created_at
    older = serde.decode(b'{"role":"user","created_at":"2026-01-14T10:30:00Z"}', Message)
    assert older.created_at == moment.replace(microsecond=0)


def test_a_process_that_was_forked_makes_ids_of_its_own():
    new_id("s")  # the next ones are drawn already
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.write(write, " ".join(new_id("s") for _ in range(50)).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with open(read) as file:
        theirs = set(file.read().split())
    ours = {new_id("s") for _ in range(1_000)}
    assert len(theirs) == 50
    assert len(ours) == 1_000
    assert not theirs & ours


def test_ids_that_threads_make_at_once_are_different():
    with ThreadPoolExecutor(4) as threads:
        made = list(threads.map(new_id, ["s"] * 4_000))
    assert len(set(made)) == 4_000
