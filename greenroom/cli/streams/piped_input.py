"""Text that is piped into a headless run."""

import os

import trio

from greenroom.cli.streams.byte_reader import is_stream, read_some

MAX_PIPED = 1_000_000
"""Bytes that are read at the most; what follows is left out, and the prompt says so."""

# Who starts a program without thinking of its standard input may leave a pipe open for ever.
_FIRST_BYTE = 3.0


async def read_piped(descriptor: int = 0) -> str:
    """Read what is piped in, decoded as UTF-8; empty for a terminal, and where nothing comes.

    A pipe that says nothing for three seconds counts as empty. What is no UTF-8 is replaced.
    """
    try:
        patience = _FIRST_BYTE if is_stream(descriptor) else float("inf")
    except OSError:  # closed
        return ""
    if os.isatty(descriptor):
        return ""
    data = b""
    with trio.move_on_after(patience) as scope:
        while len(data) <= MAX_PIPED and (more := await read_some(descriptor)):
            data += more
            scope.deadline = float("inf")
    text = data[:MAX_PIPED].decode("utf-8", "replace")
    return f"{text}\n[cut after {MAX_PIPED} bytes]" if len(data) > MAX_PIPED else text


def with_context(prompt: str, piped: str) -> str:
    r"""Put what was piped in below the prompt.

    Example:
        >>> with_context("explain", "x = 1")
        'explain\n\n<stdin>\nx = 1\n</stdin>'
    """
    return f"{prompt}\n\n<stdin>\n{piped}\n</stdin>" if piped.strip() else prompt
