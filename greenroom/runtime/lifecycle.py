"""How an agent lives and ends.

Theory of operation
===================

    spawned ──the lock is taken──▶ living ──▶ parked ──the supervisor starts it──▶ living
                                     └──▶ ended

A life is one run of the agent's function. An agent has one life, or several if a supervisor starts
it again. The writer lock comes first; without it the function is never called. The end of a life
ends the tasks that the function started, closes a turn that it left open, ends its subagents, and
pairs and saves the history, in this order. While parked, the agent keeps its lock, its mailbox and
its readers. After the last life the lock is released, and the agent ends in one step, which nothing
can interrupt: outcome, registry, state, `Error`, `Exited`, the report to the parent, and `ended`.

The function runs in a task of its own, in the nursery of its life, beside the subagents. An error
of any kind, a cancel scope or a nursery that was entered and never left, a turn that is still open:
all of this stays there, and the agent's own task, with the scopes that the runtime relies on, sees
it as a value. What the function has left behind, such as a turn or subagents, is ended by another
task in that nursery, whose scopes are sound; most functions leave nothing, and take no such task.

A single task would cost less. But when a task ends, trio makes an error of each nursery that was
never left in it, and raises that in the nursery around the task. There it would cancel all other
agents, and no public name of trio's takes a nursery from its task before.

A cancel may fall into the wait for the lock, into the function, and into the wait while parked: it
is that of the nursery of the life, or of the wait, in which `Reach` ends the agent.
Clean-up (the end of its tasks and subagents, the last save) is shielded, and done in spite of a
cancel. A crash of the function, and a store that refuses the lock or the last save, become
`life.crash`, the first of them. Only a cancel from above and a KeyboardInterrupt go on, and the
agent has ended by then. A crash of the process leaves the files as the last save left them, and the
lock free.
"""

import logging

import trio
from msgspec import UNSET

from greenroom.core import (
    AgentState,
    Exited,
    Message,
    Resume,
    StateChange,
    SubAgentComplete,
    SubAgentResult,
)
from greenroom.core._internal import (
    RUNTIME,
    ConversationInput,
    EndStatus,
    describe_error,
    log_error,
)
from greenroom.runtime.actor import Actor
from greenroom.runtime.background import tell_lost
from greenroom.runtime.interruption import current_cleanup
from greenroom.runtime.results import Outcome
from greenroom.runtime.tasks import (
    Life,
    begin_owning,
    end_owning,
    is_cancelled,
    must_propagate,
    strip_cancelled,
)
from greenroom.runtime.ties import Membership

logger = logging.getLogger("greenroom.runtime")

_DONE = StateChange(AgentState.done())
_COMPLETED = Exited(EndStatus.COMPLETED)


@trio.lowlevel.enable_ki_protection  # its function has a task of its own
async def run_agent(actor: Actor) -> None:
    """Run an agent from its lock to its outcome; a crash becomes a value, never an exception."""
    if current_cleanup.get() is not None:
        current_cleanup.set(None)  # a subagent that is spawned in a clean-up lives longer than that
    task = begin_owning(actor)
    try:
        actor.notify("before_agent")
        await _run_life(actor)
        while actor.member is not None and await _wait_next_life(actor, actor.member):
            await _run_life(actor)
    except BaseException as error:
        # It propagates, as a KeyboardInterrupt must; the outcome has it too.
        actor.kernel.note_failure(error)
        if not is_cancelled(error):
            actor.life.crash = error
        raise
    finally:
        if not actor.mailbox.closed:
            actor.mailbox.close()
        try:
            await _end(actor)
        except BaseException as error:
            actor.kernel.note_failure(error)
            raise
        finally:
            end_owning(task)


async def _run_life(actor: Actor) -> None:
    life, corruption = actor.life, None
    try:
        async with trio.open_nursery() as nursery:
            actor.scope.enter(nursery.cancel_scope)
            life.begin(nursery.cancel_scope)
            await _start(actor, nursery)
    except BaseException as error:
        if must_propagate(error) or actor.kernel.is_broken:
            raise
        corruption = strip_cancelled(error)  # trio's own word on what the function left open
        life.has_returned = False
    finally:
        life.nursery = None
        if life.monitors or life.supervisions:
            life.end()
    if life.raised is not None:
        _judge(life)
    if corruption is not None:
        life.record_crash(corruption)


