"""The store in memory, the simplest one: for tests, and for agents that need not outlive them."""

import os
from datetime import UTC, datetime
from io import BytesIO

import msgspec
import trio

from greenroom.core import SessionNotFoundError, SessionStorageError, utc_now
from greenroom.core._internal import check_session_id
from greenroom.session.description import SessionMetadata
from greenroom.session.files import SessionFile, no_file_error
from greenroom.session.history import Position, read_backwards
from greenroom.session.holders import begin_epoch, name_holder, new_store_id
from greenroom.session.listing import SessionPage, newest_first
from greenroom.session.store import StoredPage, StoredSession
from greenroom.session.store_errors import fenced_error, locked_error


class InMemoryStoreStatistics(msgspec.Struct, frozen=True):
    """Figures about a store in memory.

    Attributes:
        sessions: sessions that are stored.
        locked: sessions that are being written.
        bytes: the size of all histories.
    """

    sessions: int
    locked: int
    bytes: int


class _MemorySession(msgspec.Struct):
    metadata: SessionMetadata | None = None
    history: bytearray = msgspec.field(default_factory=bytearray)
    aside: list[bytes] = []
    changed: datetime = datetime.min.replace(tzinfo=UTC)
    is_locked: bool = False
    epoch: int = 0

    @property
    def description(self) -> SessionMetadata | None:
        return self.metadata and self.metadata.with_updated_at(self.changed)


