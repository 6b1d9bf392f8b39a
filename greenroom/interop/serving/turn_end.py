"""How the turn of an input has ended, whoever still knows it: its agent, or the record."""

from collections.abc import Sequence

import trio

from greenroom.core import Message, StopReason, TurnError, TurnStatus
from greenroom.interop.serving.served_sessions import Known, ServedSessions
from greenroom.runtime import AgentHandle, AgentNotRunningError, TurnResult
from greenroom.runtime._internal import find_result
from greenroom.session import AgentSession

_AT_ONCE = 0.01  # seconds for an agent to say that it knows of no such turn


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
    if handle is not None and found is None:
        try:
            with trio.move_on_after(_AT_ONCE):
                await handle.answer(input_id)
        except (TurnError, AgentNotRunningError):
            pass  # an agent before it had the turn, or none has
        else:
            return None  # it is on its way, or ends this very moment
    session = await sessions.load(known.session_id)
    now = sessions.runtime.get(known.session_id)
    if now is not None and (handle is None or _epoch_of(now) != _epoch_of(handle)):
        return None  # it has begun meanwhile, and may have the turn
    is_suspended = any(each.request is not None for each in session.open_questions)
    if is_suspended and session.cut_off == input_id:
        return None  # an answer lets it go on
    return _read_end(session, input_id)


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