async def _start(actor: Actor, nursery: trio.Nursery) -> None:
    """Start the function in a task of its own, once the agent has its lock."""
    if not await _open(actor):
        return
    actor.life.nursery = nursery
    if actor.member is not None:
        actor.member.mark_begun()
    nursery.start_soon(_run_function, actor, nursery, name=f"agent {actor.name}")


async def _open(actor: Actor) -> bool:
    """Take the lock, unless an earlier life did, and store the note on that life for the model."""
    try:
        if not actor.has_lock:
            await trio.lowlevel.checkpoint_if_cancelled()  # as it may be that nothing else waits
            if not actor.session.journal.open_now():
                await actor.session.open()
            actor.has_lock = True
            actor.output.begin_epoch(actor.session.journal.epoch)
        if actor.restart_note:
            actor.session.add_message(Message.user(actor.restart_note, sender=RUNTIME))
            actor.restart_note = ""
            await actor.flush()
        if tell_lost(actor.session, actor.mailbox):
            await actor.flush()
    except BaseException as error:  # noqa: BLE001 (a crash is a value: it goes into the outcome)
        actor.life.fail(_as_crash(error))
        await _release(actor)
    return actor.life.crash is None


async def _run_function(actor: Actor, nursery: trio.Nursery) -> None:
    life = actor.life
    actor.main_task = task = trio.lowlevel.current_task()
    try:
        if not actor.kernel.is_open:  # it was left since this task was started
            await trio.lowlevel.checkpoint_if_cancelled()
        life.value = await actor.call()
    except BaseException as error:
        life.raised = error  # judged by the agent's own task
        if is_cancelled(error) and _is_being_cancelled():
            raise  # the scope that was cancelled catches it
    else:
        life.has_returned = not task.child_nurseries
    finally:
        if actor.leaves_behind:
            nursery.start_soon(_end_rest, actor, name=f"the end of agent {actor.name}")
        else:
            if life.tasks is not None:
                life.tasks.leave()
            actor.end_budgets()
            life.nursery = None


async def _end_rest(actor: Actor) -> None:
    """End what the function has left behind."""
    life = actor.life
    if life.tasks is not None:
        await life.tasks.end()
    actor.end_budgets()
    await actor.turns.abandon()
    _judge(life)
    life.nursery = None
    await _end_subagents(actor)


def _judge(life: Life) -> None:
    """Find out whether what the function raised, if anything, is a crash of it."""
    error, life.raised = life.raised, None
    if error is not None and not (life.is_cut_off and is_cancelled(error)):
        life.record_crash(_as_crash(error))


def _as_crash(error: BaseException) -> BaseException:
    """Return the crash that an error of the function or the store is.

    A cancel of more than this life, and a KeyboardInterrupt, are raised again.
    """
    if is_cancelled(error):
        if _is_being_cancelled():
            raise error
        stray = RuntimeError("the agent raised trio.Cancelled, and nothing had cancelled it")
        stray.__cause__ = error
        return stray
    if must_propagate(error):
        raise error
    return strip_cancelled(error)


async def _end_subagents(actor: Actor) -> None:
    """End the subagents of a function that has returned, with time for their turns.

    What tools have left running ends at once.
    """
    life = actor.life
    is_sound = life.has_returned and life.crash is None
    await actor.end_all_subagents(actor.limits.flush_grace if is_sound else None)
    # A supervisor's job, such as a back-off, would hold the nursery open.
    actor.life.end_supervisions()


async def _wait_next_life(actor: Actor, member: Membership) -> bool:
    """Ask the supervisor, and wait until the next life may begin."""
    if _was_asked_to_end(actor):
        return False
    actor.output.close_tools()
    if not member.try_park():
        return False
    if actor.life.has_returned:
        actor.turns.drop_unopened()
    else:
        actor.turns.put_back()
    actor.output.clear_partial()
    actor.drop_resources()  # as at the end of the agent
    await _flush(actor)
    with trio.CancelScope() as scope:
        actor.scope.enter(scope)
        await member.wait_start()
    return not scope.cancelled_caught


def _was_asked_to_end(actor: Actor) -> bool:
    """Whether it or its host is being ended: then no supervisor starts it again."""
    return actor.mailbox.closed or actor.scope.is_cancelled or _is_being_cancelled()


def _is_being_cancelled() -> bool:
    return trio.current_effective_deadline() == float("-inf")


