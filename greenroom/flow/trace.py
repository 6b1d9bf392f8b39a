"""Find out what an interrupted subtask left behind: a result, nothing, or uncertainty.

A subtask is cut off when the process is killed or its turn interrupted. Its session shows which
effects it may have had: a call is recorded before it starts, so without a record no call was made.
If a call had started and has no result, its effect is uncertain. The same is true of an agent that
uses no model, since its actions are not recorded as calls. In these cases a person is asked before
anything is run again.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Literal

from greenroom.core import Message, SessionCorruptError, SessionNotFoundError, StopReason
from greenroom.flow.references import read_value
from greenroom.session import AgentSession, SessionStore, is_stand_in, may_have_run


@dataclass(frozen=True)
class Trace:
    """What a subtask that was cut off left behind.

    Attributes:
        kind: "nothing" if it can be repeated safely, "result" if it ended, or "unsure".
        session: the conversation to continue, if any.
        result: its result, if any.
        error: its error, if it failed.
        doubt: what may have happened.
    """

    kind: Literal["nothing", "result", "unsure"]
    session: AgentSession | None = None
    result: object = None
    error: str = ""
    doubt: str = ""


async def find_trace(
    session_id: str,
    parents: Collection[str],
    store: SessionStore | None,
    inspect: Callable[[AgentSession], Trace],
) -> Trace:
    """Find out what a subtask or node that was cut off left behind, by its session.

    Args:
        session_id: the session in which it ran.
        parents: the sessions that may have started it: the current agent's, and those it continues.
        store: the store of both.
        inspect: returns what a session shows, such as `trace_call`; it gets an empty session if
            none was stored.

    Raises:
        SessionError: the store can't be read.
    """
    try:
        session = await AgentSession.load(session_id, store=store)
    except SessionNotFoundError:
        # A call is stored before it starts; what an agent does before its first model call is not.
        return replace(inspect(AgentSession.new("unstored")), session=None)
    except SessionCorruptError:
        return Trace("unsure", doubt="its session is damaged")
    if session.parent_session_id not in parents:
        return Trace("unsure", doubt="it ran in another session, of which this is a fork")
    return inspect(session)


async def reopen(session: AgentSession, parent: AgentSession) -> AgentSession:
    """Fork the session of an agent that was cut off, for the agent that continues it.

    Raises:
        SessionError: it can't be saved.
    """
    fork = await session.fork()  # each agent has a session of its own
    fork.description.set_parent(parent.session_id, None)
    await fork.save()
    return fork


def trace_call(session: AgentSession) -> Trace:
    """Find out what became of the only call in a session."""
    reply, answer = _last_reply(session)
    calls = reply.tool_uses if reply else ()
    results = answer.tool_results if answer else ()
    if not calls or not results:
        return Trace("nothing")
    result, name = results[-1], calls[-1].name
    if may_have_run(result):
        return Trace("unsure", doubt=f"the call of {name} had started")
    if is_stand_in(result):
        return Trace("nothing")
    if result.is_error:
        return Trace("result", error=result.text)
    return Trace("result", result=read_value(result.text))


def trace_worker(session: AgentSession) -> Trace:
    """Find out what became of an agent."""
    reply, answer = _last_reply(session)
    if answer and (doubtful := [each for each in answer.tool_results if may_have_run(each)]):
        calls = {call.id: call.name for call in (reply.tool_uses if reply else ())}
        names = ", ".join(calls.get(each.tool_use_id, "a tool") for each in doubtful)
        return Trace("unsure", session, doubt=f"the call of {names} had started")
    if reply and not answer and not reply.tool_uses and reply.stop_reason not in _UNFINISHED:
        return Trace("result", session, reply.text)  # no message follows: its turn was complete
    if session.model:
        return Trace("nothing", session)
    return Trace("unsure", session, doubt="its agent had begun")


_UNFINISHED = (
    StopReason.INTERRUPTED,
    StopReason.PAUSE,
    StopReason.MAX_TOKENS,
    StopReason.MALFORMED_CALL,
)


def _last_reply(session: AgentSession) -> tuple[Message | None, Message | None]:
    """Return the last reply, and the message after it."""
    after: Message | None = None
    for message in reversed(session.history):
        if message.role == "assistant":
            return message, after
        after = message
    return None, after
