"""The one writer of a session in PostgreSQL.

**A lost connection** leaves it open whether the last statement was, or will yet be, carried out. So
the writer begins a new epoch before anything else: whatever the old connection may still do comes
before that, or is refused. Then it looks whether the history ends with its line, and writes it
again only if it does not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Never, TypeVar

from greenroom.core import SessionNotFoundError, SessionStorageError
from greenroom.session import postgres_tables as tables
from greenroom.session.description import SessionMetadata
from greenroom.session.errors import SessionCorruptError
from greenroom.session.history import (
    Page,
    Position,
    RepairReport,
    read_page,
)
from greenroom.session.holders import begin_epoch, pid_of
from greenroom.session.postgres_presence import Presence
from greenroom.session.postgres_server import Connection, Server, is_lost, transaction
from greenroom.session.row_salvage import salvage_rows
from greenroom.session.store import StoredPage, StoredSession
from greenroom.session.store_errors import fenced_error, unknown_error
from greenroom.session.stored_rows import (
    Row,
    check_size,
    damaged_error,
    repair_hint,
    verify_lines,
)

T = TypeVar("T")


class PostgresWriter:
    """Writes one session during its epoch; made by `PostgresStore.acquire`."""

    is_broken = False
    """Whether nothing more can be written: never, since what is stored can be found out."""

    def __init__(
        self,
        session_id: str,
        server: Server,
        presence: Presence,
        epoch: int,
        held: dict[str, "PostgresWriter"],
        store: object,
    ) -> None:
        """Take over an epoch that has begun; `held` is where the store notes its writers."""
        self._store = store  # which closes its connections once it is collected
        self._session_id = session_id
        self._server = server
        self._presence = presence
        self._held = held
        self._path = f"{server.place}#{session_id}"
        self.epochs = [epoch]
        """The epochs that may be its own: more than one if the last renewal was cut off."""
        self._is_in_doubt = False
        self._described: bytes | None = None  # the description, if it is known

    @property
    def epoch(self) -> int:
        """The number of this right, see `SessionWriter.epoch`; a lost connection raises it."""
        return self.epochs[-1]

    async def read(self, since: Position) -> StoredSession:
        """Read the session, its history from `since` on.

        Raises:
            SessionCorruptError: it is damaged, or what came before `since` is not there.
            SessionNotFoundError: there was a history before `since`, and it is gone.
            SessionFencedError: another writer has the session now, and it is unknown what was
                written last.
            SessionStorageError: the server refused, or was away for too long.
        """

        def read(connection: Connection) -> StoredSession:
            self._renew(connection)
            found = tables.select_session(connection, self._session_id, max(since.lines - 1, 0))
            self._described = found[0] and found[0].metadata
            return stored_session(found, self._session_id, self._path, since)

        return await self._server.run(self._session_id, lambda each: self._watch(each, read))

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        """Add a line to the history, which must end at this place; durable even without `flush`.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: the history ends elsewhere, or the server refused, or was away for
                too long.
        """
        if not line:
            return
        check_size(at.size + len(line), self._session_id, self._path)
        is_sent = False

        def append(connection: Connection) -> None:
            nonlocal is_sent
            was_cut_off, is_sent = is_sent, True
            if was_cut_off and self._holds(connection, line, at):
                return
            if tables.append_line(connection, self._session_id, self.epoch, line, at):
                return
            self._check_epoch(connection)
            text = f"{self._path}: it was changed by another writer"
            raise SessionStorageError(text, session_id=self._session_id)

        await self._write(append)

    def _holds(self, connection: Connection, line: bytes, at: Position) -> bool:
        return tables.holds_line(connection, self._session_id, line, at)

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        """Replace the description, all or nothing; durable when it returns.

        Raises:
            SessionCorruptError: the old description is invalid, or another session's; it was not
                replaced.
            SessionFencedError: another writer has the session now.
            SessionStorageError: the server refused, or was away for too long.
        """

        def describe(connection: Connection) -> None:
            # Only the writer of this epoch changes it, so it may be read first.
            if self._described is None and (
                row := tables.select_description(connection, self._session_id)
            ):
                row.read_metadata(self._path)  # checks that it is ours
                self._described = row.metadata
            data = tables.write_description(
                connection, self._session_id, self.epoch, metadata, self._described or b""
            )
            self._described = data or self._fail(connection)

        await self._write(describe)

    async def set_aside(self, at: Position) -> str:
        """Move everything after this place into the table `torn`; return where it is there.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: the server refused, or was away for too long.
        """
        is_sent = False

        def cut(connection: Connection) -> int:
            nonlocal is_sent
            was_cut_off, is_sent = is_sent, True
            with transaction(connection):
                row = self._lock_row(connection)
                if was_cut_off and row.size == at.size:
                    found = tables.find_cut(connection, self._session_id, at)
                    if found is not None:
                        return found
                return tables.cut_lines(connection, row, at)

        return f"{self._server.place}: number {await self._write(cut)} of the table torn"

    async def set_changed(self, moment: datetime) -> None:
        """Set when the history was changed.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: the server refused, or was away for too long.
        """

        def change(connection: Connection) -> None:
            with transaction(connection):
                row = self._lock_row(connection)
                tables.set_changed(connection, row, int(moment.timestamp()))

        await self._write(change)

    async def delete(self) -> None:
        """Remove the session, and everything of it, in one statement.

        Raises:
            SessionFencedError: another writer has the session now.
            SessionStorageError: the server refused, or was away for too long.
        """
        is_sent = False

        def delete(connection: Connection) -> None:
            nonlocal is_sent
            was_cut_off, is_sent = is_sent, True
            if was_cut_off and tables.find_holder(connection, self._session_id) is None:
                self._is_in_doubt = False
                return
            self._renew(connection)
            if not tables.delete_session_rows(connection, self._session_id, self.epoch):
                self._fail(connection)

        await self._server.run(self._session_id, lambda each: self._watch(each, delete))

    async def salvage(self, relatives: Sequence[SessionMetadata]) -> RepairReport | None:
        """Set everything from the first damaged line on aside, and keep the lines that verify.

        The other sessions of the store help to reconstruct a damaged description. Returns None if
        nothing was damaged.

        Raises:
            SessionNotFoundError: the session is not stored.
            SessionFencedError: another writer has the session now.
            SessionStorageError: the server refused, or was away for too long.
        """
        report: RepairReport | None = None

        def salvage(connection: Connection) -> RepairReport | None:
            nonlocal report
            with transaction(connection):
                row = self._lock_row(connection)
                if row.metadata is None and not row.size:
                    raise unknown_error(self._session_id, self._server.place)
                rows = _PostgresRows(connection, row, self.epoch)
                # Nothing is damaged any more after an attempt whose commit was cut off.
                report = salvage_rows(rows, self._path, relatives) or report
            return report

        self._described = None
        return await self._write(salvage)

    async def release(self) -> None:
        """End the epoch; if the server is away for too long, it ends with the store's presence.

        Raises:
            SessionStorageError: the server refused, or was away for too long.
        """
        if self._held.get(self._session_id) is self:
            del self._held[self._session_id]
        await self._server.run(
            self._session_id,
            lambda each: tables.release_session(each, self._session_id, self.epochs),
        )

    async def _write(self, work: Callable[[Connection], T]) -> T:
        def write(connection: Connection) -> T:
            self._renew(connection)
            return work(connection)

        return await self._server.run(self._session_id, lambda each: self._watch(each, write))

    def _watch(self, connection: Connection, work: Callable[[Connection], T]) -> T:
        """Do the work while the store is present; remember if the outcome is unknown."""
        self._presence.ensure()
        try:
            return work(connection)
        except BaseException as error:
            self._is_in_doubt = self._is_in_doubt or is_lost(error)
            raise

    def _renew(self, connection: Connection) -> None:
        """Begin a new epoch if it is unknown what the last connection has done, or will do."""
        if not self._is_in_doubt:
            return
        known = list(self.epochs)
        epoch = begin_epoch(max(known))
        self.epochs.append(epoch)
        if not tables.renew_epoch(connection, self._session_id, known, epoch):
            del self.epochs[-1]
            self._fail(connection)
        self.epochs = [epoch]
        self._is_in_doubt = False

    def _lock_row(self, connection: Connection) -> Row:
        row = tables.lock_row(connection, self._session_id, self.epoch)
        return row or self._fail(connection)

    def _fail(self, connection: Connection) -> Never:
        self._check_epoch(connection)
        raise SessionStorageError(f"{self._path}: it can't be written", session_id=self._session_id)

    def _check_epoch(self, connection: Connection) -> None:
        """Check that no other writer has the session.

        Raises:
            SessionFencedError: one has it, or had it.
        """
        epoch, name = tables.find_holder(connection, self._session_id) or (0, "")
        if epoch not in self.epochs:
            raise fenced_error(self._session_id, pid_of(name), name)


@dataclass(frozen=True)
class _PostgresRows:
    """The rows of one session, in a transaction of this connection; see `SessionRows`."""

    connection: Connection
    row: Row
    epoch: int

    def read_lines(self) -> bytes:
        """Return all lines."""
        return b"".join(tables.select_session(self.connection, self.row.session_id, 0)[1])

    def cut_lines(self, at: Position) -> str:
        """Set all lines from this place on aside; return where they are."""
        return f"number {tables.cut_lines(self.connection, self.row, at)} of the table torn"

    def add_line(self, line: bytes, at: Position) -> None:
        """Add a line at the end."""
        tables.add_line(self.connection, self.row, line, at)

    def set_changed(self, moment: datetime) -> None:
        """Set when it was changed."""
        tables.set_changed(self.connection, self.row, int(moment.timestamp()))

    def write_description(self, metadata: SessionMetadata) -> None:
        """Replace the description."""
        tables.write_description(self.connection, self.row.session_id, self.epoch, metadata)


def stored_session(
    found: tuple[Row | None, list[bytes]], session_id: str, path: str, since: Position
) -> StoredSession:
    """Decode a session that was read, its history from the place `since` on.

    Raises:
        SessionCorruptError: it is damaged, or what was before `since` is no longer there.
        SessionNotFoundError: the history was removed since then.
    """
    row = found[0] or Row(session_id, 0, None, 0, 0)
    if since.lines and not row.size:  # a new writer makes a new row
        raise SessionNotFoundError(f"{path} was removed", session_id=session_id)
    history = verify_lines(found[1], row, path, since)
    return StoredSession(row.read_metadata(path), history, path)


def read_last_page(connection: Connection, session_id: str, limit: int, path: str) -> StoredPage:
    """Read the last messages of a session, without reading the lines before them.

    Raises:
        SessionCorruptError: it is damaged there.
        psycopg.Error: the server refused.
    """
    with transaction(connection, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"):
        row = tables.select_description(connection, session_id)
        if row is None:
            return StoredPage(None, Page())
        try:
            lines = tables.select_lines_backwards(connection, row.key)
            page = read_page(lines, row.size, limit, session_id=session_id, path=path)
            if page.repair and page.repair.line <= tables.select_last_number(connection, row.key):
                raise damaged_error(path, session_id, page.repair.line)
        except SessionCorruptError as error:
            error.hint = repair_hint(path)  # the original hint is about files
            raise
    return StoredPage(row.read_metadata(path), page)
