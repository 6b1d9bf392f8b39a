"""A PostgreSQL server: its connections, and patience while it is away.

Everything but `Server.run` blocks. `Server.run` does blocking work in a thread on one connection;
where the server can't be reached or cuts the connection off, it does the work again until patience
ends. Whoever passes work that writes must make sure that it may be done again: see
`PostgresWriter`.
"""

import re
import select
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import psycopg
import trio
from psycopg import errors

from greenroom.core import SessionError, SessionStorageError
from greenroom.fs._internal import durable
from greenroom.session.errors import SessionCorruptError
from greenroom.session.postgres_dsn import Address
from greenroom.threads._internal import SharedThreads, ThreadFigures

T = TypeVar("T")

Connection: TypeAlias = "psycopg.Connection[tuple[object, ...]]"
"""One connection, each statement of which is a transaction unless one was begun."""

_OLDEST = 140_000  # of servers: version 14
_LONGEST = 60.0  # seconds of one statement
_SHORTEST_IDLE = 1_000  # milliseconds between two statements of a transaction
_SILENCE = 10  # seconds after which the other end is asked whether it is still there
_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)  # seconds before each further attempt; the last one stays

# What a server says that is away for a while: starting, stopping, full of connections, or gone.
_AWAY = {"57P01", "57P02", "57P03", "57P05", "53300", "25P03", "40P01", "40001"}

# A connection that is refused has no code, only a text; in other languages we are patient in vain.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry|does not exist|"
    r"not permitted to log in|certificate verify failed|does not support SSL|permission denied|"
    r"service file|definition of service",
    re.IGNORECASE,
)

_SET_UP = """SELECT set_config('search_path', %(schema)s, false),
    set_config('statement_timeout', %(longest)s, false),
    set_config('lock_timeout', %(patience)s, false),
    set_config('idle_in_transaction_session_timeout', %(idle)s, false),
    set_config('idle_session_timeout', '0', false),
    set_config('tcp_keepalives_idle', %(silence)s, false),
    set_config('tcp_keepalives_interval', '3', false),
    set_config('tcp_keepalives_count', '3', false),
    set_config('tcp_user_timeout', %(silence)s || '000', false),
    set_config('synchronous_commit', CASE
        WHEN current_setting('synchronous_commit') LIKE 'remote%%' THEN
            current_setting('synchronous_commit')
        ELSE 'on' END, false)"""
_FIND_OUT = """SELECT current_setting('server_version_num')::int, current_setting('fsync'),
    getdatabaseencoding(), pid || ' ' || backend_start
    FROM pg_stat_get_activity(pg_backend_pid())"""

_HINTS: dict[type[psycopg.Error], str] = {
    errors.DiskFull: "make room on the server's disk",
    errors.ReadOnlySqlTransaction: "name the server that takes writes, in the DSN for instance "
    "with target_session_attrs=read-write",
    errors.InsufficientPrivilege: "grant the role what docs/how-to/postgres.md lists",
    errors.UndefinedTable: "its tables were removed while they were in use; restore them",
    errors.QueryCanceled: "the server is too slow, or was told to stop",
    errors.LockNotAvailable: "another transaction holds a row for long, pg_stat_activity shows "
    "which",
}
_HINT = "look at the server and its log"
_NO_ENTRY = re.compile("authentication failed|no password supplied")
_NO_ENTRY_HINT = "put the user's password into ~/.pgpass, whose mode is 0600"
_KEPT = "; what is unsaved is kept in memory"


@contextmanager
def transaction(connection: Connection, begin: str = "BEGIN") -> Iterator[None]:
    """Make the statements of this block one transaction: all or nothing.

    Raises:
        psycopg.Error: the server refused; if it was cut off, it may or may not have committed.
    """
    connection.execute(begin.encode())
    try:
        yield
    except BaseException:
        with suppress(psycopg.Error):  # a lost connection has rolled back already
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def is_lost(error: BaseException) -> bool:
    """Whether a connection was cut, or never made: what was asked last may have been done."""
    if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
        return False
    return error.sqlstate is None or error.sqlstate[:2] == "08" or error.sqlstate in _AWAY


def is_alive(connection: Connection) -> bool:
    """Whether an idle connection is still there: one that has something to say has ended."""
    try:
        descriptor = connection.fileno()
    except psycopg.OperationalError:  # it is closed
        return False
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return not poll.poll(0)


