"""The tasks of agents: in whose task tree a piece of code runs, in which event loop, and which tasks are alive.

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


# -- the living tasks: all that an agent's function has started and that has not ended ---------------
#
# trio's own tree does not tell it. Where code leaves a nursery open, trio closes another one in its
# place, or lets go of it together with the task that opened it; its tasks live on, and nobody waits for
# them. So tasks are counted as trio starts and ends them.


class LivingTasks(trio.abc.Instrument):
    """The instrument by which one runtime knows the tasks of its agents."""

    def __init__(self) -> None:
        """Start with none."""
        self._groups: dict[trio.lowlevel.Task, TaskGroup] = {}

    def add(self, task: trio.lowlevel.Task, group: "TaskGroup") -> None:
        """A task, and all that is started below it, belongs to a group."""
        self._groups[task] = group
        group.count += 1

    def cancel(self, group: "TaskGroup") -> None:
        """Cancel the nurseries in which the tasks of a group run."""
        for task, each in tuple(self._groups.items()):
            if each is not group:
                continue
            if task.parent_nursery is None or not group.holds(task):
                self._remove(task)
            else:
                task.parent_nursery.cancel_scope.cancel()

    def _remove(self, task: trio.lowlevel.Task) -> None:
        group = self._groups.pop(task, None)
        if group is not None:
            group.count -= 1
            if group.changed is not None:
                group.changed.set()

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """A task belongs to the agent, and to the group, of the one that has opened its nursery."""
        correct_context(task)
        nursery = task.parent_nursery
        group = self._groups.get(nursery.parent_task) if nursery is not None else None
        if group is not None:
            self.add(task, group)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """A task has ended, in whatever way."""
        self._remove(task)


class TaskGroup:
    """The tasks of one life: the one that runs the agent's function, and all below it."""

    def __init__(self, living: LivingTasks) -> None:
        """Start with none."""
        self._living = living
        self._first: trio.lowlevel.Task | None = None
        self.count = 0
        """How many are alive."""
        self.changed: trio.Event | None = None
        """Set when one ends, once `end` waits for that."""

    def begin(self) -> None:
        """The current task is the first one."""
        self._first = trio.lowlevel.current_task()
        self._living.add(self._first, self)

    def holds(self, task: trio.lowlevel.Task) -> bool:
        """Whether a task hangs below the first one.

        `nursery.start` moves a task into its nursery, which may be another agent's or the
        application's. The tasks above it may have ended, but still tell the way.
        """
        each: trio.lowlevel.Task | None = task
        while each is not None and each is not self._first:
            each = each.parent_nursery.parent_task if each.parent_nursery is not None else None
        return each is not None

    async def end(self) -> None:
        """Cancel those that are alive, and wait until the last is gone."""
        with trio.CancelScope(shield=True):
            while self.count:  # one that is being cancelled may start others
                self.changed = trio.Event()
                self._living.cancel(self)
                await self.changed.wait()
