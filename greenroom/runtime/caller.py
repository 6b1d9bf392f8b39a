"""The caller: in whose task tree a piece of code runs, and in which event loop.

Which agent calls is read off trio's task tree, since a task that an agent starts in a nursery of the
application's is not part of that agent, although it inherits its context variables. The tree ends
where a thread calls back: trio runs what a plain tool's thread passes to `trio.from_thread` in a system
task, or in a task of its own. There, and only there, the context variable tells whose thread it is; so
that it does, each new task is given the agent in whose tree it begins.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

import trio

from greenroom.core import AgentContext, EventLoopError, Message, SelfWaitError

if TYPE_CHECKING:
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.runtime import AgentRuntime

_of_context: ContextVar["Actor | None"] = ContextVar("greenroom_actor", default=None)
_of_task: "dict[trio.lowlevel.Task, Actor]" = {}
"""The agents of this process, by the task that their task trees hang from."""


@contextmanager
def running_as(actor: "Actor") -> Iterator[None]:
    """Make the current task, and all that it starts, the agent's."""
    task = trio.lowlevel.current_task()
    _of_task[task] = actor
    _of_context.set(actor)
    try:
        yield
    finally:
        del _of_task[task]


def correct_context(task: trio.lowlevel.Task) -> None:
    """Let a new task not pass for that of the agent that has started it in a nursery of others."""
    inherited = task.context.get(_of_context)
    if inherited is not None and (actor := actor_of(task)) is not inherited:
        task.context.run(_of_context.set, actor)


def actor_of(task: trio.lowlevel.Task) -> "Actor | None":
    """Return the agent in whose task tree a task runs, or None outside of any."""
    actor, is_system = _climb(task)
    return task.context.get(_of_context) if is_system else actor


def current_actor() -> "Actor | None":
    """Return the agent in whose task tree the caller runs, or None outside of any.

    In a thread, outside of any event loop, it is the agent whose thread that is.
    """
    if not trio.lowlevel.in_trio_task():
        return _of_context.get()
    actor, is_system = _climb(trio.lowlevel.current_task())
    # Not the task's context: `from_thread.run_sync` runs in the thread's, but in a task of trio's.
    return _of_context.get() if is_system else actor


def calling_agent() -> AgentContext | None:
    """Return the context of the agent in whose task tree or tool call the caller is, or None.

    So code learns whether an agent has called it, without being handed anything. A task that a tool
    has started in a nursery of the application's is not part of the agent.
    """
    actor = current_actor()
    return None if actor is None else actor.context


def calling_history() -> tuple[Message, ...]:
    """Return the conversation so far of the agent that calls, see `calling_agent`; empty outside of any.

    A tool learns from it who said what; the messages are not to be changed.
    """
    actor = current_actor()
    return () if actor is None else actor.session.history


def entered_from_thread() -> bool:
    """Whether the caller runs in a system task of trio's, as what a thread calls back to does."""
    return trio.lowlevel.in_trio_task() and _climb(trio.lowlevel.current_task())[1]


def _climb(task: trio.lowlevel.Task) -> "tuple[Actor | None, bool]":
    """Return the agent that is found up the tree, and whether the way ends in trio's own nurseries."""
    each = task
    while (actor := _of_task.get(each)) is None:
        nursery = each.parent_nursery
        if nursery is None:
            return None, False
        root = nursery.parent_task
        if root.parent_nursery is None and nursery not in root.child_nurseries[-1:]:
            return None, True  # a system task; the innermost nursery is main's
        each = root
    return actor, False


def is_inside(actor: "Actor") -> bool:
    """Whether the caller is part of an agent: runs in it, or in an agent below it."""
    caller = current_actor()
    while caller is not None and caller is not actor:
        # A root may live in a runtime that another agent has opened: it is part of that one.
        caller = caller.parent or caller.runtime._host
    return caller is not None


def refuse_self_wait(actor: "Actor", what: str) -> None:
    """Raise `SelfWaitError` where the caller is part of what it would wait for."""
    if is_inside(actor):
        raise SelfWaitError(
            f"{what} would wait for the agent that calls it",
            hint="use interrupt_nowait() or kill(), or call it from outside of the agent",
        )


def require_loop(runtime: "AgentRuntime", what: str) -> None:
    """Raise `EventLoopError` where the caller is in another thread or loop than the runtime.

    Called before the first change: waking a task from a foreign thread breaks the event loop.
    """
    try:
        is_ours = trio.lowlevel.current_trio_token() is runtime._token
    except RuntimeError:
        is_ours = False
    if not is_ours:
        raise EventLoopError(
            f"{what} was called outside of the runtime's event loop",
            hint="with a RuntimeThread, write await greenroom.run(handle.interrupt), or run_sync in a plain"
            " thread; else trio.from_thread.run(handle.ask, text, trio_token=token), or"
            " from_thread.run_sync for what does not wait; token is what"
            " trio.lowlevel.current_trio_token() returned in the loop",
        )
