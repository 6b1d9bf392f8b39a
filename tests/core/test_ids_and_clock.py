"""Ids never repeat and never leave the store; timestamps come from one place."""

import time
from datetime import UTC, datetime

import pytest

from greenroom.core import utc_now
from greenroom.core._internal import (
    InvalidSessionIdError,
    check_session_id,
    is_system_clock,
    new_id,
    seed_ids,
    set_clock,
    timestamp,
    unix_milliseconds,
)
from greenroom.core.message import utc_now_ms


def test_ids_are_distinct():
    assert len({new_id("s") for _ in range(10_000)}) == 10_000


def test_ids_can_be_repeated_for_a_test():
    seed_ids(7)
    try:
        first = new_id("s")
        seed_ids(7)
        assert new_id("s") == first
    finally:
        seed_ids(None)


@pytest.mark.parametrize("bad", ["", "a\0b", "a" * 201, "a\n", "\x9f", "\ud800"])
def test_hostile_session_ids_are_refused(bad):
    with pytest.raises(InvalidSessionIdError):
        check_session_id(bad)


def test_good_session_ids_pass():
    assert check_session_id(new_id("s")).startswith("s-")


def test_the_wall_clock_can_be_replaced():
    set_clock(lambda: datetime(2026, 1, 14, 10, 30, 0, 5_999, tzinfo=UTC))
    try:
        assert timestamp(utc_now()) == "2026-01-14T10:30:00Z"
        assert utc_now_ms() == datetime(2026, 1, 14, 10, 30, 0, 5_000, tzinfo=UTC)
        assert unix_milliseconds() == 1_768_386_600_005
        assert not is_system_clock()
    finally:
        set_clock(None)
    assert is_system_clock()


def test_the_wall_clock_is_the_systems_in_seconds_or_milliseconds():
    before = time.time_ns()
    seconds, milliseconds, number = utc_now(), utc_now_ms(), unix_milliseconds()
    after = time.time_ns()
    assert seconds.tzinfo is UTC is milliseconds.tzinfo
    assert seconds.microsecond == milliseconds.microsecond % 1000 == 0
    assert before // 10**9 <= seconds.timestamp() <= after // 10**9
    assert before // 10**6 <= round(milliseconds.timestamp() * 1000) <= number <= after // 10**6