async def _flush(actor: Actor) -> None:
    if not actor.has_lock:
        return
    actor.session.conversation.pair_tool_uses(keep_unstarted=actor.session.conversation.keep_open)
    try:
        await actor.flush()
    except BaseException as error:
        if must_propagate(error):
            raise
        logger.warning("%s: the last save failed: %s", actor, describe_error(error))
        actor.life.record_crash(strip_cancelled(error))
        # Another life takes the lock again: after some failures only that lets a session write.
        await _release(actor)


async def _release(actor: Actor) -> None:
    """Release the writer lock; should the store fail, no other agent is affected."""
    if not actor.has_lock:
        return
    actor.has_lock = False
    try:
        if not actor.session.journal.close_now():
            await actor.session.close()
    except BaseException as error:
        if must_propagate(error):
            raise
        log_error(logger, f"{actor}: the session could not be released", error)


async def _end(actor: Actor) -> None:
    try:
        if not actor.is_settled:
            actor.drop_resources()
            await _flush(actor)
    finally:
        try:
            await _release(actor)
        finally:
            _finish(actor)


def _finish(actor: Actor) -> None:
    """End an agent of which nothing is alive; whatever fails, those who wait for it wake."""
    try:
        outcome = actor.outcome = _make_outcome(actor)
    except BaseException as error:  # a bug of the runtime: it goes up
        outcome = actor.outcome = Outcome(EndStatus.CRASHED, error=error)
        raise
    finally:
        _tell_end(actor, outcome)


def _tell_end(actor: Actor, outcome: Outcome) -> None:
    if outcome.status is _COMPLETED.status:
        exited = _COMPLETED
    else:
        exited = Exited(outcome.status, describe_error(outcome.error))
    actor.kernel.registry.forget(actor)
    try:
        try:
            actor.turns.drop_unopened()
            _publish_end(actor, exited)
        finally:
            if actor.parent is not None:
                _tell_parent(actor, actor.parent, exited)
    finally:
        actor.ended.set()  # those who wait run after this step
        actor.output.ring.close()
        actor.turns.end()
        actor.main_task = None
        if actor.monitors:
            actor.tell_monitors(outcome)
        if actor.member is not None:
            actor.member.mark_gone()
        actor.notify("after_agent", exited)


def _publish_end(actor: Actor, exited: Exited) -> None:
    crash = actor.life.crash
    if actor.output.open_tools:
        actor.output.close_tools()
    if crash is None:
        actor.state = _DONE.state
        actor.output.publish(_DONE, exited)
        return
    if not actor.life.is_reported:
        log_error(logger, f"the agent {actor.path} has crashed", crash)
    actor.set_state(AgentState.failed(exited.error))
    actor.publish_crash()
    actor.output.publish(exited)


def _make_outcome(actor: Actor) -> Outcome:
    value, error, is_cut_off = None, actor.life.crash, False
    if actor.is_killed:
        status, is_cut_off = EndStatus.KILLED, True
    elif error is not None:
        status = EndStatus.CRASHED
    elif actor.life.has_returned:
        status, value = _COMPLETED.status, actor.life.value
    else:
        status, is_cut_off = EndStatus.CANCELLED, True
        error = None if actor.member is None else actor.member.stopped_by
    undelivered = _find_undelivered(actor, is_cut_off=is_cut_off)
    return Outcome(status, value, error, undelivered, actor.abandoned, actor.restarts)


def _find_undelivered(actor: Actor, *, is_cut_off: bool) -> tuple[ConversationInput, ...]:
    """Return the inputs that it never took, and those without a turn when it was cut off.

    A `Resume` is not among them: it was not sent, and its calls are still open.
    """
    waiting = actor.mailbox.drain()
    if is_cut_off:
        waiting = (*actor.turns.unopened_inputs, *waiting)
    return waiting and tuple(each for each in waiting if not isinstance(each, Resume))


def _tell_parent(actor: Actor, parent: Actor, exited: Exited) -> None:
    session = actor.session
    parent.children.remove(actor)
    reply = _find_last_reply(actor)
    parent.output.publish(
        SubAgentComplete(session.session_id, exited.status, exited.error or reply)
    )
    last = actor.turns.last
    actor.report.end(
        SubAgentResult(
            session.session_id,
            session.agent_type,
            exited.status,
            reply,
            exited.error,
            value=UNSET if last is None else last.value,
        )
    )


def _find_last_reply(actor: Actor) -> str:
    texts = (m.text for m in reversed(actor.session.history) if m.role == "assistant")
    return next(filter(None, texts), "")
