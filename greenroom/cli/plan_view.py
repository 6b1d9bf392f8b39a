"""How a plan looks: live while it is carried out, and in `greenroom plan show`."""

from collections import Counter
from collections.abc import Iterator

from rich.text import Text

from greenroom.cli.command_options import PlanOptions
from greenroom.cli.formatting import describe_call
from greenroom.cli.painter import ColorScheme, indent
from greenroom.cli.render_chunk import render_chunk
from greenroom.cli.renderables import Group, RenderableType
from greenroom.cli.stdio import OutputWriter
from greenroom.cli.stored_sessions import load_session, open_store
from greenroom.core import Custom
from greenroom.core._internal import clip, serde, visible
from greenroom.flow import PlanRun, Subtask
from greenroom.flow._internal import PlanError, SubtaskState, SubtaskStatus
from greenroom.session import AgentSession, SessionStore

_MAX_LINE = 500  # characters of a line; a terminal shows as many as it has columns
_MAX_ID_WIDTH = 20  # columns of the ids

_MARKS = {
    SubtaskStatus.EXECUTING: "▶",
    SubtaskStatus.FAILED: "✗",
    SubtaskStatus.PENDING: "☐",
    SubtaskStatus.COMPLETED: "☑",
    SubtaskStatus.BLOCKED: "⊘",
}
"""In the order in which subtasks are chosen where a plan is longer than its room."""


def render_plan(run: PlanRun, rows: int, scheme: ColorScheme) -> RenderableType:
    """Show a plan in at most `rows` lines, at least 3; subtasks without room are counted."""
    ids = _choose(run, rows - 1)
    width = min(max((len(id_) for id_ in ids), default=0), _MAX_ID_WIDTH)
    head = _line(
        (f"plan: {describe_progress(run)}", scheme.tool), (f"  {clip_line(run.plan.goal)}", "")
    )
    lines = [head, *(render_subtask(run, id_, scheme, width) for id_ in ids)]
    if left_out := Counter(str(run.states[id_].status) for id_ in run.states.keys() - set(ids)):
        counts = ", ".join(f"{count} {status}" for status, count in sorted(left_out.items()))
        lines.append(_line((f"… and {counts}", scheme.note)))
    return Group(*lines)


def render_subtask(run: PlanRun, id_: str, scheme: ColorScheme, width: int = 0) -> Text:
    """Show one subtask: its error if it has one, else its goal."""
    state = run.states[id_]
    words = clip_line(state.error) if state.error else describe_subtask(run.plan[id_])
    if state.failures and state.status in (SubtaskStatus.PENDING, SubtaskStatus.EXECUTING):
        words = f"try {state.failures + 1}: {words}"
    return render_row(id_.ljust(width), state.status, words, scheme)


def render_row(name: str, status: SubtaskStatus, words: str, scheme: ColorScheme) -> Text:
    """Show a subtask's name after the mark of its status, and words about it."""
    style = {
        SubtaskStatus.EXECUTING: scheme.todo,
        SubtaskStatus.FAILED: scheme.error,
    }.get(status, "")
    return _line((f"{_MARKS[status]} {visible(name)}", style), (f"  {words}", style or scheme.note))


def describe_progress(run: PlanRun) -> str:
    """Say how much of a plan is done, and how often it was revised."""
    done = f"{len(run.results)} of {len(run.states)} done"
    times = {0: "", 1: ", revised once"}.get(run.revisions, f", revised {run.revisions} times")
    return f"{done}{times}"


def clip_line(text: str) -> str:
    """Show a text in one line, its middle cut if it is long, control characters made visible."""
    return visible(" ".join(clip(text, _MAX_LINE).split()))


def describe_subtask(subtask: Subtask) -> str:
    """Describe a subtask in one line: its goal, else its call."""
    return clip_line(subtask.goal or f"{subtask.tool} {describe_call(subtask.arguments)}")


def _choose(run: PlanRun, rows: int) -> list[str]:
    """Return the ids of the subtasks that are shown, in the plan's order."""
    ids = list(run.states)
    if len(ids) <= rows:
        return ids
    place = {id_: at for at, id_ in enumerate(ids)}
    found: list[str] = []
    for status in _MARKS:
        of_status = run.ids(status)
        # The last ones of those that are done, the next ones of the others.
        found += reversed(of_status) if status is SubtaskStatus.COMPLETED else of_status
    return sorted(found[: rows - 1], key=lambda id_: place[id_])


def _line(*parts: tuple[str, str]) -> Text:
    return Text.assemble(*parts, no_wrap=True, overflow="ellipsis")


