"""Effects: what a tool call would do to the world, stated as facts before it runs."""

import posixpath
import re
from collections.abc import Mapping
from itertools import takewhile
from typing import TYPE_CHECKING, Self, TypeAlias

from greenroom.core.wire import Wire

if TYPE_CHECKING:
    from greenroom.core.context import AgentContext

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


def usual_effects(
    tool: str, arguments: Mapping[str, object], context: "AgentContext"
) -> tuple[Effect, ...]:
    """State what a call of a built-in tool would do; nothing for other names.

    The tools state it, and so do permission rules where they are given only a tool's name. An input
    that the tool would not take is `Opaque`; it is never an error.

    Example:
        >>> from greenroom.core import AgentContext
        >>> context = AgentContext(session_id="s-1", agent_type="coder")
        >>> usual_effects("Write", {"file_path": "a.py"}, context)
        (WritePath(path='a.py'),)
    """

    def text(key: str, default: str | None = None) -> str:
        value = arguments.get(key)
        value = default if value is None else value
        if not isinstance(value, str) or (not value and value != default):
            raise ValueError(f"the input has no text under {key!r}")
        return value

    def path(key: str, default: str | None = None) -> str:
        value = text(key, default)
        if value.startswith("~"):
            context.workspace.absolute(value)  # which may be a home that can't be found
        return value

    try:
        match tool:
            case "Read":
                return (ReadPath(path("file_path")),)
            case "Write" | "Edit":
                return (WritePath(path("file_path")),)
            case "Glob" | "Grep":
                pattern = text("pattern" if tool == "Glob" else "glob", "")
                return (ReadPath.matching(path("path", "."), pattern),)
            case "Bash":
                return (ShellCommand(text("command")),)
            case "WebFetch":
                return (Contact(text("url")),)
            case _:
                return ()
    except (ValueError, RuntimeError) as error:
        return (Opaque(str(error)),)
