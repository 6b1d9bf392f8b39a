"""The tasks of agents: whose task runs, in which event loop, which are alive, and what leaves them.

Theory of operation
===================

A task belongs to the agent in whose task tree it runs. The tree is trio's own: from the task up
through the nurseries to a task that `begin_owning` has marked. A context variable would not do: a
task that an agent starts in a nursery of the application inherits the agent's variables, but is not
part of the agent.

In one place the tree does not help. What the thread of a plain tool passes to `trio.from_thread`
runs in a system task, below no agent. There, and only there, the context variable counts, and each
new task is given the owner in whose tree it begins, to make the variable right.

trio's tree does not tell which tasks are alive either. If code never leaves a nursery that it has
entered, trio closes another one in its place, or drops it together with the task that opened it;
its tasks live on, and nothing waits for them. So `LiveTasks` counts tasks as trio starts and ends
them, and the end of a `Life` waits for the last one of its `TaskGroup`. Most functions never start
a task: the first one that does makes the group, and has the ends of tasks looked at. Nobody waits
for most ends of agents and turns, so a `Flag` that says them makes no event until somebody does.

What leaves a task or a scope may be a group of errors, some of them cancels. One of our typed
errors ends a turn; a cancel and any other error go further. The functions at the end take such
groups apart.
"""

import math
from collections.abc import Callable
from contextvars import ContextVar
from typing import Protocol

import trio

from greenroom.core import AgentCrashError, Error, GreenroomError
from greenroom.core._internal import (
    MAX_ERROR_TEXT,
    EventLoopError,
    clip,
    is_a,
    leaves,
    message_of,
    read_text,
    type_name,
)


class Flag:
    """Says that something has happened, once and for good, as a `trio.Event` does.

    The event is made when a task waits: most ends of agents and turns are waited for by nobody.
    """

    __slots__ = ("_event", "_is_set")

    def __init__(self) -> None:
        """Begin with what has not happened."""
        self._is_set = False
        self._event: trio.Event | None = None

    def is_set(self) -> bool:
        """Whether it has happened."""
        return self._is_set

    def set(self) -> None:
        """Say that it has happened, and wake those who wait."""
        self._is_set = True
        if self._event is not None:
            self._event.set()

    async def wait(self) -> None:
        """Wait until it has happened."""
        if self._is_set:
            await trio.lowlevel.checkpoint()
            return
        if self._event is None:
            self._event = trio.Event()
        await self._event.wait()


class _Kernel(Protocol):
    """What the agents of one runtime share."""

    @property
    def live_tasks(self) -> "LiveTasks":
        """The tasks of those that are alive."""


class Owner(Protocol):
    """An agent, as its tasks know it."""

    @property
    def kernel(self) -> _Kernel:
        """What it shares with the other agents of its runtime."""

    @property
    def main_task(self) -> trio.lowlevel.Task | None:
        """The task that runs its function, below the one that its task tree hangs from."""

    @property
    def life(self) -> "Life":
        """This run of its function."""


_owner_var: ContextVar[Owner | None] = ContextVar("greenroom_actor", default=None)
_owners: dict[trio.lowlevel.Task, Owner] = {}
"""The owners of this process, by the task that their task trees hang from."""


def begin_owning(owner: Owner) -> trio.lowlevel.Task:
    """Make the current task, which is returned, and all that it starts, the owner's."""
    task = trio.lowlevel.current_task()
    _owners[task] = owner
    _owner_var.set(owner)
    return task


def end_owning(task: trio.lowlevel.Task) -> None:
    """Forget the owner of a task that ends."""
    del _owners[task]


def owner_of(task: trio.lowlevel.Task) -> Owner | None:
    """Return the owner in whose task tree a task runs, or None outside of any."""
    owner, is_system = _climb(task)
    return task.context.get(_owner_var) if is_system else owner


def current_owner() -> Owner | None:
    """Return the owner in whose task tree the caller runs, or None outside of any.

    In a thread, outside of any event loop, it is the owner whose thread that is.
    """
    if not trio.lowlevel.in_trio_task():
        return _owner_var.get()
    owner, is_system = _climb(trio.lowlevel.current_task())
    # Not the task's context: `from_thread.run_sync` runs in the thread's, but in a task of trio's.
    return _owner_var.get() if is_system else owner


def entered_from_thread() -> bool:
    """Whether the caller runs in a system task of trio's, as a callback from a thread does."""
    return trio.lowlevel.in_trio_task() and _climb(trio.lowlevel.current_task())[1]