class InMemoryStore:
    """Keeps sessions in memory, for tests and for agents that need not outlive the process.

    It uses no threads or files, so it works with a mock clock. It keeps the very bytes that a file
    would hold, so both stores behave alike.

    Example:
        >>> from greenroom.core import Message
        >>> from greenroom.session.agent_session import AgentSession
        >>> async def main() -> str:
        ...     store = InMemoryStore()
        ...     session = AgentSession.new("coder", session_id="mine", store=store)
        ...     session.add_message(Message.user("hello"))
        ...     await session.save()
        ...     return (await AgentSession.load("mine", store=store)).history[0].text
        >>> trio.run(main)
        'hello'
    """

    def __init__(self) -> None:
        self._sessions: dict[str, _MemorySession] = {}
        self._files: dict[str, dict[str, tuple[bytes, datetime]]] = {}
        self._id = new_store_id()
        self._last_epoch = 0

    @property
    def holder(self) -> str:
        """The name under which it holds sessions: HOST/PID/STORE."""
        return name_holder(self._id)

    def __repr__(self) -> str:
        return "InMemoryStore()"

    def statistics(self) -> InMemoryStoreStatistics:
        """Return figures about the stored sessions."""
        sessions = tuple(self._sessions.values())  # another thread may add one meanwhile
        return InMemoryStoreStatistics(
            sessions=sum(each.metadata is not None for each in sessions),
            locked=sum(each.is_locked for each in sessions),
            bytes=sum(len(each.history) for each in sessions),
        )

    async def exists(self, session_id: str) -> bool:
        """Whether a session with this id is stored."""
        await trio.lowlevel.checkpoint()
        return self._find(session_id).metadata is not None

    async def read(self, session_id: str) -> StoredSession:
        """Read a session."""
        await trio.lowlevel.checkpoint()
        return _read(session_id, self._find(session_id), Position())

    async def read_last(self, session_id: str, limit: int) -> StoredPage:
        """Read the last messages of a session, without reading what precedes them."""
        await trio.lowlevel.checkpoint()
        session = self._find(session_id)
        history = session.history
        return StoredPage.read(
            read_backwards(lambda start, stop: bytes(history[start:stop]), len(history)),
            len(history),
            limit,
            session.description,
            session_id=session_id,
            path=_path(session_id),
        )

    async def list_all(self) -> list[SessionMetadata]:
        """Describe every stored session, the last changed first."""
        await trio.lowlevel.checkpoint()
        sessions = tuple(self._sessions.values())  # as above
        found = [each for session in sessions if (each := session.description)]
        return list(newest_first(found))

    async def list_page(
        self,
        after: str | None = None,
        limit: int = 100,
        *,
        agent_type: str | None = None,
        archived: bool | None = None,
    ) -> SessionPage:
        """Describe some of the sessions, the last changed first.

        Each page looks at all sessions, which takes 20 ms for 10,000.

        Raises:
            ValueError: the limit is not from 1 to 1,000, or `after` is not of an earlier page.
        """
        found = await self.list_all()
        return SessionPage.of(found, after, limit, agent_type=agent_type, archived=archived)

    async def acquire(self, session_id: str) -> "_MemoryWriter":
        """Become the only writer of this session.

        Raises:
            SessionLockedError: there is another writer.
        """
        await trio.lowlevel.checkpoint()
        session = self._find(session_id)
        if session.is_locked:
            raise locked_error(session_id, os.getpid(), self.holder)
        return self._lock(session_id, session)

    def begin(self, session_id: str) -> "_MemoryWriter | None":
        """Lock a session of which nothing is stored, in one step.

        Returns:
            None where there is something to wait for or to read, and where `acquire` is another's:
            a subclass, or a test, that has its own is asked.
        """
        if session_id in self._sessions or getattr(self.acquire, "__func__", None) is not _ACQUIRE:
            return None
        return self._lock(session_id, self._find(session_id))

    def _lock(self, session_id: str, session: _MemorySession) -> "_MemoryWriter":
        session.is_locked = True
        session.epoch = self._last_epoch = begin_epoch(self._last_epoch)
        self._sessions[session_id] = session
        return _MemoryWriter(session_id, session, self._sessions, self._files)

    async def put_file(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file of a session, whole or not at all; see `KeepsFiles`.

        Raises:
            ValueError: the name leads elsewhere.
            SessionError: the file is longer than 16 MB.
        """
        await trio.lowlevel.checkpoint()
        SessionFile.check(session_id, name, data)
        files = self._files.setdefault(check_session_id(session_id), {})
        files[name] = (bytes(data), utc_now())

    async def open_file(self, session_id: str, name: str) -> BytesIO:
        """Return the content of a session's file.

        Raises:
            ValueError: the name is not allowed.
            SessionNotFoundError: the session does not have this file.
        """
        await trio.lowlevel.checkpoint()
        SessionFile.check_name(name)
        found = self._files.get(check_session_id(session_id), {}).get(name)
        if found is None:
            raise no_file_error(session_id, name)
        return BytesIO(found[0])

    async def list_files(self, session_id: str) -> tuple[SessionFile, ...]:
        """Describe a session's files, by their names."""
        await trio.lowlevel.checkpoint()
        files = self._files.get(check_session_id(session_id), {})
        return tuple(
            SessionFile(name, len(data), changed) for name, (data, changed) in sorted(files.items())
        )

    async def remove_file(self, session_id: str, name: str) -> None:
        """Remove a file of a session, if there is one of this name.

        Raises:
            ValueError: the name is not allowed.
        """
        await trio.lowlevel.checkpoint()
        self._files.get(check_session_id(session_id), {}).pop(SessionFile.check_name(name), None)

    def folder(self, session_id: str) -> str:
        """Return "": there is no folder."""
        check_session_id(session_id)
        return ""

    def _find(self, session_id: str) -> _MemorySession:
        return self._sessions.get(check_session_id(session_id)) or _MemorySession()


_ACQUIRE = InMemoryStore.acquire


class _MemoryWriter:
    is_broken = False

    def __init__(
        self,
        session_id: str,
        session: _MemorySession,
        sessions: dict[str, _MemorySession],
        files: dict[str, dict[str, tuple[bytes, datetime]]],
    ) -> None:
        self._files = files
        self._session_id = session_id
        self._session = session
        self._sessions = sessions
        self.epoch = session.epoch

    async def read(self, since: Position) -> StoredSession:
        await trio.lowlevel.checkpoint()
        return _read(self._session_id, self._session, since)

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()  # it has nothing to wait for
        self._refuse_old_epoch()
        if len(self._session.history) != at.size:
            raise SessionStorageError(
                f"the history of {self._session_id!r} was changed by another writer",
                session_id=self._session_id,
                nothing_written=True,
            )
        self._session.history += line
        self._session.changed = utc_now()

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        await self._check_epoch()
        known = self._session.metadata
        if known is not None and known.unknown:
            unknown = {**known.unknown, **(metadata.unknown or {})}
            metadata = msgspec.structs.replace(metadata, unknown=unknown)
        self._session.metadata = metadata

    async def set_aside(self, at: Position) -> str:
        await self._check_epoch()
        session = self._session
        session.aside.append(bytes(session.history[at.size :]))
        del session.history[at.size :]
        return f"memory:{self._session_id}.torn.{len(session.aside)}"

    async def set_changed(self, moment: datetime) -> None:
        await self._check_epoch()
        self._session.changed = moment

    async def delete(self) -> None:
        await self._check_epoch()
        del self._sessions[self._session_id]
        self._files.pop(self._session_id, None)

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        self._unlock()

    def release_now(self) -> bool:
        if getattr(self.release, "__func__", None) is not _RELEASE:  # another's, such as a test's
            return False
        self._unlock()
        return True

    def _unlock(self) -> None:
        session = self._session
        if not self._is_current:
            return
        session.is_locked = False
        if session.metadata is None and not session.history:
            del self._sessions[self._session_id]

    @property
    def _is_current(self) -> bool:
        session = self._session
        return session.epoch == self.epoch and self._sessions.get(self._session_id) is session

    async def _check_epoch(self) -> None:
        await trio.lowlevel.checkpoint()
        self._refuse_old_epoch()

    def _refuse_old_epoch(self) -> None:
        if not self._is_current:
            raise fenced_error(self._session_id, os.getpid())


_RELEASE = _MemoryWriter.release


def _read(session_id: str, session: _MemorySession, since: Position) -> StoredSession:
    path = _path(session_id)
    if since.lines and not session.history:
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    data = bytes(session.history[since.size - len(since.last) :])
    described = session.description
    return StoredSession.read(data, described, session_id=session_id, path=path, since=since)


def _path(session_id: str) -> str:
    return f"memory:{session_id}"
