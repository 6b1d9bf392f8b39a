"""Effects: what a tool call would do to the world, stated as facts before it runs."""

import posixpath
import re
from itertools import takewhile
from typing import Self, TypeAlias

from greenroom.core.wire import Wire

__all__ = ["Contact", "Effect", "Execute", "Opaque", "ReadPath", "ShellCommand", "WritePath"]

_WILD = re.compile(r"[*?\[{]")


class Execute(Wire, frozen=True, tag="execute"):
    """Runs one program with exactly these words.

    Attributes:
        argv: the program and its words; none of them is read by a shell.
        cwd: the folder that it runs in; relative to the agent's working directory.
        environment: variables that are set for it, beyond those it has anyway: names and values.
    """

    argv: tuple[str, ...]
    cwd: str = ""
    environment: tuple[tuple[str, str], ...] = ()


class ShellCommand(Wire, frozen=True, tag="shell"):
    """Gives this text to a shell; it takes a parser to say what that executes."""

    command: str
    cwd: str = ""


class ReadPath(Wire, frozen=True, tag="read"):
    """Reads this file, or what lies in this folder; relative to the agent's working directory.

    Attributes:
        path: the file or the folder.
        pattern: which files in the folder, as in `**/*.py`; all of them if it is empty.
    """

    path: str
    pattern: str = ""

    @classmethod
    def matching(cls, folder: str, pattern: str) -> Self:
        """State that files in a folder are read whose paths match a pattern.

        Example:
            >>> found = ReadPath.matching("src", "tests/**/*.py")
            >>> found.path, found.pattern
            ('src/tests', '**/*.py')
        """
        names = list(takewhile(lambda name: not _WILD.search(name), pattern.split("/")))
        written = "/".join(names) or ("/" if pattern.startswith("/") else "")
        rest = "/".join(pattern.split("/")[len(names) :])
        if not written:
            return cls(folder, rest)
        return cls(posixpath.join("" if folder == "." else folder, written), rest)


class WritePath(Wire, frozen=True, tag="write"):
    """Creates, changes or removes this file; relative to the agent's working directory."""

    path: str


class Contact(Wire, frozen=True, tag="contact"):
    """Contacts the host of this URL."""

    url: str


class Opaque(Wire, frozen=True, tag="opaque"):
    """Does something that can't be told beforehand; the reason says why."""

    reason: str


Effect: TypeAlias = Execute | ShellCommand | ReadPath | WritePath | Contact | Opaque
"""Any effect."""
