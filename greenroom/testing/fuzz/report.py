"""What a sweep has found, and how to see it again."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from greenroom.testing.fuzz.trial import Mode

__all__ = ["FuzzError", "FuzzReport", "Violation"]

_SHOWN = 10


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
        injected: how often each mode took effect.
        violations: what was found.
    """

    checkpoints: int
    injected: Mapping[Mode, int] = field(default_factory=Counter)
    violations: tuple[Violation, ...] = ()

    def __str__(self) -> str:
        """Say it in words, the first ten violations in full."""
        tried = ", ".join(f"{mode}: {count}" for mode, count in self.injected.items()) or "none"
        shown = "\n".join(f"  {each}" for each in self.violations[:_SHOWN])
        more = len(self.violations) - _SHOWN
        return "\n".join(
            filter(
                None,
                (
                    f"{len(self.violations)} violations, {self.checkpoints} checkpoints; "
                    f"cancels tried: {tried}",
                    shown,
                    f"  and {more} more" if more > 0 else "",
                ),
            )
        )


class FuzzError(AssertionError):
    """Something did not hold; `report` has what, and where."""

    def __init__(self, report: FuzzReport) -> None:
        """Show the report."""
        super().__init__(str(report))
        self.report = report