class Server:
    """The connections to one schema of a database, opened when needed and kept for the next use.

    At most so many work at once, in as many threads; event loops in several threads may share it.
    """

    def __init__(self, address: Address, schema: str, connections: int, patience: float) -> None:
        """Set where it is; nothing is opened yet."""
        self.address = address
        self.schema = schema
        self.patience = patience
        self.place = f"{address}/{schema}"
        """Where it is, for people; without any secret."""
        self._threads = SharedThreads("PostgreSQL", connections)
        self._connections = connections
        self._slots = threading.BoundedSemaphore(connections)
        self._idle: list[Connection] = []
        self._far_ends = WeakKeyDictionary[Connection, object]()  # the process that serves each
        self._guard = threading.Lock()
        self._check: Callable[[Connection], None] = _nothing

    def check_with(self, check: Callable[[Connection], None]) -> None:
        """Check each new connection with this before it is used."""
        self._check = check

    def figures(self) -> ThreadFigures:
        """Return how much runs and waits in this run of trio."""
        return self._threads.figures()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Do blocking work that needs no connection in one of the threads, to its end."""
        return await self._threads.run(work)

    async def run(self, session_id: str, work: Callable[[Connection], T]) -> T:
        """Do blocking work on a connection, and again while the server is away.

        A cancel waits for the end of one attempt, not of all.

        Raises:
            SessionCorruptError: the server found damage.
            SessionStorageError: the server refused, or was away for longer than patience lasts.
        """
        lost = _Losses()
        deadline: float | None = None
        pauses = iter(_PAUSES)
        pause = 0.0
        while True:
            try:
                return await self._threads.run(lambda: self._attempt(work, lost))
            except (psycopg.Error, OSError) as error:
                now = trio.current_time()
                deadline = now + self.patience if deadline is None else deadline
                if not _may_pass(error) or now >= deadline:
                    raise self._translate(error, session_id, lost) from self._without_secret(error)
            except SessionStorageError as error:  # ours, before the commit: it was rolled back
                error.nothing_written = not lost.at_work
                raise
            pause = next(pauses, pause)
            await trio.sleep(min(pause, max(deadline - now, 0.0)))

    def _attempt(self, work: Callable[[Connection], T], lost: "_Losses") -> T:
        with self._slots:
            connection = self._take()
            try:
                return work(connection)
            except psycopg.Error as error:
                lost.at_work = lost.at_work or is_lost(error)
                raise
            finally:
                self._give_back(connection)

    def _take(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return self.connect()
            if is_alive(connection):
                return connection
            connection.close()

    def _give_back(self, connection: Connection) -> None:
        status = psycopg.pq.TransactionStatus
        if connection.closed or connection.info.transaction_status != status.IDLE:
            connection.close()
        else:
            self._idle.append(connection)

    def connect(self) -> Connection:
        """Open a connection, which is durable at each commit and bounded in time.

        Raises:
            ConfigurationError: what is sent could be read by others on the way.
            SessionStorageError: the server can't keep sessions.
            psycopg.Error: it can't be reached, or refused.
        """
        seconds = max(2, min(round(self.patience), 10))
        connection = self.address.connect(
            connect_timeout=seconds,
            keepalives_idle=_SILENCE,
            tcp_user_timeout=_SILENCE * 1000,  # for what was sent, which keepalives don't cover
        )
        try:
            milliseconds = max(round(self.patience * 1000), 100)
            limits = {
                "schema": f'"{self.schema}"',
                "longest": str(round(max(_LONGEST, self.patience) * 1000)),
                "patience": str(milliseconds),
                # A client that is stopped in a transaction locks rows that others wait for.
                "idle": str(max(milliseconds, _SHORTEST_IDLE)),
                "silence": str(_SILENCE),
            }
            (version, fsync, encoding, end), *_ = connection.execute(_FIND_OUT).fetchall()
            self._check_server(version, fsync, encoding)
            self._check_pooler(connection, end)
            connection.execute(_SET_UP, limits)
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_server(self, version: object, fsync: object, encoding: object) -> None:
        problem = hint = ""
        if isinstance(version, int) and version < _OLDEST:
            problem, hint = f"is of version {version // 10_000}", "14 is the oldest that will do"
        elif fsync != "on":
            problem = "has fsync=off: a loss of power could take everything"
            hint = "switch fsync on in postgresql.conf"
        elif encoding != "UTF8":
            problem = f"has a database in {encoding}"
            hint = "create one with ENCODING 'UTF8'"
        if problem:
            text = f"{self.place}: the server {problem}"
            raise SessionStorageError(text, nothing_written=True, hint=hint)

    def _check_pooler(self, connection: Connection, end: object) -> None:
        """Check that no other connection has the same process of the server at its end.

        So it is where a pooler gives a process to whoever has the next transaction: our locks and
        settings would be another's.
        """
        with self._guard:
            others = [each for each, known in self._far_ends.items() if known == end]
            self._far_ends[connection] = end
        if any(map(is_alive, others)):
            raise SessionStorageError(
                f"{self.place}: a pooler lends its connections for a transaction each",
                nothing_written=True,
                hint="let it pool by session, or name the server itself",
            )

    def close(self) -> None:
        """Close the connections that are idle; those at work are kept for the next use."""
        while self._idle:
            self._idle.pop().close()

    def leave_to_parent(self) -> None:
        """Begin without a connection in a forked child, and say nothing on those of its parent."""
        for connection in tuple(self._far_ends):
            with suppress(psycopg.Error):  # it is closed
                durable.disconnect(connection.fileno())
                connection.close()
        self._idle, self._far_ends = [], WeakKeyDictionary()
        # Threads that are not in this process may have had these.
        self._guard, self._slots = threading.Lock(), threading.BoundedSemaphore(self._connections)

    def _without_secret(self, error: BaseException) -> BaseException | None:
        """Return an error as a cause, unless it shows the password."""
        return None if self.address.shows_secret(str(error)) else error

    def _translate(self, error: Exception, session_id: str, lost: "_Losses") -> SessionError:
        """Turn an error of PostgreSQL or the system into ours, with the place and a hint."""
        text = self.address.hide_secret(" ".join(str(error).split()))
        text = f"{self.place}: {text or type(error).__name__}"
        if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
            return SessionCorruptError(
                text, session_id=session_id, path=self.place, hint="restore it from a backup"
            )
        hint = next((hint for kind, hint in _HINTS.items() if isinstance(error, kind)), _HINT)
        hint = _NO_ENTRY_HINT if _NO_ENTRY.search(text) else hint
        hint += _KEPT if session_id else ""
        return SessionStorageError(
            text, session_id=session_id, nothing_written=not lost.at_work, hint=hint
        )


class _Losses:
    """Whether a connection was lost while it worked, so that the outcome is unknown."""

    at_work = False


def _nothing(connection: Connection) -> None:
    """Check nothing."""


def _may_pass(error: BaseException) -> bool:
    return is_lost(error) and not _REFUSED.search(str(error))
