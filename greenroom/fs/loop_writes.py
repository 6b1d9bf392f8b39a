"""Small writes without a thread, where a file system takes them into memory at once.

A thread costs two switches and two passes of the event loop; a few bytes that need no sync cost a
copy into the kernel's memory. That holds on a local disk, nearly always: a kernel that throttles
writers until it has written pages out holds up the loop as long. So after a write that took long,
threads do this work for a while.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 16 * 1024
"""The most bytes of a write on the event loop."""

SLOW: Final = 0.020
"""Seconds of a write after which threads take over."""

PAUSE: Final = 60.0
"""Seconds for which they do."""

_LOCAL = frozenset(
    {"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "ramfs", "tmpfs", "xfs", "zfs"}
)
_MOUNTS = Path("/proc/self/mountinfo")


class LoopWrites:
    """Says which writes of a store may be made on the event loop.

    Example:
        >>> writes = LoopWrites()
        >>> writes.allow(100), writes.allow(1_000_000)
        (True, False)
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Allow small writes until one takes long."""
        self._clock = clock
        self._pause_ends = float("-inf")
        self._local: dict[int, bool] = {}

    def is_local(self, device: int) -> bool:
        """Whether a device is a local disk; this blocks, once for each device."""
        if device not in self._local:
            self._local[device] = is_local(device)
        return self._local[device]

    def allow(self, size: int) -> bool:
        """Whether a write of so many bytes to a local disk may be made on the event loop now."""
        return size <= MOST_BYTES and self._clock() >= self._pause_ends

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Make a write in this block; if it takes long, none is allowed for a minute."""
        begun = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            if now - begun > SLOW:
                self._pause_ends = now + PAUSE


def is_local(device: int) -> bool:
    """Whether a device is a disk or memory of this machine, as far as Linux says; this blocks.

    A file system whose files may be elsewhere, and any that is not known, is none.
    """
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:  # another system
        return False
    kinds = (line.partition(" - ")[2].split(" ")[0] for line in mounts if _number(line) == number)
    return next(kinds, "") in _LOCAL


def _number(line: str) -> str:
    fields = line.split(" ", 3)
    return fields[2] if len(fields) > 3 else ""
