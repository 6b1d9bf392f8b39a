"""The living tasks: all that an agent's function has started and that has not ended.

trio's own tree does not tell it. Where code leaves a nursery open, trio closes another one in its
place, or lets go of it together with the task that opened it; its tasks live on, and nobody waits for
them. So tasks are counted as trio starts and ends them.
"""

import trio

from greenroom.runtime.caller import correct_context


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
