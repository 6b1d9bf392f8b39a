"""How the turn of an input has ended, whoever still knows it: its agent, or the record."""

from collections.abc import Sequence

from greenroom.core import Message, StopReason, TurnStatus
from greenroom.interop.serving.served_sessions import Known, ServedSessions
from greenroom.runtime import AgentHandle, TurnResult
from greenroom.runtime._internal import awaits_turn, find_result
from greenroom.session import AgentSession


async def find_end(
    sessions: ServedSessions, known: Known, handle: AgentHandle | None, input_id: str
) -> TurnResult | None:
    """Return how the turn of an input that was sent has ended; None if it is still to end.

    Args:
        sessions: the server's.
        known: the session.
        handle: its agent, or the last one; None if none has run here.
        input_id: the input.
    """
    found = None if handle is None else find_result(handle, input_id)
    if found is not None and found.status is not TurnStatus.WAITING:
        return found
    if _may_go_on(sessions, known, handle, input_id):
        return None
    session = await sessions.load(known.session_id)
    if _may_go_on(sessions, known, handle, input_id):  # by now
        return None
    is_suspended = any(each.request is not None for each in session.open_questions)
    if is_suspended and session.cut_off == input_id:
        return None  # an answer lets it go on
    return _read_end(session, input_id)


def _may_go_on(
    sessions: ServedSessions, known: Known, handle: AgentHandle | None, input_id: str
) -> bool:
    """Whether an agent that runs now has the turn, or had it until this moment."""
    now = sessions.runtime.get(known.session_id)
    if now is None:
        return False
    if handle is None or _epoch_of(now) != _epoch_of(handle):
        return True  # it has begun meanwhile
    end = find_result(now, input_id)
    return awaits_turn(now, input_id) or (end is not None and end.status is not TurnStatus.WAITING)


def _epoch_of(handle: AgentHandle) -> int:
    return handle.subscribe("none").position[0]


def _read_end(session: AgentSession, input_id: str) -> TurnResult:
    turn = find_messages(session.history, input_id)
    if not turn and session.has_input(input_id):
        return _fail("what was answered is no longer in the conversation")
    if not turn:
        return _fail("the agent has ended before it took the input")
    last = turn[-1]
    if session.cut_off == input_id or last.role != "assistant" or last.tool_uses:
        return _fail("the turn was cut off by the end of its agent")
    is_interrupted = last.stop_reason is StopReason.INTERRUPTED
    status = TurnStatus.INTERRUPTED if is_interrupted else TurnStatus.COMPLETED
    return TurnResult(status, last.text, last.stop_reason)


def _fail(why: str) -> TurnResult:
    return TurnResult(TurnStatus.FAILED, error=why)


def find_messages(history: Sequence[Message], input_id: str) -> list[Message]:
    """Return the messages of the turn that took an input: up to the next one of a person."""
    found = list[Message]()
    for each in history:
        if found and each.role == "user" and not each.tool_results:
            break
        if found or each.id == input_id:
            found.append(each)
    return found
