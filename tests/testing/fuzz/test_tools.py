"""A tool's cancel-safety: what a careless tool leaves behind is found, and a careful one passes."""

import gc
import os
import re
import tempfile
import warnings
from pathlib import Path

import pytest
import trio

from greenroom.core import AgentContext, ConfigurationError
from greenroom.testing import Scenario, cancel_at_every_checkpoint
from greenroom.testing.fuzz import FuzzError, surroundings as leftovers
from greenroom.tools import tool
from tests.testing.fuzz import careless_tools
from tests.testing.fuzz.careless_tools import CARELESS

ON_LINUX = {"no_process_is_left", "no_descriptor_is_left"}
"""What is seen in /proc alone."""

SEEDS = (0,)


@pytest.fixture
def tidy(monkeypatch):
    """End what tools leave behind."""
    left = []
    monkeypatch.setattr(careless_tools, "LEFT", left)
    yield
    for end in left:
        end()


def violations_of(make, workspace, **options):
    (workspace / "apples.txt").write_text("3 apples")

    def scenario():
        made = make()
        needs = made.parameters.get("required", ())
        return Scenario.of_tool(made, {"apples": 2} if needs else {}, workspace=workspace)

    with pytest.raises(FuzzError) as found:
        cancel_at_every_checkpoint(scenario, **{"modes": ["interrupt"], **options})
    return found.value.report


@pytest.mark.every(6)
@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize(("make", "invariants"), CARELESS.values(), ids=CARELESS)
def test_a_careless_tool_is_found(make, invariants, tmp_path):
    if invariants & ON_LINUX and not Path("/proc/self/fd").exists():
        pytest.skip("looks in /proc")
    report = violations_of(make, tmp_path)
    assert invariants <= {violation.invariant for violation in report.violations}
    assert any("careless_tools.py:" in violation.where for violation in report.violations)
    assert any("await" in line_of(violation) for violation in report.violations)


def line_of(violation):
    """Return the line of a tool in which it was cancelled."""
    number = re.search(r"careless_tools\.py:(\d+)", violation.where)
    lines = Path(careless_tools.__file__).read_text().splitlines()
    return lines[int(number[1]) - 1] if number else ""


def test_the_next_agent_with_the_tool_may_hang_and_the_sweep_goes_on(tmp_path):
    make = careless_tools.a_lock_that_is_kept_and_a_shield_around_it
    report = violations_of(make, tmp_path, modes=["cancel"])
    assert any("never returned: the next agent" in each.message for each in report.violations)


class Cellar:
    """Three tools that are careful, with the state that they share."""

    def __init__(self):
        self.lock = trio.Lock()
        self.barrels = 0
        self.tools = {each.__name__: tool(each) for each in (self.fill, self.bottle, self.weigh)}

    async def fill(self) -> str:
        """Fill a barrel, one at a time."""
        async with self.lock:
            self.barrels += 1
            try:
                await trio.sleep(1)
            finally:
                self.barrels -= 1
        return f"{self.barrels} are being filled"

    async def bottle(self, context: AgentContext) -> str:
        """Write a list beside the old one, put it in place, and clean up whatever happens."""
        scratch = trio.Path(tempfile.mkdtemp())
        target = context.workspace.root / "bottles.txt"
        try:
            draft = Path(scratch / "draft.txt")
            draft.write_text("12 bottles")
            await trio.sleep(1)
            os.replace(draft, target)
            await trio.sleep(1)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await trio.sleep(0.5)
                for path in Path(scratch).iterdir():
                    path.unlink()
                os.rmdir(scratch)
        return "12 bottles"

    async def weigh(self) -> str:
        """Ask a program, and end it whatever happens."""
        result = await trio.run_process(["sh", "-c", "sleep 0.05; echo 7"], capture_stdout=True)
        return result.stdout.decode()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", ["fill", "bottle", "weigh"])
