"""Run a scenario again and again, with a cancel at another checkpoint each time, and report."""

import importlib
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, pairwise

import trio

from greenroom.core import ConfigurationError
from greenroom.core._internal import clip, seed_ids
from greenroom.resilience._internal import seed_jitter
from greenroom.testing.fuzz.controls import find_difference
from greenroom.testing.fuzz.evidence import Mode, Trial
from greenroom.testing.fuzz.invariants import INVARIANTS, Invariant
from greenroom.testing.fuzz.scenario import Scenario, play
from greenroom.testing.fuzz.surroundings import Surroundings
from greenroom.testing.virtual_time import run_in_virtual_time

MODES: Sequence[Mode] = ("interrupt", "after_step", "shutdown", "kill", "cancel")
"""All that can be done to an agent from outside."""

_SWITCH = "_ALLOW_DETERMINISTIC_SCHEDULING"
_MAX_VIOLATIONS = 50  # violations; more of them tell nothing new
_MAX_SHOWN = 10
_MAX_MESSAGE = 1_000  # characters, of its first line; pytest adds lines that show whole trials
_A_DAY = 86_400.0
_A_MINUTE = 60.0


@dataclass(frozen=True)
class Violation:
    """An invariant that did not hold, and where the cancel was.

    Attributes:
        mode: what was done; None where nothing was, so that the scenario itself breaks it.
        checkpoint: the number of the checkpoint's side.
        where: the task and the lines in which it stood.
        invariant: the function's name.
        message: what it says.
        seed: the seed of the schedule.
    """

    mode: Mode | None
    checkpoint: int
    where: str
    invariant: str
    message: str
    seed: int

    def __str__(self) -> str:
        if self.mode is None:
            return f"{self.invariant}: {self.message}\n    without any cancel (seed={self.seed})"
        return (
            f"{self.invariant}: {self.message}\n    {self.mode} at {self.where}\n"
            f"    again: modes=[{self.mode!r}], at=[{self.checkpoint}], seed={self.seed}"
        )


@dataclass(frozen=True)
class FuzzReport:
    """What was tried, and what was found.

    Attributes:
        checkpoints: how many sides of checkpoints the scenario has when nothing disturbs it.
        cancels: how often each mode took effect.
        violations: what was found.
    """

    checkpoints: int
    cancels: Mapping[Mode, int] = field(default_factory=Counter)
    violations: tuple[Violation, ...] = ()

    def __str__(self) -> str:
        """Say it in words: of violations that say the same the first one, and at most ten."""
        tried = ", ".join(f"{mode}: {count}" for mode, count in self.cancels.items()) or "none"
        lines = [
            f"{len(self.violations)} violations, {self.checkpoints} checkpoints; "
            f"cancels tried: {tried}"
        ]
        alike = Counter((each.invariant, each.message) for each in self.violations)
        examples = {(each.invariant, each.message): each for each in reversed(self.violations)}
        for key in [*alike][:_MAX_SHOWN]:
            lines.append(f"  {examples[key]}")
            lines += [f"    and {alike[key] - 1} more like it"] if alike[key] > 1 else []
        more = len(alike) - _MAX_SHOWN
        return "\n".join([*lines, f"  and {more} others"] if more > 0 else lines)


class FuzzError(AssertionError):
    """Something did not hold; `report` has what, and where."""

    def __init__(self, report: FuzzReport) -> None:
        super().__init__(str(report))
        self.report = report


