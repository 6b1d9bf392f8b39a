"""Calls into trio's thread from asyncio or a plain thread, and how their callers wait."""

import inspect
import threading
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Generic, TypeVar, cast

import trio

from greenroom.core._internal import EventLoopError
from greenroom.runtime.errors import RuntimeClosedError
from greenroom.runtime.tasks import is_cancelled, strip_cancelled

T = TypeVar("T")


class ThreadCall(Generic[T]):
    """Runs a function in trio's thread, and keeps what it returns or raises for its caller.

    A call that has begun always ends, and then calls `wake`: through the work itself, its cancel,
    or `fail` if the event loop breaks. Call `begin` and `cancel` in trio's thread, and everything
    else in any thread.
    """

    def __init__(
        self, work: Callable[[], Awaitable[T] | T], context: Context, wake: Callable[[], None]
    ) -> None:
        """Take the work, the caller's context variables, and what wakes the caller at the end."""
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
            # The caller gets what went wrong; a cancel of the thread's own goes on to its end.
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


class LoopWaiter:
    """Waits in the asyncio event loop in which it is made; `wake` may be called in any thread."""

    def __init__(self) -> None:
        """Belong to the loop that is running.

        Raises:
            EventLoopError: no asyncio event loop runs in this thread.
        """
        # The one border to asyncio, loaded by those who come from there.
        import asyncio  # noqa: TID251

        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise EventLoopError(
                "no asyncio event loop runs here",
                hint="in a plain thread use `with` and run_sync(); in trio, await the agent itself",
            ) from None
        self._event = asyncio.Event()
        self._cancelled = asyncio.CancelledError

    def wake(self) -> None:
        """Let `wait` return, now or at its next call; nothing happens once the loop is closed."""
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            if not self._loop.is_closed():
                raise

    async def next(self) -> None:
        """Wait until the next wake."""
        await self._event.wait()
        self._event.clear()

    async def wait(self, is_over: Callable[[], bool], give_up: Callable[[], None]) -> None:
        """Wait until it is over. A cancel calls `give_up`, and is raised once it is over.

        If the task is destroyed, as after the end of its loop, nothing can wait for that any more.
        """
        cancelled: BaseException | None = None
        while not is_over():
            try:
                await self.next()
            except self._cancelled as error:
                cancelled = error
                give_up()
            except GeneratorExit:
                give_up()
                raise
        if cancelled is not None:
            raise cancelled


class ThreadWaiter:
    """Waits in a plain thread."""

    def __init__(self) -> None:
        """Belong to this thread.

        Raises:
            EventLoopError: an event loop runs in this thread, and would be blocked.
        """
        if trio.lowlevel.in_trio_run():
            raise EventLoopError(
                "waiting here would hold up trio's event loop",
                hint="await what you want to run, or call this in trio.to_thread.run_sync",
            )
        if _is_asyncio_running():
            raise EventLoopError(
                "waiting here would hold up asyncio's event loop",
                hint="write `async with RuntimeThread()` and `await greenroom.run(…)`",
            )
        self._event = threading.Event()

    def wake(self) -> None:
        """Let `wait` return."""
        self._event.set()

    def wait(self, is_over: Callable[[], bool], give_up: Callable[[], None]) -> None:
        """Wait until it is over. Ctrl-C calls `give_up`, and is raised once it is over."""
        interrupted: KeyboardInterrupt | None = None
        while not is_over():
            try:
                self._event.wait()
                self._event.clear()
            except KeyboardInterrupt as error:
                interrupted = error
                give_up()
        if interrupted is not None:
            raise interrupted


def _is_asyncio_running() -> bool:
    import asyncio  # noqa: TID251 (as above)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