def runs_below(task: trio.lowlevel.Task, top: trio.lowlevel.Task, depth: int) -> bool:
    """Whether a task is `top`, or runs below a nursery of `top` beyond its first `depth`."""
    each = task
    while each is not top:
        nursery = each.parent_nursery
        if nursery is None:
            return False
        each = nursery.parent_task
        if each is top:
            return nursery in each.child_nurseries[depth:]
    return True


def _climb(task: trio.lowlevel.Task) -> tuple[Owner | None, bool]:
    """Return the owner up the tree, and whether the path ends in trio's own nurseries."""
    each = task
    while (owner := _owners.get(each)) is None:
        nursery = each.parent_nursery
        if nursery is None:
            return None, False
        root = nursery.parent_task
        if root.parent_nursery is None and nursery not in root.child_nurseries[-1:]:
            return None, True  # a system task; the innermost nursery is main's
        each = root
    return owner, False


def _correct_context(task: trio.lowlevel.Task) -> None:
    """Give a new task its own owner if it has inherited that of the task that started it."""
    inherited = task.context.get(_owner_var)
    if inherited is not None and (owner := owner_of(task)) is not inherited:
        task.context.run(_owner_var.set, owner)


def require_loop(token: trio.lowlevel.TrioToken | None, what: str) -> None:
    """Raise `EventLoopError` if the caller is in another thread or loop than the token's.

    Called before the first change: waking a task from a foreign thread breaks the event loop.
    """
    try:
        is_ours = trio.lowlevel.current_trio_token() is token
    except RuntimeError:
        is_ours = False
    if not is_ours:
        raise EventLoopError(
            f"{what} was called outside of the runtime's event loop",
            hint="with a RuntimeThread, write await greenroom.run(handle.interrupt), or run_sync in"
            " a plain thread; else trio.from_thread.run(handle.ask, text, trio_token=token), or"
            " from_thread.run_sync for what does not wait; token is what"
            " trio.lowlevel.current_trio_token() returned in the loop",
        )


class Dependent(Protocol):
    """A supervisor or a monitor, which ends with the runtime or the life that it belongs to."""

    def on_host_end(self) -> None:
        """End with the runtime or the life, whose agents have ended."""


class Reach:
    """Ends all that runs of an agent, in whichever scope that is.

    It runs in the scope of a life, and between two lives in that of the wait for the next one.
    """

    __slots__ = ("_deadline", "_scope", "is_cancelled")

    def __init__(self) -> None:
        self._scope: trio.CancelScope | None = None
        self._deadline = math.inf
        self.is_cancelled = False
        """Whether it was told to end at once."""

    def enter(self, scope: trio.CancelScope) -> None:
        """Run in this scope from now on, and in no other one."""
        self._scope = scope
        if self.is_cancelled:
            scope.cancel()
        elif self._deadline < math.inf:
            scope.deadline = self._deadline

    def cancel(self) -> None:
        """End it at once, and for good."""
        self.is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def end_by(self, deadline: float) -> None:
        """End it at this time of trio's clock at the latest."""
        self._deadline = min(self._deadline, deadline)
        if self._scope is not None:
            self._scope.deadline = self._deadline


