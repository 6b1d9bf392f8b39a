"""How an agent lives: the one place that says so.

An agent has one life, or where a supervisor starts it again several: a life is one run of its
function. The writer lock comes first; without it the function is never called. At the end of a
life, in order: its subagents are gone, the history is paired and flushed. Between two lives the
agent is parked, and keeps its lock, its mailbox and its readers. After the last one the lock is
released, and the agent ends in one step (`ending`).
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVarTuple, Unpack

import trio

from greenroom.core import Message
from greenroom.runtime.actor import Actor
from greenroom.runtime.budgets.tool_slot import current_slot
from greenroom.runtime.caller import current_actor
from greenroom.runtime.failure import is_cancelled
from greenroom.runtime.internals import AgentInternals
from greenroom.runtime.life.ending import finish
from greenroom.runtime.turns.cleanup import enclosing

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
    actor.task = trio.lowlevel.current_task()
    enclosing.set(None)  # a subagent that is spawned in a clean-up lives longer than that
    current_slot.set(None)  # spawned in a tool call, it is no part of that call
    try:
        actor.notify("before_agent")
        with actor.scope:
            await _live(actor, function, args)
            while await _lives_again(actor):
                await _live(actor, function, args)
    except BaseException as error:
        # It goes on to whoever must see it, such as a KeyboardInterrupt; the outcome tells it too.
        if not is_cancelled(error):
            actor.life.crash = error
        raise
    finally:
        actor.mailbox.close()
        await _end(actor)


async def _end(actor: Actor) -> None:
    try:
        await _flush(actor)
    finally:
        try:
            await _release(actor)
        finally:
            finish(actor)


async def _live(
    actor: Actor,
    function: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
) -> None:
    life = actor.life
    try:
        with life.scope:
            if await _open(actor):
                await _run(actor, function, args)
    finally:
        life.end_supervisions()
        life.end_monitors()


async def _open(actor: Actor) -> bool:
    """Take the lock, unless an earlier life has it, and store what the model is told of that life."""
    try:
        if not actor.opened:
            await actor.session.open()
            actor.opened = True
        if actor.note:
            actor.session.add_message(Message.user(actor.note))
            actor.note = ""
            await actor.flush()
    except Exception as error:  # noqa: BLE001 (a crash is a value: it goes into the outcome)
        actor.life.fail(error)
        await _release(actor)
    return actor.life.crash is None


async def _run(
    actor: Actor,
    function: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
) -> None:
    # A crash is kept at once: a cancel that comes later must not take it away.
    life = actor.life
    async with trio.open_nursery() as nursery:
        life.nursery = nursery
        if actor.member is not None:
            actor.member.begun()
        try:
            await function(AgentInternals(actor), *args)
            life.returned = True
        except Exception as error:  # noqa: BLE001 (as above)
            life.crash = life.crash or error
        except BaseExceptionGroup as group:
            life.crash = life.crash or _without_cancelled(group)
        finally:
            life.nursery = None
        await _end_subagents(actor)


def _without_cancelled(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Take the crash out of a group that also holds a cancel; what is no Exception propagates."""
    _, rest = group.split(trio.Cancelled)
    if not isinstance(rest, ExceptionGroup):
        raise group
    return rest


async def _end_subagents(actor: Actor) -> None:
    """The agent's function has returned: its subagents end too, with time for their turns."""
    if actor.children:
        if actor.life.crash is None:
            await actor.children.shut_down(actor.limits.flush_grace)
        with trio.CancelScope(shield=True):
            await actor.children.end()
    # Else a supervisor's job, such as a back-off, would hold the nursery open.
    actor.life.end_supervisions()


async def _lives_again(actor: Actor) -> bool:
    """Ask the supervisor, if there is one, and wait until the next life may begin."""
    member = actor.member
    if member is None or _was_asked_to_end(actor):
        return False
    actor.output.close_tools()
    if not member.parks():
        return False
    if actor.life.returned:
        actor.turns.drop_taken()
    else:
        actor.turns.put_back()
    actor.output.partial.clear()
    actor.context.resources.clear()  # as at the end of the agent
    await _flush(actor)
    await member.wait_start()
    return True


def _was_asked_to_end(actor: Actor) -> bool:
    """Whether somebody has ended it or its home: then no supervisor starts it again."""
    return actor.mailbox.closed or trio.current_effective_deadline() == float("-inf")


async def _flush(actor: Actor) -> None:
    if not actor.opened:
        return
    actor.session.pair_tool_uses()
    try:
        await actor.flush()
    except Exception as error:  # noqa: BLE001 (whatever a store raises, the agent goes on or ends)
        logger.warning("%s: the last save failed: %s", actor.signature, error)
        actor.life.crash = actor.life.crash or error
        # Another life takes the lock anew: after some failures only that lets a session be written.
        await _release(actor)


async def _release(actor: Actor) -> None:
    """Give the writer lock back; a store that fails at that fails nobody else."""
    if not actor.opened:
        return
    actor.opened = False
    try:
        await actor.session.close()
    except Exception:
        logger.exception("%s: the session could not be released", actor.signature)
