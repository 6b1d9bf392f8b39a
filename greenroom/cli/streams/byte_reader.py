"""Reading a file descriptor without standing in the way of a cancel."""

import array
import fcntl
import os
import stat
import termios

import trio

_MOST = 65_536


def is_stream(descriptor: int) -> bool:
    """Whether one can wait until it has something to read: a pipe, a socket, a terminal."""
    mode = os.fstat(descriptor).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(descriptor)


async def read_some(descriptor: int) -> bytes:
    """Read what is there, waiting for the first byte; empty at the end.

    Raises:
        OSError: it can't be read.
    """
    if is_stream(descriptor):
        await trio.lowlevel.wait_readable(descriptor)
        return os.read(descriptor, _MOST)
    return await trio.to_thread.run_sync(os.read, descriptor, _MOST)


def unread(descriptor: int) -> int:
    """Return how many bytes are there to be read; of a terminal, those of whole lines. 0 for a file."""
    if not is_stream(descriptor):
        return 0
    count = array.array("i", [0])
    try:
        fcntl.ioctl(descriptor, termios.FIONREAD, count)
    except OSError:
        return 0
    return count[0]
