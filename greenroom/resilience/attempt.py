"""The attempt that a piece of code is part of, so that a retry inside a retry makes one attempt.

A context variable tells of the attempt, but tasks inherit it that are not part of it: what is started
in a nursery from outside of the attempt, such as a subagent in its parent's, lives on when the attempt
fails, and nobody repeats it. So the variable counts only in the task tree of the attempt, and only as
long as that lasts.
"""

from contextvars import ContextVar
from types import TracebackType

import trio

_current: ContextVar["Attempt | None"] = ContextVar("greenroom_attempt", default=None)


class Attempt:
    """One attempt of a call; it may be left and entered again, as a stream that is read does."""

    def __init__(self) -> None:
        """Begin outside of it."""
        self._task: trio.lowlevel.Task | None = None
        self._depth = 0
        self._outer: Attempt | None = None

    def __enter__(self) -> None:
        """Mark what runs in the block as part of this attempt."""
        self._task = task = trio.lowlevel.current_task()
        self._depth = len(task.child_nurseries)
        self._outer = _current.get()
        _current.set(self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._task = None
        _current.set(self._outer)

    @property
    def holds_caller(self) -> bool:
        """Whether the caller is part of the attempt: its task, or one below a nursery opened in it."""
        if self._task is None:
            return False  # it is over, and a task that outlives it has inherited the variable
        each = trio.lowlevel.current_task()
        while each is not self._task:
            nursery = each.parent_nursery
            if nursery is None:
                return False
            root = nursery.parent_task
            if root is self._task:
                return nursery in root.child_nurseries[self._depth :]
            if root.parent_nursery is None and nursery not in root.child_nurseries[-1:]:
                return True  # a thread of the attempt calls back, in a system task
            each = root
        return True


def is_in_attempt() -> bool:
    """Whether the caller is part of an attempt that a retry around it will make again."""
    attempt = _current.get()
    return attempt is not None and attempt.holds_caller
