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
    GreenroomError,
    SubAgentComplete,
    SubAgentResult,
)
from greenroom.runtime.actor import Actor, current_actor
from greenroom.runtime.internals import AgentInternals
from greenroom.runtime.outcome import Outcome
from greenroom.runtime.turn import error_chunk, leaves

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
    crash: BaseException | None = None
    try:
        with actor.scope:
            crash = await _open_and_run(actor, function, args)
    finally:
        actor.mailbox.close()
        crash = await _flush(actor, crash)
        _finish(actor, crash)


async def _open_and_run(
    actor: Actor,
    function: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
) -> BaseException | None:
    try:
        await actor.session.open()
    except GreenroomError as error:
        return error
    actor.opened = True
    crash: BaseException | None = None
    async with trio.open_nursery() as nursery:
        actor.nursery = nursery
        try:
            await function(AgentInternals(actor), *args)
            actor.returned = True
        except Exception as error:  # noqa: BLE001 (a crash is a value: it goes into the outcome)
            crash = error
        except BaseExceptionGroup as group:
            crash = _without_cancelled(group)
        await _end_subagents(actor, crash)
    return crash


def _without_cancelled(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Take the crash out of a group that also holds a cancel; what is no Exception propagates."""
    cancelled, rest = group.split(trio.Cancelled)
    if rest is not None and not isinstance(rest, ExceptionGroup):
        raise group
    if rest is None and cancelled is not None:
        raise cancelled
    return rest


async def _end_subagents(actor: Actor, crash: BaseException | None) -> None:
    """The agent's function has returned: its subagents end too, with time for their turns."""
    if crash is None:
        async with trio.open_nursery() as nursery:
            for child in actor.live_children():
                nursery.start_soon(child.shut_down, actor.limits.flush_grace)
    with trio.CancelScope(shield=True):
        await actor.end_children()


async def _flush(actor: Actor, crash: BaseException | None) -> BaseException | None:
    actor.session.pair_tool_uses()
    with trio.CancelScope(
        shield=True, deadline=trio.current_time() + actor.limits.flush_grace
    ) as scope:
        try:
            if actor.opened:
                await actor.session.save()
        except GreenroomError as error:
            logger.warning("%s: the last save failed: %s", actor.session.session_id, error)
            crash = crash or error
        finally:
            await actor.session.close()
    if scope.cancelled_caught:
        logger.error("%s: the last save did not end in time", actor.session.session_id)
    return crash


def _finish(actor: Actor, crash: BaseException | None) -> None:
    outcome = Outcome(
        status=_status(actor, crash),
        error=crash,
        undelivered=actor.mailbox.drain(),
        abandoned=tuple(actor.abandoned),
    )
    actor.outcome = outcome
    actor.drop_taken()
    actor.runtime.forget(actor)
    text = _message(crash)
    if crash is not None:
        logger.error("the agent %s has crashed", "/".join(actor.lineage()), exc_info=crash)
    actor.set_state(AgentState.failed(text) if crash else AgentState.done())
    if crash is not None:
        actor.publish(error_chunk(crash))
    actor.publish(Exited(outcome.status, text))
    _tell_parent(actor, outcome, text)
    actor.ring.close()
    for wake in tuple(actor.waiting_for_turn.values()):
        wake(None)
    actor.waiting_for_turn.clear()
    actor.ended.set()


def _status(actor: Actor, crash: BaseException | None) -> EndStatus:
    if actor.killed:
        return EndStatus.KILLED
    if crash is not None:
        return EndStatus.CRASHED
    return EndStatus.COMPLETED if actor.returned else EndStatus.CANCELLED


def _message(crash: BaseException | None) -> str:
    if crash is None:
        return ""
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves(crash))


def _tell_parent(actor: Actor, outcome: Outcome, error: str) -> None:
    parent = actor.parent
    if parent is None:
        return
    del parent.children[actor.session.session_id]
    result = last_reply(actor)
    parent.publish(SubAgentComplete(actor.session.session_id, outcome.status, error or result))
    # The turn that spawned it has gone on without it: the result is the parent's next input.
    if actor.spawn_turn is not parent.turn and not parent.mailbox.closed:
        parent.mailbox.put_result(
            SubAgentResult(
                session_id=actor.session.session_id,
                agent_type=actor.session.agent_type,
                status=outcome.status,
                text=result,
                error=error,
            )
        )


def last_reply(actor: Actor) -> str:
    """Return the text of the agent's last reply."""
    replies = (m for m in reversed(actor.session.history) if m.role == "assistant")
    return next((message.text for message in replies if message.text), "")
