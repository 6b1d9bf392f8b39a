"""Tasks of A2A that a server no longer has in memory, as the record of their sessions has them.

The id of a task names its context and the input of its turn, so a server that was started again
finds both: a question that was left open can be answered, and what has ended be read.
"""

from collections.abc import Sequence

from greenroom.core import Message, StopReason
from greenroom.interop.a2a_wire import Message as Said, Part, State, Status
from greenroom.interop.serving.a2a_faults import no_task
from greenroom.interop.serving.a2a_questions import describe_question
from greenroom.interop.serving.a2a_tasks import PREFIX, ServedTask, TaskBook, now, write_time
from greenroom.interop.serving.refusals import RequestRefusedError
from greenroom.interop.serving.served_sessions import ServedSessions
from greenroom.interop.serving.tokens import Caller
from greenroom.interop.serving.turn_end import find_messages
from greenroom.session import AgentSession


async def restore_task(
    sessions: ServedSessions, book: TaskBook, caller: Caller, task_id: str
) -> ServedTask:
    """Return a task of a caller, from the record of its session if need be.

    Raises:
        TaskRefusedError: there is none.
    """
    task = book.find(task_id, caller.name)
    if task is not None:
        return task
    context_id, _, input_id = task_id.rpartition(".")
    session_id = f"{caller.name}:{context_id}"
    try:
        if (
            not context_id
            or not input_id.startswith(PREFIX)
            or not await sessions.exists(session_id)
        ):
            raise no_task()
        await sessions.find(session_id, caller)
        session = await sessions.load(session_id)
    except RequestRefusedError as error:
        raise no_task() from error
    if not session.has_input(input_id):
        raise no_task()
    # Somebody else may have asked for it meanwhile.
    known = book.find(task_id, caller.name)
    if known is not None:
        return known
    is_running = sessions.runtime.get(session_id) is not None
    return _rebuild(book, session, caller, task_id, is_running=is_running)


def _rebuild(
    book: TaskBook, session: AgentSession, caller: Caller, task_id: str, *, is_running: bool
) -> ServedTask:
    context_id, _, input_id = task_id.rpartition(".")
    task = ServedTask(task_id, context_id, caller.name, session.session_id, input_id)
    turn = find_messages(session.history, input_id)
    for each in turn:
        if each.text and not each.tool_results:
            task.history.append(
                Said(
                    each.id or task_id,
                    "ROLE_AGENT" if each.role == "assistant" else "ROLE_USER",
                    (Part(each.text),),
                    context_id,
                    task_id,
                )
            )
            task.size += len(each.text)
    calls = {call.id for each in turn for call in each.tool_uses}
    for artifact in session.artifacts():
        if artifact.tool_use_id in calls:
            task.restore(artifact)
    asked = [each.request for each in session.open_questions if each.request is not None]
    if asked and session.cut_off == input_id:
        task.request, task.is_suspended = asked[0], True
        task.status = Status(
            State.INPUT_REQUIRED, task.say(*describe_question(asked[0])), timestamp=now()
        )
    else:
        cut_off = State.WORKING if is_running else State.FAILED
        state = cut_off if session.cut_off == input_id else _state_of(turn)
        said = task.history[-1] if task.history and state is State.COMPLETED else None
        at = turn[-1].created_at if turn else None
        task.status = Status(state, said, timestamp=now() if at is None else write_time(at))
    book.open(task)
    return task


def _state_of(turn: Sequence[Message]) -> State:
    """Return how a turn has ended, as its last message shows."""
    last = turn[-1] if turn else None
    if last is None or last.role != "assistant" or last.tool_uses:
        return State.FAILED
    if last.stop_reason is StopReason.INTERRUPTED:
        return State.CANCELED
    return State.COMPLETED