class Life:
    """What belongs to one run of an agent's function, and is made again for the next one."""

    __slots__ = (
        "_scope",
        "crash",
        "has_returned",
        "is_cancelled",
        "is_reported",
        "monitors",
        "nursery",
        "raised",
        "supervisions",
        "tasks",
        "value",
    )

    def __init__(self) -> None:
        self.is_cancelled = False
        """Whether it is being ended from outside."""
        self._scope: trio.CancelScope | None = None  # of everything in it, once it has begun
        self.nursery: trio.Nursery | None = None
        """Where subagents live; None before the function is called, and after its end."""
        self.tasks: TaskGroup | None = None
        """What the function has started, once it has started a task."""
        self.has_returned = False
        """Whether the function has returned."""
        self.value: object = None
        """What it returned."""
        self.raised: BaseException | None = None
        """What it raised, which is yet to be judged: it may be no more than a cancel."""
        self.crash: BaseException | None = None
        """What crashed it, kept at once: a later cancel must not replace it."""
        self.is_reported = False
        """Whether subscribers have got the `Error` of the crash."""
        self.supervisions: dict[Dependent, None] = {}
        """The supervisors that the function has made, except those below others."""
        self.monitors: dict[Dependent, None] = {}
        """The monitors that this life has made, and whose agents have not ended."""

    def begin(self, scope: trio.CancelScope) -> None:
        """Begin in this scope, which holds everything of this life, and is cancelled at its end."""
        self._scope = scope
        if self.is_cancelled:
            scope.cancel()

    @property
    def is_cut_off(self) -> bool:
        """Whether it is cancelled, alone or with the agent."""
        return self.is_cancelled or (self._scope is not None and self._scope.cancel_called)

    def cancel(self) -> None:
        """End the life, not the agent."""
        self.is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()

    def record_crash(self, crash: BaseException) -> None:
        """Remember what crashed it; the first crash counts."""
        # An exception may be false: one with a length, or with a truth value of its own.
        if self.crash is None:
            self.crash = crash

    def fail(self, error: BaseException) -> None:
        """Crash it from the outside."""
        self.record_crash(error)
        self.cancel()

    def end(self) -> None:
        """End its monitors and supervisors; their agents have ended."""
        if self.supervisions:
            self.end_supervisions()
        for monitor in tuple(self.monitors):
            monitor.on_host_end()

    def end_supervisions(self) -> None:
        """End the supervisors, whose agents have ended."""
        for supervision in tuple(self.supervisions):
            supervision.on_host_end()


class _Ends(trio.abc.Instrument):
    """The instrument that sees which tasks end."""

    def __init__(self, forget: Callable[[trio.lowlevel.Task], None]) -> None:
        self._forget = forget

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """Forget a task that has ended."""
        self._forget(task)


class LiveTasks(trio.abc.Instrument):
    """The instrument by which one runtime knows the tasks of its agents."""

    def __init__(self) -> None:
        self._groups: dict[trio.lowlevel.Task, TaskGroup] = {}
        self._ends: _Ends | None = None  # once a function has started a task

    def start(self) -> None:
        """Begin to look, in the current event loop."""
        trio.lowlevel.add_instrument(self)

    def stop(self) -> None:
        """Look no longer."""
        trio.lowlevel.remove_instrument(self)
        if self._ends is not None:
            trio.lowlevel.remove_instrument(self._ends)

    def remove_first(self, task: trio.lowlevel.Task) -> None:
        """Add no more of what is started below this task: nothing there is alive."""
        self._groups.pop(task, None)

    def cancel(self, group: "TaskGroup") -> None:
        """Cancel the nurseries in which the tasks of a group run."""
        for task, each in tuple(self._groups.items()):
            if each is not group or task is group.first:
                continue
            if task.parent_nursery is None or not group.holds(task):
                self.forget(task)
            else:
                task.parent_nursery.cancel_scope.cancel()

    def forget(self, task: trio.lowlevel.Task) -> None:
        """Count a task no longer, which has ended or moved elsewhere."""
        group = self._groups.get(task)
        if group is None or group.first is task:  # which was never counted
            return
        del self._groups[task]
        group.count -= 1
        if group.changed is not None:
            group.changed.set()

    # Called in the task that starts another. trio goes on without an instrument that raises.
    @trio.lowlevel.enable_ki_protection
    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Give a new task to the agent and the group of the task that opened its nursery."""
        _correct_context(task)
        nursery = task.parent_nursery
        group = self._find_group(nursery.parent_task) if nursery is not None else None
        if group is not None:
            self._groups[task] = group
            group.count += 1

    def _find_group(self, parent: trio.lowlevel.Task) -> "TaskGroup | None":
        """Return the group of what this task starts; the first of a function's makes it."""
        group, nursery = self._groups.get(parent), parent.parent_nursery
        if group is not None or nursery is None:
            return group
        owner = _owners.get(nursery.parent_task)
        if owner is None or owner.main_task is not parent or owner.kernel.live_tasks is not self:
            return None
        if owner.life.tasks is not None:  # the function has returned, and its nursery was lost
            return None
        if self._ends is None:
            self._ends = _Ends(self.forget)
            trio.lowlevel.add_instrument(self._ends)
        owner.life.tasks = self._groups[parent] = TaskGroup(self, parent)
        return owner.life.tasks