def cancel_at_every_checkpoint(
    scenario: Callable[[], Scenario],
    *,
    modes: Sequence[Mode] = MODES,
    invariants: Sequence[Invariant] = INVARIANTS,
    at: Sequence[int] | None = None,
    at_most: int | None = None,
    seed: int = 0,
    real_time: bool = False,
    timeout: float | None = None,
) -> FuzzReport:
    """Rerun a tool or an agent with a cancel at checkpoint 1, 2, 3 …, and check what is left.

    First it runs undisturbed, several times, and must hold every invariant and go the same way each
    time. Then, for each mode, it runs from
    scratch with the cancel at the next checkpoint of any task of the agent, until a run has ended
    before its cancel. Both sides of a checkpoint count: a task begins to wait there, and is about
    to go on. After the cancel the same input comes again, and what is left is compared with the
    undisturbed run. Runs are repeatable, in memory and on a clock that jumps: what a violation says
    about how to see it again holds for this program as it is.

    In a run the settings of the process, such as the environment, the working directory and
    functions of Python's modules that were replaced, are the run's own: they are put back. Where a
    run has made the next one fail, the sweep ends.

    Args:
        scenario: makes a new scenario, with a model, tools and rules that no run has used; for a
            tool, `Scenario.of_tool`.
        modes: the disturbances: a turn is interrupted, at once or after its step, the agent is shut
            down or killed, the whole runtime is cancelled from outside.
        invariants: what must hold after each run.
        at: only these checkpoints.
        at_most: no more cancels than this, spread evenly over modes and checkpoints.
        seed: of the order in which trio runs tasks.
        real_time: whether to use the real clock, for threads, processes and sockets; runs are then
            not quite repeatable.
        timeout: seconds of that clock until a run counts as hanging; by default a day, or a minute
            of real time.

    Raises:
        FuzzError: an invariant was broken; after 50 of them it stops.
        ConfigurationError: there is no such mode, `scenario` is not a function, or its workspace
            has more than 10,000 files.

    Example:
        >>> import trio
        >>> from greenroom.testing.fuzz import Scenario
        >>> from greenroom.tools import tool
        >>> def make_oven():
        ...     lock = trio.Lock()
        ...     @tool
        ...     async def bake(loaves: int) -> str:
        ...         async with lock:
        ...             await trio.sleep(20)
        ...         return f"{loaves} loaves"
        ...     return bake
        >>> report = cancel_at_every_checkpoint(
        ...     lambda: Scenario.of_tool(make_oven(), {"loaves": 2}), modes=["interrupt"]
        ... )
        >>> report.violations
        ()
    """
    _check(scenario, modes)
    limit = timeout if timeout is not None else _A_MINUTE if real_time else _A_DAY
    sweep = _Sweep(scenario, invariants, seed, real_time, limit)
    violations = sweep.run_controls()
    control = sweep.controls[-1]
    if not violations:
        violations = sweep.disturb(modes, lambda mode: at or _plan(control, modes, mode, at_most))
    report = FuzzReport(control.checkpoints, sweep.cancels, tuple(violations))
    if violations:
        raise FuzzError(report)
    return report


