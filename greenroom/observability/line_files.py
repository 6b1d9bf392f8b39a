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
import warnings
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import trio

from greenroom.core import ConfigurationError
from greenroom.core._internal import serde

logger = logging.getLogger("greenroom.observability")

MAX_WAITING = 10_000  # pieces of work that wait for a thread
MAX_OPEN = 64  # files that are open at once
MAX_KNOWN = 1_000  # closed files whose ends are known
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class BackgroundWriter:
    """A thread that does small pieces of blocking work, in order, while its block runs.

    At most 10,000 pieces wait; what comes then is dropped, and counted in `dropped`. The end of the
    block waits until all that waited is done, even if it is cancelled. What a piece raises is
    logged, unless it is what the last one that failed has raised. To hand one over wakes no task of
    the event loop.

    Example:
        >>> async def main():
        ...     async with BackgroundWriter("Example") as writer:
        ...         writer.put(lambda: print("written"))
        >>> trio.run(main)
        written
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._done: trio.Event | None = None  # while the block runs
        self._waiting: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.dropped = 0

    async def __aenter__(self) -> Self:
        if self._done is not None:
            raise ConfigurationError(f"{self._name} is open already", hint="make one for each use")
        await trio.lowlevel.checkpoint()
        self._done, token = trio.Event(), trio.lowlevel.current_trio_token()
        ended = partial(token.run_sync_soon, self._done.set)
        # Not `trio.to_thread`: a clock that jumps would wait for it, as for a tool.
        trio.lowlevel.start_thread_soon(self._run, lambda _: ended(), self._name)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        done, self._done = self._done, None
        assert done is not None
        self._waiting.put(None)
        with trio.CancelScope(shield=True):
            await done.wait()

    def put(self, work: Callable[[], None]) -> bool:
        """Hand over a piece of work, from any thread; whether there was room for it.

        Warns:
            RuntimeWarning: the block around it does not run.

        Raises:
            ConfigurationError: likewise.
        """
        if self._done is None:
            error = ConfigurationError(
                f"{self._name} is not open",
                hint=f"enter it around the runtime: async with {self._name}(…) as sink",
            )
            # What an instrument raises only goes to the log, which most programs don't show.
            warnings.warn(f"nothing is written: {error}", RuntimeWarning, stacklevel=2)
            raise error
        if self._waiting.qsize() >= MAX_WAITING:
            self.dropped += 1
            return False
        self._waiting.put(work)
        return True

    def _run(self) -> None:
        said = ""
        while (work := self._waiting.get()) is not None:
            try:
                work()
            except Exception as error:
                what, said = said, repr(error)
                if what != said:  # a folder that can't be written fails for each line
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
        descriptor = os.open(self.path, _FLAGS, 0o600)
        try:
            self._measure(descriptor)
        except BaseException:
            os.close(descriptor)
            raise
        self._fd = descriptor

    def _measure(self, descriptor: int) -> None:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", self.path)
        self._inode, self._bytes, self._lines = status.st_ino, status.st_size, 0
        if self._bytes:
            with open(self.path, "rb") as file:
                self._lines = sum(1 for _ in file)
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":  # a process was killed while it wrote
                    self._bytes += os.write(descriptor, b"\n")

    @property
    def is_full(self) -> bool:
        """Whether the next line belongs into a new file."""
        return self._lines >= self._keep or self._bytes >= self._max_bytes

    def rotate(self) -> int:
        """Begin a new file, and return how many lines are gone: those of the older one.

        Raises:
            OSError: the disk has no room for a file, or the folder can't be written. The line that
                it was for counts as lost, and the next one tries again.
        """
        gone, full = 0, self._fd
        try:
            if os.path.exists(self.path):  # else it was moved, and there was no room for another
                older = self._count_older()
                os.replace(self.path, self._older)
                gone = older
            self._open()
        except OSError:
            self.lost += 1 + gone
            raise
        os.close(full)  # once there is another: a number that is closed may be anybody's
        return gone

    def _count_older(self) -> int:
        if not os.path.exists(self._older):
            return 0
        with open(self._older, "rb") as file:
            return sum(1 for _ in file)

    def write(self, *lines: object) -> bool:
        """Append lines of JSON; on a full disk none of them: they count as lost, it is False."""
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
            return False
        self.lost = 0
        self._bytes += len(data)
        self._lines += len(lines)
        return True

    def reopen(self) -> bool:
        """Open it again after `close`; False if it is not what it was then, and can't be used.

        Raises:
            OSError: it can't be opened, or is a link.
        """
        try:
            descriptor = os.open(self.path, _FLAGS & ~os.O_CREAT)
        except FileNotFoundError:  # removed, maybe with its folder
            return False
        status = os.fstat(descriptor)
        if (status.st_ino, status.st_size) != (self._inode, self._bytes):
            os.close(descriptor)
            return False
        self._fd = descriptor
        return True

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class OpenFiles:
    """The files that a thread has open, by their paths; those used longest ago are closed first.

    A file that was closed and is used again is the same `LineFile`, if nobody else has written to
    it meanwhile: it is not read to count its lines, and what is known of it still holds.

    Args:
        keep: as for `LineFile`.
        max_bytes: as for `LineFile`.
        on_close: gets each file that is closed.
    """

    def __init__(self, keep: int, max_bytes: int, on_close: Callable[[LineFile], object]) -> None:
        self._bounds, self._on_close = (keep, max_bytes), on_close
        self._files: OrderedDict[str, LineFile] = OrderedDict()
        self._closed: OrderedDict[str, LineFile] = OrderedDict()

    def find(self, path: str) -> LineFile:
        """Return the open file at a path, opened if need be.

        Raises:
            OSError: it can't be opened, or is a link.
        """
        file = self._files.get(path)
        if file is None:
            if len(self._files) >= MAX_OPEN:
                self._close_oldest()
            file = self._closed.pop(path, None)
            if file is None or not file.reopen():
                file = LineFile(path, *self._bounds)
            self._files[path] = file
        self._files.move_to_end(path)
        return file

    def _close_oldest(self) -> None:
        path, file = self._files.popitem(last=False)
        file.close()
        self._on_close(file)
        self._closed[path] = file
        if len(self._closed) > MAX_KNOWN:
            self._closed.popitem(last=False)

    def close(self) -> None:
        """Close all of them."""
        while self._files:
            self._close_oldest()
        self._closed.clear()
