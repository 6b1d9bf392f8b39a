"""Run a coroutine in the caller's task as a task of its own would run: in a context of its own.

A call beside which no other one runs needs no task: a nursery, a task, and two passes of the event
loop take longer than the judgement on it. What a task keeps from the one that starts it is kept
here as well: which context variables are set inside. As in a task, a nursery that is left open is
an error.
"""

from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from types import CoroutineType, FrameType, TracebackType
from typing import cast

import trio


async def run_in_own_context(coroutine: Coroutine[object, object, None]) -> None:
    """Run a coroutine to its end; the caller does not see the context variables that it sets.

    Raises:
        RuntimeError: it has left a nursery open, so that the task can't go on.
    """
    task = trio.lowlevel.current_task()
    depth = len(task.child_nurseries)
    try:
        await _InContext(coroutine, task)
    finally:
        if len(task.child_nurseries) > depth:
            raise RuntimeError("Nursery stack corrupted: a nursery was opened, and never left")


class _InContext(Generator[object, object, None]):
    """Takes the steps of a coroutine in a copy of the context in which it was made."""

    def __init__(
        self, coroutine: Coroutine[object, object, None], task: trio.lowlevel.Task
    ) -> None:
        self._coroutine = cast("CoroutineType[object, object, None]", coroutine)
        self._task, self._outer = task, task.context
        self._context = copy_context()

    def __await__(self) -> Generator[object, object, None]:
        return self

    def send(self, value: object) -> object:
        """Take the next step."""
        return self._run(partial(self._coroutine.send, value))

    def throw(
        self,
        kind: type[BaseException] | BaseException,
        value: BaseException | object = None,
        _trace: TracebackType | None = None,
    ) -> object:
        """Take the next step, with an exception."""
        error = value if isinstance(value, BaseException) else kind
        return self._run(lambda: self._coroutine.throw(error))

    def _run(self, step: Callable[[], object]) -> object:
        # trio lets a thread that calls back use the task that waits for it, in the thread's context
        is_ours = self._task.context is self._outer
        return self._context.run(step) if is_ours else step()

    # By these, `Task.iter_await_frames` goes on into the coroutine.

    @property
    def cr_frame(self) -> FrameType | None:
        return self._coroutine.cr_frame

    @property
    def cr_await(self) -> object:
        return self._coroutine.cr_await
