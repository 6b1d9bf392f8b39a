"""`greenroom plan show`: what is to be done, how far it is, and what came of it."""

from collections.abc import Iterator

from rich.console import RenderableType
from rich.text import Text

from greenroom.cli.commands.plan.arguments import PlanOptions
from greenroom.cli.drawing.page import Page
from greenroom.cli.drawing.plan_list import one_line, plan_facts, render_row, subtask_words
from greenroom.cli.drawing.prefixed import indented
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.run.conversation import load_session
from greenroom.cli.run.store import open_store
from greenroom.core import PlanError, serde
from greenroom.planning import PlanRun, SubtaskState, SubtaskStatus
from greenroom.session import AgentSession, SessionStore

_NAMED = 5  # sessions of subagents that an error lists


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
    page = Page()
    if options.json:
        fields = {name: getattr(run, name) for name in run.__struct_fields__}
        await page.line(serde.encode({"session_id": session.session_id, **fields}))
    elif options.mermaid:
        await page.text(run.to_mermaid())
    else:
        await page.text(f"{one_line(run.plan.goal)}\n{plan_facts(run)}\n".lstrip("\n"))
        await page.show(*(part for id_ in run.states for part in _subtask(run, id_)))
        if run.error:
            await page.text(f"\nThe plan is not revised any more: {one_line(run.error)}")
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
        names = ", ".join(below[:_NAMED]) + (", …" if len(below) > _NAMED else "")
        raise PlanError(error.message, hint=f"the sessions of its subagents are {names}") from None


def _subtask(run: PlanRun, id_: str) -> Iterator[RenderableType]:
    """Show a subtask in a line, and below it where it is, and what came of it."""
    subtask, state, scheme = run.plan[id_], run.states[id_], ColorScheme()
    after = f"  (after {', '.join(subtask.after)})" if subtask.after else ""
    yield render_row(id_, state.status, f"{subtask_words(subtask)}{after}", scheme)
    where = f"  ({state.session_id})" if state.session_id else ""
    told = ": ".join(filter(None, [_status(state), _outcome(state)]))
    yield indented(Text(f"{told}{where}", scheme.output), 4)


def _status(state: SubtaskState) -> str:
    is_cut_off = state.status is SubtaskStatus.PENDING and state.session_id
    tries = state.failures + (state.status is not SubtaskStatus.FAILED)
    parts = [state.status, "cut off" if is_cut_off else "", f"try {tries}" if tries > 1 else ""]
    return ", ".join(filter(None, parts))


def _outcome(state: SubtaskState) -> str:
    """Say what came of a subtask: its error, or its result, where there is one."""
    if state.error or state.status is not SubtaskStatus.COMPLETED:
        return one_line(state.error)
    result = state.result
    return one_line(result if isinstance(result, str) else serde.encode(result).decode())