class TaskGroup:
    """The tasks of one life: all below that of the agent's function."""

    __slots__ = ("_live_tasks", "changed", "count", "first")

    def __init__(self, live_tasks: LiveTasks, first: trio.lowlevel.Task) -> None:
        self._live_tasks = live_tasks
        self.first = first
        """The function's own."""
        self.count = 0
        """How many are alive."""
        self.changed: trio.Event | None = None
        """Set when one ends, once `end` waits for that."""

    def leave(self) -> None:
        """Leave the function's task, below which nothing is alive.

        It may have ended before: what it has left in a lost nursery can start more there.
        """
        self._live_tasks.remove_first(self.first)

    def holds(self, task: trio.lowlevel.Task) -> bool:
        """Whether a task is below the first one.

        `nursery.start` moves a task into its nursery, which may be another agent's or the
        application's. The tasks above it may have ended, but still lead up the tree.
        """
        each: trio.lowlevel.Task | None = task
        while each is not None and each is not self.first:
            each = each.parent_nursery.parent_task if each.parent_nursery is not None else None
        return each is not None

    async def end(self) -> None:
        """Cancel those that are alive, and wait until the last is gone."""
        with trio.CancelScope(shield=True):
            while self.count:  # one that is being cancelled may start others
                self.changed = trio.Event()
                self._live_tasks.cancel(self)
                await self.changed.wait()
        self.leave()


def is_typed(error: BaseException) -> bool:
    """Whether an error is one of ours that ends a turn only, or a group of nothing else."""
    return all(_ends_turn_only(leaf) for leaf in leaves(error))


def _ends_turn_only(error: BaseException) -> bool:
    return is_a(error, GreenroomError) and not is_a(error, AgentCrashError)


def is_cancelled(error: BaseException | None) -> bool:
    """Whether this is a cancel, or a group of nothing else."""
    return error is not None and all(is_a(leaf, trio.Cancelled) for leaf in leaves(error))


def split_failure(error: BaseException | None) -> tuple[BaseException | None, BaseException | None]:
    """Split what left a turn's body: the typed failure that ends the turn, and what goes further.

    A cancel goes further even where typed errors came with it; together with a bug, all of it does.
    """
    if error is None:
        return None, None
    if is_typed(error):
        return error, None
    found = leaves(error)
    cancelled = [leaf for leaf in found if is_a(leaf, trio.Cancelled)]
    ours = [leaf for leaf in found if is_a(leaf, GreenroomError)]
    typed = [leaf for leaf in ours if _ends_turn_only(leaf)]
    if cancelled and typed and len(cancelled) + len(typed) == len(found):
        return ExceptionGroup("the turn failed", typed), cancelled[0]
    return None, error


def leave_scope(scope: trio.CancelScope, error: BaseException | None) -> BaseException | None:
    """Leave a scope with what has left its block, and return what goes further."""
    try:
        absorbed = scope.__exit__(
            None if error is None else type(error),
            error,
            None if error is None else error.__traceback__,
        )
    except BaseException as rest:  # noqa: BLE001 (handed on by the caller)
        return rest
    return None if absorbed else error


def strip_cancelled(error: BaseException) -> BaseException:
    """Take the cancels out of a group that holds other errors too."""
    others = [leaf for leaf in leaves(error) if not is_a(leaf, trio.Cancelled)]
    if not others or len(others) == len(leaves(error)):
        return error
    return BaseExceptionGroup("errors beside a cancel", others)


def unwrap(error: BaseException) -> BaseException:
    """Take a group that holds one error, beside cancels, for that error."""
    found = leaves(error)
    others = [leaf for leaf in found if not is_a(leaf, trio.Cancelled)]
    if len(others) == 1:
        return others[0]
    return error if others else found[0]


def must_propagate(error: BaseException) -> bool:
    """Whether an error must not be kept as a value: a cancel, or a KeyboardInterrupt in it."""
    return is_cancelled(error) or any(is_a(leaf, KeyboardInterrupt) for leaf in leaves(error))


def messages_of(error: BaseException) -> str:
    """Return the messages of an error's leaves, clipped."""
    parts: list[str] = []
    length = 0
    for leaf in leaves(error):
        parts.append(message_of(leaf))
        length += len(parts[-1])
        if length > MAX_ERROR_TEXT:
            break
    return clip("; ".join(parts), MAX_ERROR_TEXT)


def error_chunk(error: BaseException) -> Error:
    """Tell subscribers of an error: its message, its class, and what to do about it."""
    kind = type_name(error)
    # A subclass may have set these to anything, or not at all.
    if is_a(error, GreenroomError):
        return Error(read_text(lambda: error.message), kind, read_text(lambda: error.hint))
    return Error(messages_of(error) or kind, kind)
