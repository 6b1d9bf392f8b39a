"""Run a scenario again and again, with a cancel at another checkpoint each time."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import count

import trio
from trio.testing import MockClock

from greenroom.core import ConfigurationError, clip
from greenroom.testing.fuzz.invariants import INVARIANTS, Invariant
from greenroom.testing.fuzz.report import FuzzError, FuzzReport, Violation
from greenroom.testing.fuzz.scenario import Scenario
from greenroom.testing.fuzz.scheduling import repeatable
from greenroom.testing.fuzz.stage import play
from greenroom.testing.fuzz.trial import Mode, Trial

__all__ = ["MODES", "cancel_at_every_checkpoint"]

MODES: Sequence[Mode] = ("interrupt", "after_step", "shutdown", "kill", "cancel")
"""All that can be done to an agent from outside."""

_ENOUGH = 50  # violations; more of them tell nothing new
_MAX_MESSAGE = 1_000  # characters, of its first line; pytest adds lines that show whole trials
_A_DAY = 86_400.0
_A_MINUTE = 60.0


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
    """Rerun an agent's scenario with a cancel at checkpoint 1, 2, 3 …, and check what is left.

    First it runs undisturbed, and has to hold every invariant. Then, for each mode, it runs from
    scratch with the cancel at the next checkpoint of any task of the agent, until a run has ended
    before its cancel. Both sides of a checkpoint count: a task begins to wait there, and is about to
    go on. Runs are repeatable, in memory and on a clock that jumps: what a violation says about how
    to see it again holds for this program as it is.

    Args:
        scenario: makes the scenario anew, with a model, tools and rules that no run has used.
        modes: what is done: a turn is interrupted, at once or after its step, the agent is shut down
            or killed, the whole runtime is cancelled from outside.
        invariants: what has to hold after each run.
        at: only these checkpoints.
        at_most: no more cancels than this, spread evenly over modes and checkpoints.
        seed: of the order in which trio runs tasks.
        real_time: let the clock run as it does, for threads, processes and sockets; then runs are
            not quite repeatable.
        timeout: seconds of that clock until a run counts as hanging; by default a day, or a minute
            of real time.

    Raises:
        FuzzError: an invariant was broken; after 50 of them it stops.
        ConfigurationError: there is no such mode, or `scenario` is a scenario and makes none.

    Example:
        ```python
        def scenario() -> Scenario:
            return Scenario(coder, model(), ToolRegistry([bake]), rules(), inputs="Bread, please.")

        report = cancel_at_every_checkpoint(scenario)
        ```
    """
    _check(scenario, modes)
    limit = timeout if timeout is not None else _A_MINUTE if real_time else _A_DAY

    def run(mode: Mode | None, checkpoint: int) -> Trial:
        clock = None if real_time else MockClock(autojump_threshold=0)
        with repeatable(seed, f"{mode} {checkpoint}"):
            return trio.run(play, scenario(), mode, checkpoint, limit, clock=clock)

    control = run(None, 0)
    injected: Counter[Mode] = Counter()
    violations = _violations(control, invariants, seed)
    for mode in () if violations else modes:
        for checkpoint in at or _plan(control.checkpoints, modes, mode, at_most):
            trial = run(mode, checkpoint)
            if not trial.where or len(violations) >= _ENOUGH:
                break
            injected[mode] += 1
            violations += _violations(trial, invariants, seed)
    report = FuzzReport(control.checkpoints, injected, tuple(violations))
    if violations:
        raise FuzzError(report)
    return report


def _check(scenario: object, modes: Sequence[Mode]) -> None:
    if isinstance(scenario, Scenario):
        raise ConfigurationError(
            "each run needs a scenario of its own", hint="give the function that makes it"
        )
    for mode in modes:
        if mode not in MODES:
            raise ConfigurationError(f"{mode!r} is none of the modes {', '.join(MODES)}")


def _plan(
    checkpoints: int, modes: Sequence[Mode], mode: Mode, at_most: int | None
) -> Iterable[int]:
    """Choose the checkpoints of one mode; two modes have the same ones only where all have all."""
    if at_most is None:
        return count(1)
    place = modes.index(mode)
    share = at_most // len(modes) + (place < at_most % len(modes))
    step = max(1.0, checkpoints / max(1, share))
    first = step * place / len(modes)
    return [1 + int(first + step * number) for number in range(min(share, checkpoints))]


def _violations(trial: Trial, invariants: Sequence[Invariant], seed: int) -> list[Violation]:
    found = []
    for invariant in invariants:
        try:
            invariant(trial)
        except AssertionError as error:
            found.append(
                Violation(
                    trial.mode,
                    trial.checkpoint,
                    trial.where,
                    getattr(invariant, "__name__", repr(invariant)),
                    clip(str(error).partition("\n")[0], _MAX_MESSAGE),
                    seed,
                )
            )
    return found
