"""A plan that is carried out, as one list whose marks move."""

from rich.console import RenderableType
from rich.text import Text

from greenroom.cli.console.render_chunk import render_chunk
from greenroom.cli.drawing.plan_list import render_plan, render_subtask
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.core import Custom, PlanError
from greenroom.planning import PlanRun, SubtaskStatus

_KEPT_ROWS = 60  # of a list that is printed for good


class PlanView:
    """Follows the steps of plans, one plan after the other; like `AgentView` it is pure."""

    def __init__(self, scheme: ColorScheme) -> None:
        """Start without a plan."""
        self._scheme = scheme
        self._run: PlanRun | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is a plan, of which nothing is left to do."""
        return self._run is not None and self._run.is_over

    def feed(self, step: Custom) -> list[RenderableType]:
        """Take the next step and return what is finished by it; without a plan the step is a line."""
        before = self._run
        try:
            self._run = PlanRun.follow(before, step.data)
        except PlanError:  # steps were missed
            self._run = None
        if self._run is None:
            return self._as_line(step)
        match step.data:
            case {"type": "begin"}:
                return self._print(before)
            case {"type": "revise"} if before is not None:
                failed = before.ids(SubtaskStatus.FAILED)
                rows = [render_subtask(before, id_, self._scheme) for id_ in failed]
                return [*rows, *self._as_line(step)]
            case {"type": "end"}:
                return self._as_line(step)
            case _:
                return []

    def live(self, rows: int) -> list[RenderableType]:
        """Return the list as it is now, in at most so many rows."""
        return [] if self._run is None else [render_plan(self._run, rows, self._scheme)]

    def close(self) -> list[RenderableType]:
        """Return the list to be printed for good; it moves no more."""
        run, self._run = self._run, None
        return self._print(run)

    def lose(self) -> None:
        """Forget the plan, of which steps were missed."""
        self._run = None

    def _print(self, run: PlanRun | None) -> list[RenderableType]:
        return [] if run is None else [render_plan(run, _KEPT_ROWS, self._scheme), Text("")]

    def _as_line(self, step: Custom) -> list[RenderableType]:
        shown = render_chunk(step, self._scheme)
        return [] if shown is None else [shown]
