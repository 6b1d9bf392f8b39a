"""Limits of this process, for the time of a block."""

import resource

import pytest

from greenroom.tools import ProcessLimits
from greenroom.tools.isolation import frame as process_limits
from greenroom.tools.isolation.frame import impose, memory_limit


def limits():
    return [resource.getrlimit(which) for which in (resource.RLIMIT_CPU, resource.RLIMIT_AS)]


def test_they_hold_in_the_block_and_count_from_its_beginning():
    before = limits()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    with impose(ProcessLimits(cpu_seconds=100, memory_megabytes=1000)):
        (seconds, _), (size, _) = limits()
        assert used + 100 < seconds < used + 110
        assert size > 1000 << 20
    assert limits() == before


def test_no_limits_change_nothing():
    before = limits()
    with impose(ProcessLimits()):
        assert limits() == before


def test_a_limit_that_is_lower_already_stays(monkeypatch):
    monkeypatch.setattr(process_limits.resource, "getrlimit", lambda _: (5, 10))
    monkeypatch.setattr(process_limits.resource, "setrlimit", lambda *_: pytest.fail("raised"))
    with impose(ProcessLimits(cpu_seconds=1000)):
        pass


def test_where_nothing_tells_the_address_space_the_limit_is_absolute(monkeypatch):
    monkeypatch.setattr(process_limits, "Path", lambda _: process_limits_path())
    assert memory_limit(1) == 1 << 20


def process_limits_path():
    class Missing:
        def read_text(self, encoding):
            raise FileNotFoundError

    return Missing()
