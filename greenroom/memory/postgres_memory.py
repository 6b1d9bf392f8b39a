"""`PostgresMemory`: a memory in PostgreSQL, which several machines share."""

import math
import weakref
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec
import trio

from greenroom.core import SessionError, utc_now
from greenroom.core._internal import new_id, serde, valid_unicode
from greenroom.memory import postgres_rows as table, rows
from greenroom.memory.memory_protocol import (
    Entry,
    MemoryStorageError,
    MetadataValue,
    Recalled,
    check_query,
    check_text,
)
from greenroom.session._internal import open_server

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from greenroom.session._internal import Connection

T = TypeVar("T")

_MOST_USED = 1_000  # ids of recalled entries, kept until the next write


class PostgresMemoryStatistics(msgspec.Struct, frozen=True):
    """Figures about a memory in PostgreSQL, in this process.

    Attributes:
        working: reads and writes that run, each in a thread.
        waiting: reads and writes that wait for a thread.
        threads: how many may run at once.
        evicted: entries that this object removed because of the bound.
        expired: entries that this object removed because of their age.
    """

    working: int
    waiting: int
    threads: int
    evicted: int
    expired: int


class PostgresMemory:
    """Keeps texts in a PostgreSQL database and finds them by their words.

    An entry is on the server's disk when `add` returns. Words are those of `SQLiteMemory`, searched
    by PostgreSQL's full-text index; there are no vectors. A question of common words alone looks at
    every entry that has one of them. At the bound, the least recently used entries are removed; it
    may be exceeded by a twentieth. What `forget` and `clear` remove is gone from the tables at
    once, and from the server's files after its next vacuum, but not from backups.

    Server, connection string, schema, TLS and patience are as for
    `greenroom.session.PostgresStore`; both may share a schema.

    Args:
        dsn: a connection string of libpq; by default that of the variable `GREENROOM_DSN`.
        schema: where the tables are: small letters, digits and `_`.
        connections: how many reads and writes run at once.
        patience: seconds to wait for a server that is away, before it is an error.
        max_entries: the most entries.
        max_age: seconds after which an entry is no longer recalled, and soon removed; None for no
            limit.
        half_life: seconds after which an entry has lost a quarter of its score; age takes at most
            half. None to ignore age.

    Raises:
        ConfigurationError: no server is named, the string can't be read, what is sent could be read
            by others on the way, or psycopg is not installed.
        ValueError: a limit is too low, or the schema has another name.

    Example:
        ```python
        async with PostgresMemory("postgresql://db.example.org/agents") as memory:
            await memory.add("The tests need port 5433.", origin="user")
        ```
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = "greenroom",
        connections: int = 4,
        patience: float = 10.0,
        max_entries: int = 100_000,
        max_age: float | None = None,
        half_life: float | None = 30 * 86_400.0,
    ) -> None:
        """Set where the entries are; nothing is opened yet."""
        if max_entries < 1:
            raise ValueError("a memory keeps at least one entry")
        if not all(each is None or each > 0 for each in (max_age, half_life)):
            raise ValueError("max_age and half_life are seconds, more than 0, or None")
        self._server = open_server(
            dsn, schema, connections, patience, about=table.ABOUT, steps=table.STEPS
        )
        self._most = max_entries
        self._max_age = math.inf if max_age is None else max_age
        self._half_life = half_life
        self._used: dict[str, None] = {}
        self._adds = self._evicted = self._expired = 0
        weakref.finalize(self, self._server.close)

    def __repr__(self) -> str:
        return f"PostgresMemory({str(self._server.address)!r}, schema={self._server.schema!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next use opens others."""
        with trio.CancelScope(shield=True):
            await self._server.in_thread(self._server.close)

    def statistics(self) -> PostgresMemoryStatistics:
        """Return figures about the memory in this process and run of trio."""
        return PostgresMemoryStatistics(*self._server.figures(), self._evicted, self._expired)

    async def add(self, text: str, /, **metadata: MetadataValue) -> str:
        """Keep a text; return the id of its entry. It is durable when this returns.

        `origin`, `session_id` and `turn` become fields of the entry, all else its metadata.

        Raises:
            ValueError: the text is blank or longer than 64,000 characters, or the metadata has more
                than 4 KB or a value that is not a text, number, boolean or None.
            MemoryStorageError: the server refused, or was away for too long.
        """
        text = check_text(text)
        about = serde.encode(rows.make_about(metadata))
        entry_id, now, used = new_id("e"), int(utc_now().timestamp()), list(self._used)
        is_due = self._adds % max(1, min(50, self._most // 20)) == 0
        self._adds += 1

        def add(connection: "Connection") -> tuple[int, int]:
            with _transaction(connection):
                table.mark_used(connection, used, now)
                table.add(connection, entry_id, text, about, now)
                oldest = self._oldest()
                expired = table.remove_old(connection, oldest) if oldest else 0
                return table.evict(connection, self._most) if is_due else 0, expired

        evicted, expired = await self._run(add)
        self._evicted += evicted
        self._expired += expired
        for each in used:
            self._used.pop(each, None)
        return entry_id

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        threshold: float = 0.0,
        where: Mapping[str, MetadataValue] | None = None,
    ) -> Sequence[Recalled]:
        """Find the entries that fit a question, the best first.

        The question may be any text, of which the first 8,000 characters count. Of entries with the
        same text and origin it returns one. The score is the share of the question's words that
        the entry has, weighed by rarity, less for age.

        Raises:
            ValueError: the limit is not 1 to 200, or `where` holds what metadata can't.
            MemoryStorageError: the server refused, or was away for too long.
        """
        text = check_query(query, limit)
        wanted = rows.encode_filter(where or {})
        now = int(utc_now().timestamp())
        question = table.ask(text, self._oldest(), now, self._half_life)

        def recall(connection: "Connection") -> list[Recalled]:
            found, seen = list[Recalled](), set[tuple[str, str]]()
            with _transaction(connection):
                for about, entry, score in table.find(connection, question):
                    if len(found) == limit or score < threshold:
                        break
                    is_new = (entry.origin, entry.text) not in seen
                    if is_new and (not wanted or rows.fits(about, wanted)):
                        seen.add((entry.origin, entry.text))
                        found.append(Recalled(entry, score))
            return found

        recalled = await self._run(recall)
        self._used.update(dict.fromkeys(each.entry.id for each in recalled))
        while len(self._used) > _MOST_USED:
            del self._used[next(iter(self._used))]
        return tuple(recalled)

    async def forget(self, id: str, /) -> bool:  # noqa: A002
        """Remove an entry; return whether it existed.

        Raises:
            MemoryStorageError: the server refused, or was away for too long.
        """
        seen = list[bool]()  # before the first attempt, whose outcome may be unknown

        def forget(connection: "Connection") -> bool:
            seen.append(table.exists(connection, id))
            table.remove(connection, [id])
            return seen[0]

        is_possible = "\0" not in id and valid_unicode(id) == id
        return is_possible and await self._run(forget)

    async def clear(self, **where: MetadataValue) -> int:
        """Remove all entries that have these fields and metadata, or all; return how many.

        Raises:
            ValueError: `where` holds what metadata can't.
            MemoryStorageError: the server refused, or was away for too long.
        """
        wanted = rows.encode_filter(where)
        chosen = dict[str, None]()

        def clear(connection: "Connection") -> int:
            with _transaction(connection):
                for entry_id, about in table.find_ids(connection):
                    if not wanted or rows.fits(about, wanted):
                        chosen[entry_id] = None
                table.remove(connection, list(chosen))
            return len(chosen)

        return await self._run(clear)

    async def entries(
        self, *, limit: int = 100, where: Mapping[str, MetadataValue] | None = None
    ) -> Sequence[Entry]:
        """Return the newest entries, the newest first.

        Raises:
            ValueError: the limit is less than 0, or `where` holds what metadata can't.
            MemoryStorageError: the server refused, or was away for too long.
        """
        if limit < 0:
            raise ValueError(f"the limit is 0 entries or more, not {limit}")
        wanted = rows.encode_filter(where or {})

        def read(connection: "Connection") -> list[Entry]:
            found = list[Entry]()
            with _transaction(connection):
                for about, entry in table.find_newest(connection, self._oldest()):
                    if len(found) == limit:
                        break
                    if not wanted or rows.fits(about, wanted):
                        found.append(entry)
            return found

        return tuple(await self._run(read))

    def _oldest(self) -> int:
        """Return the earliest time of creation of an entry that has not expired."""
        return math.ceil(max(utc_now().timestamp() - self._max_age, 0.0))

    async def _run(self, work: "Callable[[Connection], T]") -> T:
        try:
            return await self._server.run("", work)
        except SessionError as error:
            raise MemoryStorageError(error.message, hint=error.hint) from error.__cause__


def _transaction(connection: "Connection") -> "AbstractContextManager[None]":
    from greenroom.session._internal import transaction

    return transaction(connection)
