"""Undo what a plan has done, if it has failed or was given up: compensation, as in sagas."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from greenroom.flow.plan import Subtask
from greenroom.flow.plan_run import PlanRecorder, PlanRun, SubtaskStatus, SubtaskUndo
from greenroom.runtime import AgentInternals

Undo: TypeAlias = Callable[[Subtask, object], Awaitable[object]]
"""Undoes what a completed subtask has done; gets the subtask and its result."""


async def undo_plan(agent: AgentInternals, run: PlanRun, undo: Undo) -> PlanRun:
    """Undo what the completed subtasks of a plan have done, the last first; return the run.

    Each is on record once it is undone (`SubtaskState.is_undone`), and not undone again. After a
    kill in between, the function is called once more for the same subtask, so it should do nothing
    if there is nothing left to undo.

    Args:
        agent: the agent whose plan it is; call this inside of one of its turns.
        run: the run; what is still running has to be stopped first.
        undo: an async function of a subtask and its result. What it raises ends this, and the
            next call goes on there.

    Raises:
        SessionError: the session can't be written.

    Example:
        ```python
        async def cancel(subtask: Subtask, result: object) -> None:
            if subtask.tool == "book_flight":
                await cancel_flight(result)

        await undo_plan(agent, PlanRun.load(agent.session), cancel)
        ```
    """
    return await undo_completed(agent, PlanRecorder(agent, run), undo)


async def undo_completed(agent: AgentInternals, recorder: PlanRecorder, undo: Undo) -> PlanRun:
    """Undo the completed subtasks of a run that is already recorded, as `undo_plan` does."""
    for id_ in reversed(recorder.run.plan.order()):
        state = recorder.run.state(id_)
        if state.status is SubtaskStatus.COMPLETED and not state.is_undone:
            await undo(recorder.run.plan[id_], state.result)
            recorder.write(SubtaskUndo(id_))
            await agent.session.save()
    return recorder.run
