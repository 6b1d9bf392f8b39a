"""How a plan looks: a head, and for each subtask a line with a mark that says where it is."""

from collections import Counter

from rich.console import Group, RenderableType
from rich.text import Text

from greenroom.cli.drawing.call_words import call_words
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.core import clip, visible
from greenroom.planning import PlanRun, Subtask, SubtaskStatus

_LONGEST = 500  # characters of a line; a terminal shows as many as it has columns
_WIDEST = 20  # columns of the ids

_MARKS = {
    SubtaskStatus.EXECUTING: "▶",
    SubtaskStatus.FAILED: "✗",
    SubtaskStatus.PENDING: "☐",
    SubtaskStatus.COMPLETED: "☑",
    SubtaskStatus.BLOCKED: "⊘",
}
"""In the order in which they are shown of a plan that is longer than its room."""


def render_plan(run: PlanRun, rows: int, scheme: ColorScheme) -> RenderableType:
    """Show a plan in at most so many rows, at least 3, each one line; what has no room is counted."""
    shown = _choose(run, rows - 1)
    width = min(max((len(id_) for id_ in shown), default=0), _WIDEST)
    head = _line((f"plan: {plan_facts(run)}", scheme.tool), (f"  {one_line(run.plan.goal)}", ""))
    lines = [head, *(render_subtask(run, id_, scheme, width) for id_ in shown)]
    if left_out := Counter(str(run.states[id_].status) for id_ in run.states.keys() - set(shown)):
        counts = ", ".join(f"{count} {status}" for status, count in sorted(left_out.items()))
        lines.append(_line((f"… and {counts}", scheme.note)))
    return Group(*lines)


def render_subtask(run: PlanRun, id_: str, scheme: ColorScheme, width: int = 0) -> Text:
    """Show one subtask; why it has failed, or waits, says more than what it was to do."""
    state = run.states[id_]
    words = one_line(state.error) if state.error else subtask_words(run.plan[id_])
    if state.failures and state.status in (SubtaskStatus.PENDING, SubtaskStatus.EXECUTING):
        words = f"try {state.failures + 1}: {words}"
    return render_row(id_.ljust(width), state.status, words, scheme)


def render_row(name: str, status: SubtaskStatus, words: str, scheme: ColorScheme) -> Text:
    """Show a subtask's name behind the mark of its status, and words about it."""
    style = {
        SubtaskStatus.EXECUTING: scheme.todo,
        SubtaskStatus.FAILED: scheme.error,
    }.get(status, "")
    return _line((f"{_MARKS[status]} {visible(name)}", style), (f"  {words}", style or scheme.note))


def plan_facts(run: PlanRun) -> str:
    """Say how far a plan is, and how often it was revised."""
    done = f"{len(run.results)} of {len(run.states)} done"
    times = {0: "", 1: ", revised once"}.get(run.revisions, f", revised {run.revisions} times")
    return f"{done}{times}"


def one_line(text: str) -> str:
    """Show a text in one line, cut where it is long, with nothing in it that a terminal obeys."""
    return visible(" ".join(clip(text, _LONGEST).split()))


def subtask_words(subtask: Subtask) -> str:
    """Say in one line what a subtask is to do: its goal, else its call."""
    return one_line(subtask.goal or f"{subtask.tool} {call_words(subtask.arguments)}")


def _choose(run: PlanRun, rows: int) -> list[str]:
    """Return the ids of the subtasks that are shown, in the plan's order."""
    ids = list(run.states)
    if len(ids) <= rows:
        return ids
    place = {id_: at for at, id_ in enumerate(ids)}
    found: list[str] = []
    for status in _MARKS:
        of_status = run.ids(status)
        # Of those that are done the last ones, of the others those that come next.
        found += reversed(of_status) if status is SubtaskStatus.COMPLETED else of_status
    return sorted(found[: rows - 1], key=lambda id_: place[id_])


def _line(*parts: tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")
