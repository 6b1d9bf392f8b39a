"""Limits of this process, for the time of a block."""

import resource

import pytest

from greenroom.core import ToolError
from greenroom.tools import ProcessLimits
from greenroom.tools.isolation import frame as process_limits


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "1"])
@pytest.mark.parametrize("name", ["cpu_seconds", "memory_megabytes"])
def test_what_is_no_limit_is_refused(name, value):
    with pytest.raises(ToolError, match=f"{name} is {value!r} .give a whole number, 1 or more"):
        ProcessLimits(**{name: value})


def limits():
    return [resource.getrlimit(which) for which in (resource.RLIMIT_CPU, resource.RLIMIT_AS)]


def test_they_hold_in_the_block_and_count_from_its_beginning():
    before = limits()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    used = usage.ru_utime + usage.ru_stime
    with ProcessLimits(cpu_seconds=100, memory_megabytes=1000).impose():
        (seconds, _), (size, _) = limits()
        assert used + 100 < seconds < used + 110
        assert size > 1000 << 20
    assert limits() == before


def test_no_limits_change_nothing():
    before = limits()
    with ProcessLimits().impose():
        assert limits() == before


def test_a_limit_that_is_lower_already_stays(monkeypatch):
    monkeypatch.setattr(process_limits.resource, "getrlimit", lambda _: (5, 10))
    monkeypatch.setattr(process_limits.resource, "setrlimit", lambda *_: pytest.fail("raised"))
    with ProcessLimits(cpu_seconds=1000).impose():
        pass


def test_where_nothing_tells_the_address_space_the_limit_is_absolute(monkeypatch):
    monkeypatch.setattr(process_limits, "Path", lambda _: process_limits_path())
    assert ProcessLimits(memory_megabytes=1)._memory_limit() == 1 << 20


def process_limits_path():
    class Missing:
        def read_text(self, encoding):
            raise FileNotFoundError

    return Missing()
