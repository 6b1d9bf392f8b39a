"""The SQLite database of a memory: one connection, one transaction at a time, in a thread."""

import contextlib
import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TypeVar

import msgspec
import trio

from greenroom.fs import sqlite
from greenroom.memory.memory_protocol import MemoryStorageError

T = TypeVar("T")

_APPLICATION = 0x47524D45  # in the file's header: the letters GRME
_VERSION = 1
_PATIENCE = 5.0  # seconds that SQLite waits for another process's write; then it is an error

_BUSY = "another program is writing the file; try again when it is done"
_FULL = "make room on the disk"
_DAMAGED = "restore it from a backup, or salvage it with the command: sqlite3 {} .recover"
_HINTS = {
    sqlite3.SQLITE_BUSY: _BUSY,
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: _DAMAGED,
}

WORD_INDEX = (
    "CREATE VIRTUAL TABLE word_index USING fts5(words, content='', detail=column, tokenize='ascii')"
)

# `word_index` finds the entries of a word and stores no text; `counts` has the number of entries of
# each word, so that the rarest words can be looked up first. Bad rows are moved to `damaged`. The
# key of `vectors` is an index apart from its rows: a look for missing vectors does not read them.
_TABLES = """
CREATE TABLE entries (
    key INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    about TEXT NOT NULL,
    words TEXT NOT NULL,
    created INTEGER NOT NULL,
    checksum BLOB NOT NULL,
    used INTEGER NOT NULL
);
CREATE INDEX entries_by_use ON entries (used, key);
CREATE INDEX entries_by_age ON entries (created);
CREATE TABLE vectors (
    key INTEGER NOT NULL,
    name TEXT NOT NULL,
    vector BLOB NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (key, name)
);
CREATE TABLE totals (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO totals VALUES ('entries', 0), ('bytes', 0), ('words', 0);
CREATE TABLE damaged (number INTEGER PRIMARY KEY, id, text, about, found INTEGER NOT NULL);
CREATE TABLE counts (word TEXT PRIMARY KEY, entries INTEGER NOT NULL) WITHOUT ROWID;
"""


FITS = "fits(CAST(about AS BLOB), ?)"
WORDS = "ifnull(CAST(words AS TEXT), '')"
"""SQL that reads a column without failing on damage; the checksum finds that later."""


class Totals(msgspec.Struct, frozen=True):
    """How much the database holds."""

    entries: int
    bytes: int
    words: int


