"""Reading a file descriptor without standing in the way of a cancel."""

import os
import stat

import trio

__all__ = ["is_stream", "read_some"]

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
