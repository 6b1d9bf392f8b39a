"""The tasks of agents: whose task runs, in which event loop, and which of them are alive.

Theory of operation
===================

A task belongs to the agent in whose task tree it runs, and the tree is trio's own: from the task up
through the nurseries to one that `owned_by` has marked. A context variable would not do. A task
that an agent starts in a nursery of the application's inherits the agent's variables, and is not
part of it.

There is one place where the tree does not tell: what the thread of a plain tool passes to
`trio.from_thread` runs in a system task, below no agent. There, and only there, the context
variable counts. So that it is right there, each new task is given the owner in whose tree it
begins.

trio's tree does not tell which tasks are alive either. Where code enters a nursery and never leaves
it, trio closes another one in its place, or drops it together with the task that opened it; its
tasks live on, and nothing waits for them. So `LivingTasks` counts tasks as trio starts and ends
them, and the end of a life waits for the last one of its `TaskGroup`.

Nothing here knows what an owner is.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import trio

from greenroom.core import EventLoopError

_of_context: ContextVar[object | None] = ContextVar("greenroom_actor", default=None)
_of_task: dict[trio.lowlevel.Task, object] = {}
"""The owners of this process, by the task that their task trees hang from."""


@contextmanager
def owned_by(owner: object) -> Iterator[None]:
    """Make the current task, and all that it starts, the owner's."""
    task = trio.lowlevel.current_task()
    _of_task[task] = owner
    _of_context.set(owner)
    try:
        yield
    finally:
        del _of_task[task]


def owner_of(task: trio.lowlevel.Task) -> object | None:
    """Return the owner in whose task tree a task runs, or None outside of any."""
    owner, is_system = _climb(task)
    return task.context.get(_of_context) if is_system else owner


def current_owner() -> object | None:
    """Return the owner in whose task tree the caller runs, or None outside of any.

    In a thread, outside of any event loop, it is the owner whose thread that is.
    """
    if not trio.lowlevel.in_trio_task():
        return _of_context.get()
    owner, is_system = _climb(trio.lowlevel.current_task())
    # Not the task's context: `from_thread.run_sync` runs in the thread's, but in a task of trio's.
    return _of_context.get() if is_system else owner


def entered_from_thread() -> bool:
    """Whether the caller runs in a system task of trio's, as what a thread calls back to does."""
    return trio.lowlevel.in_trio_task() and _climb(trio.lowlevel.current_task())[1]


def runs_below(task: trio.lowlevel.Task, top: trio.lowlevel.Task, depth: int) -> bool:
    """Whether a task is `top`, or runs below a nursery that `top` opened when it had `depth` open."""
    each = task
    while each is not top:
        nursery = each.parent_nursery
        if nursery is None:
            return False
        each = nursery.parent_task
        if each is top:
            return nursery in each.child_nurseries[depth:]
    return True


def _climb(task: trio.lowlevel.Task) -> tuple[object | None, bool]:
    """Return the owner that is found up the tree, and whether the way ends in trio's own nurseries."""
    each = task
    while (owner := _of_task.get(each)) is None:
        nursery = each.parent_nursery
        if nursery is None:
            return None, False
        root = nursery.parent_task
        if root.parent_nursery is None and nursery not in root.child_nurseries[-1:]:
            return None, True  # a system task; the innermost nursery is main's
        each = root
    return owner, False


def _correct_context(task: trio.lowlevel.Task) -> None:
    """Give a new task its own owner, where it has inherited that of the task that started it."""
    inherited = task.context.get(_of_context)
    if inherited is not None and (owner := owner_of(task)) is not inherited:
        task.context.run(_of_context.set, owner)


def require_loop(token: trio.lowlevel.TrioToken | None, what: str) -> None:
    """Raise `EventLoopError` where the caller is in another thread or loop than the token's.

    Called before the first change: waking a task from a foreign thread breaks the event loop.
    """
    try:
        is_ours = trio.lowlevel.current_trio_token() is token
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


# -- which tasks are alive ------------------------------------------------------------------------


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
        _correct_context(task)
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