class MemoryDatabase:
    """Opens the database on first use, and closes it when it is garbage-collected.

    Each write is one transaction, durable when it returns; other processes may use the same file.
    """

    def __init__(
        self, path: str, functions: dict[str, Callable[[bytes | None, str], bool]]
    ) -> None:
        """Set the file, or ":memory:", and the functions for SQL; nothing is opened yet."""
        self.path = path if path == ":memory:" else os.path.abspath(path)
        self._functions = functions
        # A limiter belongs to one run of trio, and this object need not.
        self._limiter = trio.lowlevel.RunVar[trio.CapacityLimiter]("memory database")
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file_identity: tuple[int, int] | None = None
        self._finalizer: weakref.finalize[[], MemoryDatabase] | None = None
        if self.path != ":memory:":
            sqlite.close_at_forks(self)

    async def run(
        self, work: Callable[[sqlite3.Connection], T], *, writes: bool = False, erases: bool = False
    ) -> T:
        """Do blocking work in one transaction, in a thread, to its end even if it is cancelled.

        With `erases`, removed data is gone from the log too, unless another process is reading.

        Raises:
            MemoryStorageError: SQLite or the disk refused; nothing was written.
        """
        do = partial(self._work, work, writes, erases)
        try:
            return await trio.to_thread.run_sync(do, limiter=self._get_limiter())
        except (sqlite3.Error, UnicodeError) as error:  # as of a message that quotes damage
            hint = _HINTS.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, "").format(self.path)
            raise MemoryStorageError(f"{self.path}: {error}", hint=hint) from error
        except OSError as error:
            place = error.filename or self.path
            raise MemoryStorageError(f"{place}: {error.strerror or error}") from error

    def _get_limiter(self) -> trio.CapacityLimiter:
        try:
            return self._limiter.get()
        except LookupError:
            limiter = trio.CapacityLimiter(1)  # there is one connection
            self._limiter.set(limiter)
            return limiter

    def _work(self, work: Callable[[sqlite3.Connection], T], writes: bool, erases: bool) -> T:
        with self._lock:
            connection = self._get_connection()
            with sqlite.transaction(connection, "BEGIN IMMEDIATE" if writes or erases else "BEGIN"):
                done = work(connection)
            if erases:
                with contextlib.suppress(sqlite3.Error):  # it is done; a later one empties the log
                    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            return done

    @contextlib.contextmanager
    def hold_closed(self) -> Iterator[None]:
        """Close the connection, and open none inside of the block."""
        with self._lock:
            if self._finalizer is not None:
                self._connection = None
                with contextlib.suppress(sqlite3.Error):  # it failed to clean up; nothing is lost
                    self._finalizer()
            yield

    def _get_connection(self) -> sqlite3.Connection:
        """Return the connection, if its file is still the same."""
        identity = self._identify_file()
        if identity != self._file_identity and self._file_identity is not None:
            raise MemoryStorageError(
                f"{self.path}: the file was moved or removed", hint="put it back, or start again"
            )
        if self._connection is None:
            if self.path != ":memory:" and identity is None:
                self._create()
            self._connection = self._open()
            self._file_identity = self._identify_file()
            self._finalizer = weakref.finalize(self, self._connection.close)
        return self._connection

    def _open(self) -> sqlite3.Connection:
        connection = _connect(self.path)
        try:
            if self.path == ":memory:":
                _make_tables(connection)
            _check_kind(connection, self.path)
            for name, function in self._functions.items():
                connection.create_function(name, 2, function, deterministic=True)
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        """Create the database under another name and link it into place once it is complete."""
        if log := sqlite.find_stray_log(self.path):
            raise MemoryStorageError(
                f"{log} belongs to a memory that is missing",
                hint="put the memory back; or if it is gone for good, remove these two as well",
            )
        sqlite.create_database(self.path, _make_tables, patience=_PATIENCE)

    def _identify_file(self) -> tuple[int, int] | None:
        """Return the identity of the file, if there is one."""
        if self.path == ":memory:":
            return None
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino


def read_keys(connection: sqlite3.Connection, query: str, *values: object) -> list[int]:
    """Return the first column of what a query finds."""
    return [key for (key, *_) in connection.execute(query, values)]


def read_rows(
    connection: sqlite3.Connection, columns: str, keys: Iterable[int]
) -> list[tuple[int, str]]:
    """Return two columns of the entries of these keys; missing ones are left out."""
    numbers = ",".join(map(str, keys))
    query = f"SELECT {columns} FROM entries WHERE key IN ({numbers})"  # noqa: S608
    return connection.execute(query).fetchall()


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite.connect(path, patience=_PATIENCE)
    connection.execute("PRAGMA secure_delete = ON")  # overwrite what is forgotten
    return connection


def _make_tables(connection: sqlite3.Connection) -> None:
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.executescript(_TABLES)
    connection.execute(WORD_INDEX)


def _check_kind(connection: sqlite3.Connection, path: str) -> None:
    if sqlite.read_pragma(connection, "application_id") != _APPLICATION:
        raise MemoryStorageError(
            f"{path} is not a memory database",
            hint="nothing was changed; name another file",
        )
    if sqlite.read_pragma(connection, "user_version") > _VERSION:
        raise MemoryStorageError(
            f"{path} was written by a newer version of Greenroom", hint="upgrade greenroom"
        )
