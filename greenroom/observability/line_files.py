"""Files of lines that a thread writes: bounded, private to their user, and never in the way.

Whoever has a line hands it over on the event loop, which opens no file and waits for nothing. A
thread writes, in order. Where it can't keep up, or the disk is full, lines are dropped and counted,
and the next line that can be written says how many.
"""

import errno
import logging
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

import trio

from greenroom.core import ConfigurationError
from greenroom.core._internal import serde

logger = logging.getLogger("greenroom.observability")

MAX_WAITING = 10_000  # pieces of work that wait for a thread
LINGER = 0.02  # seconds until a thread begins with what has come
MAX_OPEN = 64  # files that are open at once
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class BackgroundWriter:
    """A task that does small pieces of blocking work in a thread, in order, while its block runs.

    It begins 20 ms after the first piece has come. At most 10,000 pieces wait; what comes then is
    dropped, and counted in `dropped`. The end of the block waits until all that waited is done,
    even if it is cancelled. What a piece raises is logged.

    Example:
        >>> async def main():
        ...     async with BackgroundWriter("Example") as writer:
        ...         writer.put(lambda: print("written"))
        >>> trio.run(main)
        written
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._stack: AsyncExitStack | None = None
        self._waiting: list[Callable[[], None]] = []
        self._wake = trio.Event()
        self.dropped = 0

    async def __aenter__(self) -> Self:
        if self._stack is not None:
            raise ConfigurationError(f"{self._name} is open already", hint="make one for each use")
        self._stack = AsyncExitStack()
        nursery = await self._stack.enter_async_context(trio.open_nursery())
        self._limiter = trio.CapacityLimiter(1)
        self._token = trio.lowlevel.current_trio_token()
        nursery.start_soon(self._work)
        self._stack.callback(nursery.cancel_scope.cancel)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stack, self._stack = self._stack, None
        assert stack is not None
        with trio.CancelScope(shield=True):
            await self._flush()
        # Without the block's own error, which leaves as it is and not in a group.
        await stack.__aexit__(None, None, None)

    def put(self, work: Callable[[], None]) -> bool:
        """Hand over a piece of work, from any thread; whether there was room for it.

        Raises:
            ConfigurationError: the block around it does not run.
        """
        if self._stack is None:
            raise ConfigurationError(
                f"{self._name} is not open",
                hint=f"enter it around the runtime: async with {self._name}(…) as sink",
            )
        if len(self._waiting) >= MAX_WAITING:
            self.dropped += 1
            return False
        self._waiting.append(work)
        if trio.lowlevel.in_trio_run():
            self._wake.set()
        else:  # the thread of a tool
            self._token.run_sync_soon(self._wake_up)
        return True

    def _wake_up(self) -> None:
        self._wake.set()

    async def _work(self) -> None:
        while True:
            await self._wake.wait()
            await trio.sleep(LINGER)  # what comes meanwhile is written with it, by one thread
            self._wake = trio.Event()
            with trio.CancelScope(shield=True):
                await self._flush()
            await trio.lowlevel.checkpoint_if_cancelled()

    async def _flush(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            await trio.to_thread.run_sync(self._run, batch, limiter=self._limiter)

    def _run(self, batch: list[Callable[[], None]]) -> None:
        for work in batch:
            try:
                work()
            except Exception:
                logger.exception("%s could not write", self._name)


class LineFile:
    """A file of JSON lines with a bound: a second file keeps what was before the newest half.

    All of it blocks. The folder is made if it is missing, for its user alone (0700, and 0600 for
    the files); a link in place of a file is refused.

    Args:
        path: the file; the older half is beside it, as in `trace.1.jsonl`.
        keep: lines that both hold together, at most.
        max_bytes: bytes, likewise.
    """

    def __init__(self, path: str, keep: int, max_bytes: int) -> None:
        self.path, self.lost = path, 0
        self._keep, self._max_bytes = max(keep // 2, 1), max(max_bytes // 2, 1)
        folder, name = os.path.split(path)
        stem, dot, ending = name.rpartition(".")
        self._older = os.path.join(folder, f"{stem}.1{dot}{ending}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self.path, _FLAGS, 0o600)
        try:
            self._measure()
        except BaseException:
            os.close(self._fd)
            raise

    def _measure(self) -> None:
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", self.path)
        self._bytes, self._lines = status.st_size, 0
        if self._bytes:
            with open(self.path, "rb") as file:
                self._lines = sum(1 for _ in file)
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a process was killed while it wrote
                    self._bytes += os.write(self._fd, b"\n")

    @property
    def is_full(self) -> bool:
        """Whether the next line belongs into a new file."""
        return self._lines >= self._keep or self._bytes >= self._max_bytes

    def rotate(self) -> int:
        """Begin a new file, and return how many lines are gone: those of the older one."""
        gone = 0
        if os.path.exists(self._older):
            with open(self._older, "rb") as file:
                gone = sum(1 for _ in file)
        os.close(self._fd)
        os.replace(self.path, self._older)
        self._open()
        return gone

    def write(self, *lines: object) -> None:
        """Append lines of JSON; on a full disk none of them, and they count as lost."""
        if self.lost:
            lines = ({"type": "lost", "lines": self.lost, "at": time.time_ns()}, *lines)
        data = b"".join(serde.encode(each) + b"\n" for each in lines)
        problem = ""
        try:
            if os.write(self._fd, data) < len(data):
                os.ftruncate(self._fd, self._bytes)
                problem = os.strerror(errno.ENOSPC)
        except OSError as error:
            problem = str(error)
        if problem:
            if not self.lost:
                logger.warning("%s: %s; lines are lost until that is mended", self.path, problem)
            self.lost += len(lines) - (self.lost > 0)
            return
        self.lost = 0
        self._bytes += len(data)
        self._lines += len(lines)

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class OpenFiles:
    """The files that a thread has open, by their paths; those used longest ago are closed first."""

    def __init__(self, keep: int, max_bytes: int) -> None:
        self._bounds = keep, max_bytes
        self._files: OrderedDict[str, LineFile] = OrderedDict()

    def find(self, path: str) -> LineFile:
        """Return the open file at a path, opened if need be.

        Raises:
            OSError: it can't be opened, or is a link.
        """
        file = self._files.get(path)
        if file is None:
            if len(self._files) >= MAX_OPEN:
                self._files.popitem(last=False)[1].close()
            file = self._files[path] = LineFile(path, *self._bounds)
        self._files.move_to_end(path)
        return file

    def close(self) -> None:
        """Close all of them."""
        while self._files:
            self._files.popitem()[1].close()
