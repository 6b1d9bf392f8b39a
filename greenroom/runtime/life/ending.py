"""How an agent ends, in one step that nothing can interrupt.

The registry forgets it, its state is final, `Error` (if any) and `Exited` are published, the ring
closes, `wait()` wakes, and whoever stands above it is told.
"""

import logging

from greenroom.core import (
    AgentState,
    ConversationInput,
    EndStatus,
    Exited,
    SubAgentComplete,
    SubAgentResult,
)
from greenroom.runtime.actor import Actor
from greenroom.runtime.failure import describe, error_chunk
from greenroom.runtime.outcome import Outcome

__all__ = ["finish", "last_reply"]

logger = logging.getLogger("greenroom.runtime")


def finish(actor: Actor) -> None:
    """End an agent of which nothing is alive any more."""
    outcome = _outcome(actor)
    crash, text = actor.life.crash, describe(outcome.error)
    actor.outcome = outcome
    actor.turns.drop_taken()
    actor.runtime._registry.forget(actor)
    actor.context.resources.clear()  # a tool's temporary folder goes with its agent
    actor.output.close_tools()
    is_news = crash is not None and not actor.life.is_told
    if is_news:
        logger.error("the agent %s has crashed", "/".join(actor.lineage()), exc_info=crash)
    actor.set_state(AgentState.failed(text) if crash else AgentState.done())
    if crash is not None and is_news:
        actor.publish(error_chunk(crash))
    exited = Exited(outcome.status, text)
    actor.publish(exited)
    _tell_parent(actor, outcome, text)
    actor.output.ring.close()
    actor.turns.end()
    actor.task = None
    actor.ended.set()
    for monitor in tuple(actor.monitors):
        monitor.tell()
    if actor.member is not None:
        actor.member.gone()
    actor.notify("after_agent", exited)


def _outcome(actor: Actor) -> Outcome:
    status, error = _status(actor), actor.life.crash
    if status is EndStatus.CANCELLED and actor.member is not None:
        error = actor.member.stopped_by
    return Outcome(
        status=status,
        error=error,
        undelivered=(*_cut_off(actor, status), *actor.mailbox.drain()),
        abandoned=tuple(actor.cleanups.abandoned),
        restarts=actor.restarts,
    )


def _cut_off(actor: Actor, status: EndStatus) -> tuple[ConversationInput, ...]:
    """Return the message that the agent had taken when its end came from outside, before its turn."""
    taken = actor.turns.taken
    from_outside = status in {EndStatus.CANCELLED, EndStatus.KILLED}
    return (taken.message,) if taken is not None and from_outside else ()


def _status(actor: Actor) -> EndStatus:
    if actor.killed:
        return EndStatus.KILLED
    if actor.life.crash is not None:
        return EndStatus.CRASHED
    return EndStatus.COMPLETED if actor.life.returned else EndStatus.CANCELLED


def _tell_parent(actor: Actor, outcome: Outcome, error: str) -> None:
    parent = actor.parent
    if parent is None:
        return
    reply = last_reply(actor)
    session = actor.session
    parent.children.remove(actor)
    parent.publish(SubAgentComplete(session.session_id, outcome.status, error or reply))
    # A parent whose function is over ends its subagents itself, and takes no more input.
    if parent.life.takes_results and not parent.scope.cancel_called:
        parent.children.report(
            actor,
            SubAgentResult(session.session_id, session.agent_type, outcome.status, reply, error),
        )


def last_reply(actor: Actor) -> str:
    """Return the text of the agent's last reply."""
    replies = (m for m in reversed(actor.session.history) if m.role == "assistant")
    return next((message.text for message in replies if message.text), "")