_PRINTED_ROWS = 60  # of a list that is printed


class PlanView:
    """Follows the steps of plans, one plan after another; like `AgentView` it is pure."""

    def __init__(self, scheme: ColorScheme) -> None:
        self.scheme = scheme
        """The styles."""
        self._run: PlanRun | None = None

    @property
    def is_over(self) -> bool:
        """Whether there is a plan and it is finished."""
        return self._run is not None and self._run.is_over

    def feed(self, step: Custom) -> list[RenderableType]:
        """Take the next step and return what it finishes; without a plan the step is one line."""
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
                rows = [render_subtask(before, id_, self.scheme) for id_ in failed]
                return [*rows, *self._as_line(step)]
            case {"type": "end"}:
                return self._as_line(step)
            case _:
                return []

    def live(self, rows: int) -> list[RenderableType]:
        """Return the list as it is now, in at most `rows` lines."""
        return [] if self._run is None else [render_plan(self._run, rows, self.scheme)]

    def close(self) -> list[RenderableType]:
        """End the plan: return its list, to be printed for good."""
        run, self._run = self._run, None
        return self._print(run)

    def _print(self, run: PlanRun | None) -> list[RenderableType]:
        return [] if run is None else [render_plan(run, _PRINTED_ROWS, self.scheme), Text("")]

    def _as_line(self, step: Custom) -> list[RenderableType]:
        rendered = render_chunk(step, self.scheme)
        return [] if rendered is None else [rendered]


_MAX_NAMED = 5  # sessions of subagents that an error lists


async def show_plan(options: PlanOptions) -> int:
    """Print the plan of a session; return the exit code.

    Raises:
        PlanError: the session has none, or it can't be read.
        SessionError: the session is unknown or can't be read.
        OSError: standard output can't be written.
    """
    store = open_store(options)
    session = await load_session(options.ids[0], store)
    run = await _load_run(session, store)
    page = OutputWriter()
    if options.json:
        fields = {name: getattr(run, name) for name in run.__struct_fields__}
        await page.line(serde.encode({"session_id": session.session_id, **fields}))
    elif options.mermaid:
        await page.text(run.to_mermaid())
    else:
        await page.text(f"{clip_line(run.plan.goal)}\n{describe_progress(run)}\n".lstrip("\n"))
        await page.show(*(part for id_ in run.states for part in _subtask(run, id_)))
        if run.error:
            await page.text(f"\nThe plan is not revised any more: {clip_line(run.error)}")
    return 0


async def _load_run(session: AgentSession, store: SessionStore) -> PlanRun:
    """Read the plan of a session; where it has none, say whose sessions may have one.

    Raises:
        PlanError: it has none, or it can't be read.
    """
    try:
        return PlanRun.load(session)
    except PlanError as error:
        if parent := session.parent_session_id:
            raise PlanError(error.message, hint=f"it is a subagent of {parent}") from None
        stored = await store.list_all()
        below = [e.session_id for e in stored if e.parent_session_id == session.session_id]
        if not below:
            raise
        names = ", ".join(below[:_MAX_NAMED]) + (", …" if len(below) > _MAX_NAMED else "")
        raise PlanError(error.message, hint=f"the sessions of its subagents are {names}") from None


def _subtask(run: PlanRun, id_: str) -> Iterator[RenderableType]:
    """Show a subtask in a line, and its status and outcome below."""
    subtask, state, scheme = run.plan[id_], run.states[id_], ColorScheme()
    after = f"  (after {', '.join(subtask.after)})" if subtask.after else ""
    yield render_row(id_, state.status, f"{describe_subtask(subtask)}{after}", scheme)
    where = f"  ({state.session_id})" if state.session_id else ""
    about = ": ".join(filter(None, [_status(state), _outcome(state)]))
    yield indent(Text(f"{about}{where}", scheme.output), 4)


def _status(state: SubtaskState) -> str:
    is_cut_off = state.status is SubtaskStatus.PENDING and state.session_id
    tries = state.failures + (state.status is not SubtaskStatus.FAILED)
    parts = [state.status, "cut off" if is_cut_off else "", f"try {tries}" if tries > 1 else ""]
    return ", ".join(filter(None, parts))


def _outcome(state: SubtaskState) -> str:
    """Return the outcome of a subtask: its error or its result; empty without either."""
    if state.error or state.status is not SubtaskStatus.COMPLETED:
        return clip_line(state.error)
    result = state.result
    return clip_line(result if isinstance(result, str) else serde.encode(result).decode())
