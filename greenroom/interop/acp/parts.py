"""What the program gives to a session of an editor."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from greenroom.core import ContentBlock
from greenroom.interop.mcp.server import MCPServer
from greenroom.runtime import AgentHandle
from greenroom.session import AgentSession, SessionPage
from greenroom.tools import FileSystem, ToolRegistry


@dataclass(frozen=True)
class EditorOption:
    """Something about a session that a person can choose in the editor.

    Attributes:
        id: its name for programs: "mode" is the permission mode.
        name: its name for people.
        category: what kind of option it is for the editor.
        current: the value now.
        values: what it can be: value and description.
    """

    id: str
    name: str
    category: str
    current: str
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class EditorCommand:
    """A command that a person can write as `/NAME WORDS`.

    Attributes:
        name: its name.
        description: what it does.
        hint: what follows it, or empty.
    """

    name: str
    description: str
    hint: str = ""


@dataclass(frozen=True)
class SessionRequest:
    """A session that an editor wants.

    Attributes:
        session: the session, new or loaded.
        folder: the folder to work in.
        servers: servers of tools that the editor wants it to have.
        files: reads and writes files through the editor.
    """

    session: AgentSession
    folder: Path
    servers: tuple[MCPServer, ...]
    files: FileSystem


@dataclass(frozen=True)
class SessionParts:
    """An open session.

    Attributes:
        handle: its agent; it asks, and waits, although no reader can answer yet.
        session: the conversation.
        tools: its tools.
        folder: the folder that it works in.
        currency: of what its model costs, as ISO 4217 has it; empty where that is not known.
        window: the tokens that its model takes, or None.
        commands: the commands of the moment.
        options: what a person can choose, as it is at the moment.
        choose: chooses a value of an option; a ConfigurationError says why that can't be.
        warnings: what the person must know before the first turn, a line each.
        waiting: what to tell the person of servers that need an agreement first, a line each.
        admit: connects them, for this time or for good.
        begin: called at the begin of each turn.
        complete: returns what else an input sends that begins with this text, and its metadata.
    """

    handle: AgentHandle
    session: AgentSession
    tools: ToolRegistry
    folder: Path
    currency: str
    window: Callable[[], int | None]
    commands: Callable[[], Sequence[EditorCommand]]
    options: Callable[[], Sequence[EditorOption]]
    choose: Callable[[str, str], Awaitable[None]]
    warnings: tuple[str, ...]
    waiting: tuple[str, ...]
    admit: Callable[[bool], Awaitable[None]]
    begin: Callable[[], None]
    complete: Callable[[str], Awaitable[tuple[Sequence[ContentBlock], dict[str, object]]]]


class SessionOpener(Protocol):
    """Opens sessions for editors."""

    def new(self) -> AgentSession:
        """Make a session, which nothing has stored yet."""

    async def load(self, session_id: str) -> AgentSession:
        """Load a session.

        Raises:
            SessionError: it is unknown or can't be read.
        """

    def open(self, request: SessionRequest) -> AbstractAsyncContextManager[SessionParts]:
        """Open what a session needs, and start its agent.

        Raises:
            GreenroomError: it can't be opened.
        """

    async def list_page(self, after: str | None) -> SessionPage:
        """Describe some of the sessions, the last changed first."""

    async def delete(self, session_id: str) -> None:
        """Remove a session for good; one that does not exist is not an error."""
