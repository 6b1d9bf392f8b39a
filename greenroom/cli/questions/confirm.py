"""A question of which the answer is yes or no, for commands that take something away."""

import os
import sys

import trio

from greenroom.cli.streams.byte_reader import read_some
from greenroom.core import ConfigurationError, visible

_YES = ("y", "yes")


async def confirm(question: str, hint: str = "add --yes") -> bool:
    """Ask the person at the terminal; anything but yes is no, the end of the input too.

    The question goes to standard error, so that standard output holds results only. `hint` says what to do where nobody can be asked.

    Raises:
        ConfigurationError: standard input is no terminal, so there is nobody to ask.
    """
    if not os.isatty(0):
        raise ConfigurationError("nobody can be asked: standard input is no terminal", hint=hint)
    await trio.lowlevel.checkpoint()
    print(f"{visible(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    answer = b""
    while not answer.endswith(b"\n") and (more := await read_some(0)):
        answer += more
    return answer.decode("utf-8", "replace").strip().casefold() in _YES
