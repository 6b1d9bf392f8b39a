"""How an agent begins and how it ends: the one place that says so.

The writer lock comes first; without it the agent's function is never called. The end is, in order:
the subagents are gone, the history is paired and flushed, the lock is released; then, in one step
that nothing can interrupt: the registry forgets the agent, its state is final, `Error` (if any) and
`Exited` are published, the ring closes, and `wait()` wakes.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack

import trio

from greenroom.core import (
    AgentState,
    EndStatus,
    Exited,
    SubAgentComplete,
    SubAgentResult,
    UserInput,
)
from greenroom.runtime.actor import Actor
from greenroom.runtime.caller import current_actor
from greenroom.runtime.cleanup import enclosing
from greenroom.runtime.failure import describe, error_chunk, is_cancelled
from greenroom.runtime.internals import AgentInternals
from greenroom.runtime.outcome import Outcome
from greenroom.runtime.tool_slot import current_slot

__all__ = ["run_agent"]

Ts = TypeVarTuple("Ts")

logger = logging.getLogger("greenroom.runtime")


async def run_agent(
    actor: Actor,
    function: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
) -> None:
    """Run an agent from its lock to its outcome; a crash becomes a value, never an exception."""
    current_actor.set(actor)
    enclosing.set(None)  # a subagent that is spawned in a clean-up lives longer than that
    current_slot.set(None)  # spawned in a tool call, it is no part of that call
    try:
        with actor.scope:
            await _open_and_run(actor, function, args)
    except BaseException as error:
        # It goes on to whoever must see it, such as a KeyboardInterrupt; the outcome tells it too.
        if not is_cancelled(error):
            actor.crash = error
        raise
    finally:
        actor.mailbox.close()
        try:
            await _flush(actor)
        finally:
            _finish(actor)


async def _open_and_run(
    actor: Actor,
    function: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
) -> None:
    # A crash is kept in the actor at once: a cancel that comes later must not take it away.
    try:
        await actor.session.open()
    except Exception as error:  # noqa: BLE001 (a crash is a value: it goes into the outcome)
        actor.crash = error
        return
    actor.opened = True
    async with trio.open_nursery() as nursery:
        actor.nursery = nursery
        try:
            await function(AgentInternals(actor), *args)
            actor.returned = True
        except Exception as error:  # noqa: BLE001 (as above)
            actor.crash = error
        except BaseExceptionGroup as group:
            actor.crash = _without_cancelled(group)
        actor.nursery = None
        await _end_subagents(actor)


def _without_cancelled(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Take the crash out of a group that also holds a cancel; what is no Exception propagates."""
    _, rest = group.split(trio.Cancelled)
    if not isinstance(rest, ExceptionGroup):
        raise group
    return rest


async def _end_subagents(actor: Actor) -> None:
    """The agent's function has returned: its subagents end too, with time for their turns."""
    if actor.crash is None:
        await actor.children.shut_down(actor.limits.flush_grace)
    with trio.CancelScope(shield=True):
        await actor.children.end()


async def _flush(actor: Actor) -> None:
    if not actor.opened:
        return
    actor.session.pair_tool_uses()
    try:
        await actor.flush()
    except Exception as error:  # noqa: BLE001 (whatever a store raises, the agent ends as it must)
        logger.warning("%s: the last save failed: %s", actor.session.session_id, error)
        actor.crash = actor.crash or error
    finally:
        await _release(actor)


async def _release(actor: Actor) -> None:
    """Give the writer lock back; a store that fails at that fails nobody else."""
    try:
        await actor.session.close()
    except Exception:
        logger.exception("%s: the session could not be released", actor.session.session_id)


def _finish(actor: Actor) -> None:
    crash = actor.crash
    text = describe(crash)
    status = _status(actor)
    outcome = Outcome(
        status=status,
        error=crash,
        undelivered=(*_cut_off(actor, status), *actor.mailbox.drain()),
        abandoned=tuple(actor.cleanups.abandoned),
    )
    actor.outcome = outcome
    actor.turns.drop_taken()
    actor.runtime._registry.forget(actor)
    actor.context.resources.clear()  # a tool's temporary folder goes with its agent
    actor.output.close_tools()
    if crash is not None:
        logger.error("the agent %s has crashed", "/".join(actor.lineage()), exc_info=crash)
    actor.set_state(AgentState.failed(text) if crash else AgentState.done())
    if crash is not None:
        actor.publish(error_chunk(crash))
    actor.publish(Exited(outcome.status, text))
    _tell_parent(actor, outcome, text)
    actor.output.ring.close()
    actor.turns.end()
    actor.ended.set()


def _cut_off(actor: Actor, status: EndStatus) -> tuple[UserInput | SubAgentResult, ...]:
    """Return the message that the agent had taken when its end came from outside, before its turn."""
    taken = actor.turns.taken
    from_outside = status in {EndStatus.CANCELLED, EndStatus.KILLED}
    return (taken.message,) if taken is not None and from_outside else ()


def _status(actor: Actor) -> EndStatus:
    if actor.killed:
        return EndStatus.KILLED
    if actor.crash is not None:
        return EndStatus.CRASHED
    return EndStatus.COMPLETED if actor.returned else EndStatus.CANCELLED


def _tell_parent(actor: Actor, outcome: Outcome, error: str) -> None:
    parent = actor.parent
    if parent is None:
        return
    reply = last_reply(actor)
    session = actor.session
    parent.children.remove(actor)
    parent.publish(SubAgentComplete(session.session_id, outcome.status, error or reply))
    # A parent whose function is over ends its subagents itself, and takes no more input.
    if parent.nursery is not None and not parent.scope.cancel_called:
        parent.children.report(
            actor,
            SubAgentResult(session.session_id, session.agent_type, outcome.status, reply, error),
        )


def last_reply(actor: Actor) -> str:
    """Return the text of the agent's last reply."""
    replies = (m for m in reversed(actor.session.history) if m.role == "assistant")
    return next((message.text for message in replies if message.text), "")
