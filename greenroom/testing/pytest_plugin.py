"""Fixtures for pytest, for test suites that ask for them.

Put `pytest_plugins = ["greenroom.testing.pytest_plugin"]` into the top `conftest.py`, or run
`pytest -p greenroom.testing.pytest_plugin`. It is not an entry point on purpose: a plugin that
loads by itself is imported in every test run of its environment, even in those that have no agent,
and before coverage begins to count.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

try:
    import pytest
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "greenroom.testing.pytest_plugin needs pytest: pip install 'greenroom[testing]'",
        name=missing.name,
    ) from missing

import trio

from greenroom.runtime import AgentRuntime
from greenroom.session import InMemoryStore
from greenroom.testing.models import forbid_model_calls as forbid_calls
from greenroom.testing.recorded_run import RecordedRun, run_agent as run_agent_in
from greenroom.testing.virtual_time import run_in_virtual_time

if TYPE_CHECKING:
    from trio.abc import Clock, Instrument

_PYTEST_TRIO = "trio"  # the name under which it registers


_INI = "forbid_model_calls"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting and the option that forbid calls of real models in all tests."""
    text = "fail whatever would call a real model, in every test"
    parser.addini(_INI, text, type="bool", default=False)
    parser.getgroup("greenroom").addoption("--forbid-model-calls", action="store_true", help=text)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop(session: pytest.Session) -> Generator[None, object, object]:
    """Forbid calls of real models while tests run, where the setting or the option says so."""
    if session.config.getini(_INI) or session.config.getoption("--forbid-model-calls"):
        with forbid_calls():
            return (yield)
    return (yield)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests that use `agent_runtime` on a clock that jumps, unless they name another one."""
    if not config.pluginmanager.has_plugin(_PYTEST_TRIO):
        return  # the fixture itself says what is missing
    for item in items:
        if "agent_runtime" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.trio(run=_run), append=False)


def _run(
    function: Callable[[], Awaitable[object]],
    clock: "Clock | None" = None,
    instruments: "Sequence[Instrument]" = (),
) -> object:
    if clock is not None:
        return trio.run(function, clock=clock, instruments=instruments)
    return run_in_virtual_time(function, instruments=instruments)


@pytest.fixture
def forbid_model_calls() -> Iterator[None]:
    """Forbid calls of real models during the test."""
    with forbid_calls():
        yield


@pytest.fixture
def memory_store() -> InMemoryStore:
    """A store of the test's own, in memory."""
    return InMemoryStore()


@pytest.fixture
def run_agent(memory_store: InMemoryStore, tmp_path: Path) -> partial[RecordedRun]:
    """`greenroom.testing.run_agent`, with `memory_store` and `tmp_path` as its workspace."""
    return partial(run_agent_in, store=memory_store, workspace=tmp_path)


@pytest.fixture
def _pytest_trio(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.pluginmanager.has_plugin(_PYTEST_TRIO):
        missing = "the fixture agent_runtime needs pytest-trio: pip install 'greenroom[testing]'"
        pytest.fail(missing, pytrace=False)


@pytest.fixture
async def agent_runtime(
    _pytest_trio: None, memory_store: InMemoryStore, tmp_path: Path
) -> AsyncIterator[AgentRuntime]:
    """An open runtime for async tests: `memory_store`, `tmp_path` as workspace, a clock that jumps.

    When the test is over its agents are shut down. Name pytest-trio's `mock_clock` too to move the
    clock yourself.
    """
    async with AgentRuntime(memory_store, workspace=tmp_path) as runtime:
        yield runtime