@dataclass
class _Sweep:
    """The runs of one scenario, each compared with the undisturbed one."""

    scenario: Callable[[], Scenario]
    invariants: Sequence[Invariant]
    seed: int
    real_time: bool
    limit: float
    surroundings: Surroundings = field(default_factory=Surroundings)
    controls: list[Trial] = field(default_factory=list)
    """The undisturbed runs; the last one is compared checkpoint by checkpoint."""
    cancels: Counter[Mode] = field(default_factory=Counter)

    def run_controls(self) -> list[Violation]:
        """Run it undisturbed several times, and see what differs."""
        same = [self.run(None, 0)]
        violations = self.check(same[0])
        if same[0].stuck:
            self.controls = same
            return violations
        same += [self.run(None, number) for number in range(1, 2 if self.real_time else 3)]
        if len(same) > 2 and find_difference(same[0], same[1]):  # the first may fill a cache
            same = [*same[1:], self.run(None, 3)]
        self.controls = same
        for one, other in pairwise(same):
            if difference := find_difference(one, other):
                return [Violation(None, 0, "", "runs_are_repeatable", difference, self.seed)]
        violations = violations or [each for trial in same[1:] for each in self.check(trial)]
        if not violations and not self.real_time:
            violations = self._run_reordered()
        return violations

    def _run_reordered(self) -> list[Violation]:
        """Run it with its tasks in another order, by which texts and times may differ."""
        seed = self.seed + 1
        other = self.run(None, 0, seed)
        self.controls.insert(0, other)
        return [replace(each, seed=seed) for each in self.check(other)]

    def run(self, mode: Mode | None, checkpoint: int, seed: int | None = None) -> Trial:
        """Run it once; where nothing disturbs it `checkpoint` is the number of the repetition."""
        at = checkpoint if mode else 0
        seed = self.seed if seed is None else seed
        with repeatable(seed, f"{mode} {checkpoint}"), self.surroundings.watch():
            scenario = self.scenario()
            scenario.workspace = self.surroundings.begin(scenario.workspace)
            around = self.surroundings
            whole = partial(play, scenario, mode, at, self.limit, around)
            trial = trio.run(whole) if self.real_time else run_in_virtual_time(whole)
            left = around.leftovers()
        return replace(trial, leftovers_at_end=left)

    def compare(self, trial: Trial) -> list[Violation]:
        """Check a run beside the undisturbed ones."""
        controls = tuple(self.controls)
        return self.check(replace(trial, control=controls[-1], controls=controls))

    def disturb(
        self, modes: Sequence[Mode], plan: Callable[[Mode], Iterable[int]]
    ) -> list[Violation]:
        violations: list[Violation] = []
        for mode in modes:
            for checkpoint in plan(mode):
                trial = self.run(mode, checkpoint)
                if not trial.where:
                    break
                self.cancels[mode] += 1
                new = self.compare(trial)
                if new and not violations and self.compare(self.run(None, 0)):
                    return [*new, self._blame_run(trial)]
                violations += new
                if len(violations) >= _MAX_VIOLATIONS:
                    return violations
        return violations

    def _blame_run(self, trial: Trial) -> Violation:
        """Later runs would show what this one has left behind."""
        text = (
            "the next run fails without any cancel, so the sweep ends here "
            "(make tools, and what they share, inside the function that makes the scenario)"
        )
        where = (trial.mode, trial.checkpoint, trial.where)
        return Violation(*where, "runs_are_separate", text, self.seed)

    def check(self, trial: Trial) -> list[Violation]:
        violations = []
        for invariant in self.invariants:
            try:
                invariant(trial)
            except AssertionError as error:
                name = getattr(invariant, "__name__", repr(invariant))
                text = clip(str(error).partition("\n")[0], _MAX_MESSAGE)
                where = (trial.mode, trial.checkpoint, trial.where)
                violations.append(Violation(*where, name, text, self.seed))
        return violations


def _check(scenario: object, modes: Sequence[Mode]) -> None:
    if isinstance(scenario, Scenario):
        raise ConfigurationError(
            "each run needs its own scenario", hint="give the function that makes it"
        )
    for mode in modes:
        if mode not in MODES:
            raise ConfigurationError(f"{mode!r} is not one of the modes {', '.join(MODES)}")


def _plan(control: Trial, modes: Sequence[Mode], mode: Mode, at_most: int | None) -> Iterable[int]:
    """Choose the checkpoints of one mode; two modes have the same ones only where all have all."""
    if at_most is None:
        return control.worth_trying or count(1)
    choice = control.worth_trying or range(1, control.checkpoints + 1)
    place = modes.index(mode)
    share = at_most // len(modes) + (place < at_most % len(modes))
    step = max(1.0, len(choice) / max(1, share))
    first = step * place / len(modes)
    return [choice[int(first + step * number)] for number in range(min(share, len(choice)))]


@contextmanager
def repeatable(seed: int, run: str = "") -> Iterator[None]:
    """Let `trio.run` schedule by this seed in the block, and make ids that only this run has.

    The jitter of `Backoff` is the same in each run.

    trio shuffles its tasks on purpose, and has one switch that makes the order repeatable, which
    its plugin for Hypothesis throws. The switch is not public: in a trio without it runs stay
    shuffled, and the number of a checkpoint means the same one most of the time.
    """
    scheduler = vars(importlib.import_module("trio._core._run"))
    shuffler: object = scheduler.get("_r")
    seed_ids(zlib.crc32(f"{seed} {run}".encode()))
    seed_jitter(seed)
    try:
        if isinstance(shuffler, random.Random) and _SWITCH in scheduler:
            with _seed_scheduler(shuffler, seed, scheduler):
                yield
        else:
            yield
    finally:
        seed_ids(None)
        seed_jitter(None)


@contextmanager
def _seed_scheduler(
    shuffler: random.Random, seed: int, scheduler: dict[str, object]
) -> Iterator[None]:
    before, state = scheduler[_SWITCH], shuffler.getstate()
    scheduler[_SWITCH] = True
    shuffler.seed(seed)
    try:
        yield
    finally:
        scheduler[_SWITCH] = before
        shuffler.setstate(state)
