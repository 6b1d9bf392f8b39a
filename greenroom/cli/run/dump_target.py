"""Where the program writes what its agents are doing when SIGUSR1 asks for it."""

import io
import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom.cli.run.folders import sessions_folder

if TYPE_CHECKING:
    from greenroom.cli.options import Options

logger = logging.getLogger("greenroom.cli")


def dump_target(options: "Options", *, owns_terminal: bool) -> io.TextIOBase | None:
    """Return what takes a dump: the log if there is one, else None for the standard error.

    Where the program owns the screen that the standard error would write to, it is the file
    `dump.txt` beside the user's sessions; each dump replaces the one before it.
    """
    if options.log:
        return _ToLog()
    if owns_terminal and sys.stderr.isatty():
        return _ToFile(sessions_folder().parent / "dump.txt")
    return None


class _ToLog(io.TextIOBase):
    def write(self, text: str, /) -> int:
        logger.info("%s", text)
        return len(text)


class _ToFile(io.TextIOBase):
    def __init__(self, path: Path) -> None:
        self._path = path

    def write(self, text: str, /) -> int:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # Its owner's alone, as the sessions are.
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            return file.write(text)