def test_a_careful_tool_passes(name, seed):
    report = cancel_at_every_checkpoint(
        lambda: Scenario.of_tool(Cellar().tools[name], {}),
        seed=seed,
        real_time=name == "weigh",
        at_most=12,
    )
    assert sum(report.cancels.values()) >= 9


def test_a_violation_says_what_to_do_and_where_the_tool_stood(tmp_path):
    report = violations_of(careless_tools.a_lock_of_its_own_making_that_is_kept, tmp_path)
    first = str(report).splitlines()[1:4]
    assert re.match(r"  calls_end_as_before: the same call again, press\(\): timeout, .*", first[0])
    assert (
        "; undisturbed press(): success, 'pressed', after 1 s (give back in a `finally`" in first[0]
    )
    assert re.match(
        r"    interrupt at agent fuzzed, waiting in .*careless_tools.py:\d+ press", first[1]
    )
    assert first[2].startswith("    again: modes=['interrupt'], at=[")


def made_of(function):
    return lambda: Scenario.of_tool(tool(function), {})


def test_an_input_that_can_not_be_repeated_proves_nothing_and_is_refused():
    async def plant(context: AgentContext) -> str:
        """Plant a tree."""
        (context.workspace.root / "tree").mkdir()
        await trio.sleep(1)
        return "planted"

    with pytest.raises(FuzzError, match=r"FileExistsError.*choose an input that can be repeated"):
        cancel_at_every_checkpoint(made_of(plant))


def test_what_an_undisturbed_run_leaves_too_is_left_on_purpose():
    counter = []

    async def log(context: AgentContext) -> str:
        """Write a line, and a report under a name of its own."""
        with (context.workspace.root / "log.txt").open("a") as file:
            file.write("pressed\n")
        descriptor, _ = tempfile.mkstemp(suffix=".report", dir=context.workspace.root)
        os.close(descriptor)
        await trio.sleep(1)
        counter.append("pressed")
        return f"{len(counter)} times"

    report = cancel_at_every_checkpoint(made_of(log), modes=["interrupt", "cancel"])
    assert report.violations == ()


def test_a_workspace_is_listed_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(leftovers, "_MAX_FILES", 2)
    for name in "abc":
        (tmp_path / name).touch()
    with pytest.raises(ConfigurationError, match=r"more than 2 files \(give the scenario a small"):
        cancel_at_every_checkpoint(
            lambda: Scenario.of_tool(Cellar().tools["fill"], {}, workspace=tmp_path)
        )


def test_the_process_is_as_before_whatever_a_run_has_changed(tmp_path):
    before = (dict(os.environ), Path.cwd(), tempfile.gettempdir())
    violations_of(careless_tools.a_working_directory_that_stays_another, tmp_path)
    violations_of(careless_tools.a_variable_of_the_environment_that_stays_set, tmp_path)
    after = (dict(os.environ), Path.cwd(), tempfile.gettempdir())
    assert after == before


@pytest.mark.parametrize("freeze", [gc.unfreeze, gc.freeze])
def test_what_the_program_has_frozen_stays_so_and_nothing_else_does(freeze):
    leftovers._is_frozen.cache_clear()
    freeze()
    try:
        before = gc.get_freeze_count() > 0
        cancel_at_every_checkpoint(lambda: Scenario.of_tool(Cellar().tools["fill"], {}), at=[1])
        assert (gc.get_freeze_count() > 0) == before
    finally:
        gc.freeze()  # as it is while the tests run
        leftovers._is_frozen.cache_clear()


def test_warnings_of_a_run_are_shown():
    async def warn() -> str:
        """Warn."""
        warnings.warn("the press is old", UserWarning, stacklevel=1)
        await trio.sleep(1)
        return "pressed"

    warnings.simplefilter("always")  # pytest puts it back
    with pytest.warns(UserWarning, match="the press is old"):
        cancel_at_every_checkpoint(made_of(warn), modes=["cancel"], at=[40])
