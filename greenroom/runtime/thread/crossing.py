"""One piece of work in trio's thread, for which another thread or another event loop waits."""

import inspect
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Generic, TypeVar, cast

import trio

from greenroom.core import RuntimeClosedError
from greenroom.runtime.failure import is_cancelled, strip_cancelled

T = TypeVar("T")


class Crossing(Generic[T]):
    """Runs a function in trio's thread, and keeps what it gives or raises for whoever waits.

    What is begun is always ended, and `wake` called then: by the work itself, by its cancel, or by
    `fail` where the loop that it runs in breaks. `begin` and `cancel` are for trio's thread; all else
    may be called from any thread.
    """

    def __init__(
        self, work: Callable[[], Awaitable[T] | T], context: Context, wake: Callable[[], None]
    ) -> None:
        """Take the work, the context variables of the caller, and what tells the caller of its end."""
        self._work = work
        self._context = context
        self._wake = wake
        self._scope = trio.CancelScope()
        self._value: T | None = None
        self._error: BaseException | None = None
        self.is_over = False

    def begin(self, nursery: trio.Nursery) -> None:
        """Start the work in a nursery."""
        try:
            # Context variables cross as well, such as the span that a trace is in.
            self._context.run(nursery.start_soon, self._run)
        except RuntimeError:
            self.fail(_closed_error())

    def cancel(self) -> None:
        """Cancel the work, also before it begins."""
        self._scope.cancel()

    async def _run(self) -> None:
        error: BaseException | None = None
        try:
            with self._scope:
                await trio.lowlevel.checkpoint_if_cancelled()
                found = self._work()
                self._value = cast("T", await found if inspect.isawaitable(found) else found)
            if self._scope.cancelled_caught:
                error = _closed_error()
        except BaseException as raised:
            # Whoever waits gets what went wrong; a cancel of the thread's own goes on to its end.
            error = _closed_error() if is_cancelled(raised) else strip_cancelled(raised)
            if is_cancelled(raised):
                raise
        finally:
            self.fail(error)

    def fail(self, error: BaseException | None) -> None:
        """End it, with an error or without; only the first end counts."""
        if not self.is_over:
            self._error, self.is_over = error, True
            self._wake()

    def result(self) -> T:
        """Return what the work gave, or raise what it raised.

        Raises:
            RuntimeClosedError: the runtime was closed before the work had ended.
        """
        if self._error is not None:
            raise self._error
        return cast("T", self._value)


def _closed_error() -> RuntimeClosedError:
    return RuntimeClosedError(
        "the runtime was closed before this had ended",
        hint="use it inside of the block of its RuntimeThread",
    )
