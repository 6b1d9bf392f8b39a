"""A runtime in memory, on a clock that jumps: no test here waits in real time."""

import inspect
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from greenroom.runtime import AgentRuntime
from greenroom.session import InMemoryStore


def run_jumping(function, clock=None, instruments=()):
    return trio.run(
        function, clock=clock or MockClock(autojump_threshold=0), instruments=instruments
    )


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and inspect.iscoroutinefunction(item.obj):
            item.add_marker(pytest.mark.trio(run=run_jumping), append=False)


@pytest.fixture
def store():
    return InMemoryStore()


@pytest.fixture
async def runtime(store):
    async with AgentRuntime(store=store) as runtime:
        yield runtime
