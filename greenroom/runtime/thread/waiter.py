"""Waiting for trio's thread: in an asyncio event loop, or in a plain thread."""

import threading
from collections.abc import Callable

import trio

from greenroom.core import EventLoopError


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
        """Wait until it is over. A cancel calls `give_up`, and is raised when it is over all the same."""
        cancelled: BaseException | None = None
        while not is_over():
            try:
                await self.next()
            except self._cancelled as error:
                cancelled = error
                give_up()
        if cancelled is not None:
            raise cancelled


class ThreadWaiter:
    """Waits in a plain thread."""

    def __init__(self) -> None:
        """Belong to this thread.

        Raises:
            EventLoopError: an event loop runs in this thread, and would be held up.
        """
        if trio.lowlevel.in_trio_run():
            raise EventLoopError(
                "waiting here would hold up trio's event loop",
                hint="await what you want to run; or call this in a thread: trio.to_thread.run_sync",
            )
        if _asyncio_runs():
            raise EventLoopError(
                "waiting here would hold up asyncio's event loop",
                hint="write `async with RuntimeThread()` and `await greenroom.run(…)`",
            )
        self._event = threading.Event()

    def wake(self) -> None:
        """Let `wait` return."""
        self._event.set()

    def wait(self, is_over: Callable[[], bool], give_up: Callable[[], None]) -> None:
        """Wait until it is over; Ctrl-C calls `give_up`, and is raised when it is over all the same."""
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


def _asyncio_runs() -> bool:
    import asyncio  # noqa: TID251 (as above)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
