"""`SQLiteMemory`: a memory in one SQLite file, or in the process's memory."""

import logging
import math
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from sqlite3 import Connection
from typing import TypeVar

import msgspec
import trio
from msgspec.structs import replace

from greenroom.core import utc_now
from greenroom.core._internal import quantity, valid_unicode
from greenroom.memory import rows, vectors, word_index
from greenroom.memory.database import FITS, MemoryDatabase, Totals, read_keys
from greenroom.memory.memory_protocol import (
    Embedder,
    Entry,
    MemoryStorageError,
    MetadataValue,
    Recalled,
    check_query,
    check_text,
)
from greenroom.memory.ranking import RecallRequest, RecallResult, list_recent
from greenroom.memory.recall_cache import RecallCache
from greenroom.memory.word_index import Filter

T = TypeVar("T")

_log = logging.getLogger("greenroom.memory")

_MOST_USED = 1_000  # keys of recalled entries, kept until the next write
_PATIENCE = 10.0  # seconds for the embedder
_PAUSE = 30.0  # seconds until a failed embedder is asked again
_BATCH = 32  # entries without a vector that are embedded with a question
_CACHED = 128  # vectors of questions


class MemoryStatistics(msgspec.Struct, frozen=True):
    """Figures about a memory, counted in this process since its first use.

    Attributes:
        entries: how many entries there were at the last call.
        bytes: their size, without their vectors and the index.
        evicted: entries removed because of a bound.
        expired: entries removed because of their age.
        damaged: rows set aside because their checksum was wrong.
        embedder_failures: calls of the embedder that failed, so that only words were searched.
        index_failures: calls that could not search or update an index.
        last_failure: the last failure as a text; empty if nothing failed.
    """

    entries: int = 0
    bytes: int = 0
    evicted: int = 0
    expired: int = 0
    damaged: int = 0
    embedder_failures: int = 0
    index_failures: int = 0
    last_failure: str = ""


class SQLiteMemory:
    """Keeps texts in an SQLite file and finds them by words and, with an `Embedder`, by meaning.

    An entry is on disk when `add` returns. Several processes may use the same file. A damaged row
    is never returned: it is moved to another table, logged and counted. At a limit, the least
    recently used entries are removed and counted, the first time with a warning in the log.

    Words are ranked by BM25; with an embedder, vectors are ranked as well (all of them up to 10,000
    entries, beyond that those of the best 200 by words), and both rankings are fused. If the
    embedder fails or takes more than 10 seconds, only words are searched, it is not asked for 30
    seconds, and entries without a vector get theirs later. If the embedder refuses a single text,
    or its vector is all zero or not of numbers, that entry is found by its words only. If the index
    of words fails, it is rebuilt, and `recall` returns the newest entries with a score of 0. All of
    this is logged and counted in `statistics`.

    What `forget` and `clear` remove is overwritten in the file and its log. If another process is
    reading at that moment, the log keeps it until it is emptied, as when the last process closes
    the file.

    Args:
        path: the file, created on first use and readable by its owner only. By default in memory.
        embedder: makes vectors; without one, only words are searched.
        max_entries: the most entries.
        max_bytes: the most bytes of their texts, metadata and words.
        max_age: seconds after which an entry is no longer recalled, and soon removed; None for no
            limit.
        half_life: seconds after which an entry has lost a quarter of its score; age takes at most
            half. None to ignore age.

    Raises:
        ValueError: a limit is too low.

    Example:
        >>> memory = SQLiteMemory()
        >>> async def main():
        ...     await memory.add("The tests need Postgres on port 5433.", origin="user")
        ...     recalled = await memory.recall("which port do tests need?")
        ...     return [each.entry.text for each in recalled]
        >>> trio.run(main)
        ['The tests need Postgres on port 5433.']
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        embedder: Embedder | None = None,
        *,
        max_entries: int = 100_000,
        max_bytes: int = 256 << 20,
        max_age: float | None = None,
        half_life: float | None = 30 * 86_400.0,
    ) -> None:
        """Set the file; nothing is opened yet."""
        if max_entries < 1 or max_bytes < 1 << 20:
            raise ValueError("a memory keeps at least one entry and a megabyte")
        if not all(each is None or each > 0 for each in (max_age, half_life)):
            raise ValueError("max_age and half_life are seconds, more than 0, or None")
        self._database = MemoryDatabase(os.fspath(path), {"fits": rows.fits})
        self._embedder = embedder
        self._bounds = max_entries, max_bytes
        self._max_age = math.inf if max_age is None else max_age
        self._half_life = half_life
        self._statistics = MemoryStatistics()
        self._used_keys: dict[int, None] = {}
        self._query_vectors: OrderedDict[str, bytes] = OrderedDict()
        self._cache = RecallCache()
        self._keys_in_progress: set[int] = set()
        self._next_embedding = -math.inf  # on the monotonic clock; trio's begins anew in each run
        self._was_rebuilt = self._has_misfits = False

    def __repr__(self) -> str:
        return f"SQLiteMemory({self._database.path!r})"

    async def add(self, text: str, /, **metadata: MetadataValue) -> str:
        """Keep a text; return the id of its entry. It is durable when this returns.

        `origin`, `session_id` and `turn` become fields of the entry, all else its metadata.

        Raises:
            ValueError: the text is blank or longer than 64,000 characters, or the metadata has more
                than 4 KB or a value that is not a text, number, boolean or None.
            MemoryStorageError: SQLite or the disk refused; nothing was kept.
        """
        text, about = check_text(text), rows.make_about(metadata)
        used = list(self._used_keys)
        work = partial(_add, text=text, about=about, used=used, oldest=self._oldest())
        added = await self._change(partial(work, bounds=self._bounds))
        for key in used:
            self._used_keys.pop(key, None)
        self._update_totals(added.totals)
        if added.evicted or added.expired:
            self._report_removed(added)
        await self._embed("")
        return added.id

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
        same text and origin it returns one. The score is the entry's relevance (the share of the
        question's words that it has, weighed by rarity, or the cosine of the vectors, if that is
        more), less for a lower rank and for age.

        Raises:
            ValueError: the limit is not 1 to 200, or `where` holds what metadata can't.
            MemoryStorageError: SQLite or the disk refused.
        """
        query, only = check_query(query, limit), self._filter(where)
        vector = await self._embed(query)
        request = RecallRequest(
            text=query,
            only=only,
            limit=limit,
            threshold=threshold,
            vector=vector,
            embedder=self._embedder.name if self._embedder else "",
            half_life=self._half_life,
            at=utc_now(),
        )
        result = await self._database.run(partial(self._cache.recall, request=request))
        self._used_keys.update(dict.fromkeys(result.keys))
        while len(self._used_keys) > _MOST_USED:
            del self._used_keys[next(iter(self._used_keys))]
        await self._repair(result)
        return tuple(result.recalled)

    async def forget(self, id: str, /) -> bool:  # noqa: A002
        """Remove an entry and its damaged copies for good; return whether it existed.

        Raises:
            MemoryStorageError: SQLite or the disk refused.
        """
        if valid_unicode(id) != id:  # so there is none
            return False
        return await self._change(partial(_forget, entry_id=id), erases=True)

    async def clear(self, **where: MetadataValue) -> int:
        """Remove all entries that have these fields and metadata, or all; return how many.

        Raises:
            ValueError: `where` holds what metadata can't.
            MemoryStorageError: SQLite or the disk refused; nothing was removed.
        """
        wanted = self._filter(where).where
        return await self._change(partial(_clear, where=wanted), erases=True)

    async def entries(
        self, *, limit: int = 100, where: Mapping[str, MetadataValue] | None = None
    ) -> Sequence[Entry]:
        """Return the newest entries, the newest first.

        Raises:
            ValueError: the limit is less than 0, or `where` holds what metadata can't.
            MemoryStorageError: SQLite or the disk refused.
        """
        if limit < 0:
            raise ValueError(f"the limit is 0 entries or more, not {limit}")
        only = self._filter(where)
        result = await self._database.run(partial(list_recent, only=only, limit=limit))
        await self._repair(result)
        return tuple(each.entry for each in result.recalled)

    def statistics(self) -> MemoryStatistics:
        """Return figures about the memory, including its failures."""
        return self._statistics

    def _filter(self, where: Mapping[str, MetadataValue] | None) -> Filter:
        return Filter(self._oldest(), rows.encode_filter(where or {}))

    def _oldest(self) -> int:
        """Return the earliest time of creation of an entry that has not expired."""
        return math.ceil(max(utc_now().timestamp() - self._max_age, 0.0))

    async def _change(self, work: Callable[[Connection], T], *, erases: bool = False) -> T:
        """Write; if the word index is damaged, rebuild it and try again."""
        run = partial(self._database.run, work, writes=True, erases=erases)
        try:
            return await run()
        except MemoryStorageError as error:
            if not word_index.is_damage(error.__cause__):
                raise
            self._report(f"words could not be indexed: {error}", index_failures=1)
        await self._database.run(rows.rebuild_index, writes=True)
        return await run()

    async def _embed(self, query: str) -> bytes:
        """Return the question's vector, or empty; embed entries that have no vector yet."""
        embedder = self._embedder
        if embedder is not None and time.monotonic() >= self._next_embedding:
            try:
                await self._make_vectors(embedder, query)
            except MemoryStorageError as error:  # vectors are optional
                self._next_embedding = time.monotonic() + _PAUSE
                self._report(f"vectors could not be kept: {error}")
        return self._query_vectors.get(query, b"")

    async def _make_vectors(self, embedder: Embedder, query: str) -> None:
        find = partial(
            vectors.find_pending, name=embedder.name, most=_BATCH + len(self._keys_in_progress)
        )
        found = await self._database.run(find)
        batch = [(k, text) for k, text in found if k not in self._keys_in_progress][:_BATCH]
        texts = [text for _, text in batch]
        if query and query not in self._query_vectors:
            texts.append(query)
        if not texts:
            return
        keys = [key for key, _ in batch]
        self._keys_in_progress.update(keys)
        try:
            made = await self._ask_embedder(embedder, texts)
            if len(made) > len(keys):
                self._query_vectors[query] = made.pop()
                while len(self._query_vectors) > _CACHED:
                    self._query_vectors.popitem(last=False)
            if made:
                pairs = list(zip(keys, made, strict=True))
                store = partial(vectors.store, name=embedder.name, vectors=pairs)
                await self._database.run(store, writes=True)
        finally:
            self._keys_in_progress.difference_update(keys)

    async def _ask_embedder(self, embedder: Embedder, texts: Sequence[str]) -> list[bytes]:
        """Ask the embedder for vectors; on failure log it and return an empty list."""
        try:
            with trio.fail_after(_PATIENCE):
                made = await vectors.ask(embedder, texts)
            if len(made) != len(texts):
                raise ValueError(f"{len(made)} vectors for {len(texts)} texts")  # noqa: TRY301
            encoded = await trio.to_thread.run_sync(vectors.encode, made)
        except Exception as error:  # noqa: BLE001  # any failure: words still work
            self._next_embedding = time.monotonic() + _PAUSE
            reason = f"{type(error).__name__}: {error}"[:500]
            self._report(f"the embedder {embedder.name} failed: {reason}", embedder_failures=1)
            return []
        if failed := encoded.count(b""):
            text = f"the embedder {embedder.name} has no vector for {failed} of {len(texts)} texts"
            self._report(text, embedder_failures=1)
        return encoded

    async def _repair(self, result: RecallResult) -> None:
        """Move damaged rows away, and rebuild a damaged index once."""
        self._update_totals(result.totals)
        if result.failure is not None:
            self._report(
                f"words or vectors could not be searched: {result.failure}", index_failures=1
            )
            if not self._was_rebuilt:
                self._was_rebuilt = True
                await self._try_repair(rows.rebuild_index)
        name = self._embedder.name if self._embedder else ""
        if result.damaged_vectors:
            again = partial(vectors.remove, name=name, keys=result.damaged_vectors)
            if removed := await self._try_repair(again):
                self._report(f"{quantity(removed, 'damaged vector')} will be made again")
        if result.misfits and not self._has_misfits:
            self._has_misfits = True
            self._report(
                f"{quantity(result.misfits, 'vector')} of another length than {name} returns now"
                " can't be compared: give the embedder another name"
            )
        if result.damaged:
            aside = partial(rows.set_aside, keys=result.damaged, moment=utc_now())
            if moved := await self._try_repair(aside):
                text = f"{moved} damaged entries were set aside in the table 'damaged'"
                self._report(text, damaged=moved)

    async def _try_repair(self, work: Callable[[Connection], int]) -> int:
        """Repair something; log it if the disk refuses."""
        try:
            return await self._database.run(work, writes=True)
        except MemoryStorageError as error:
            self._report(f"could not be repaired: {error}")
            return 0

    def _update_totals(self, totals: Totals) -> None:
        self._statistics = replace(self._statistics, entries=totals.entries, bytes=totals.bytes)

    def _report_removed(self, added: "_AddResult") -> None:
        """Count evicted and expired entries, and log evictions."""
        old = self._statistics
        if added.evicted:
            level = logging.DEBUG if old.evicted else logging.WARNING  # once is enough
            _log.log(level, "memory %s is full: %d evicted", self._database.path, added.evicted)
        self._statistics = replace(
            old, evicted=old.evicted + added.evicted, expired=old.expired + added.expired
        )

    def _report(self, text: str, **counts: int) -> None:
        """Log a failure, and count it."""
        _log.warning("memory %s: %s", self._database.path, text)
        old = self._statistics
        counted = {name: getattr(old, name) + count for name, count in counts.items()}
        self._statistics = replace(old, last_failure=text, **counted)


class _AddResult(msgspec.Struct, frozen=True):
    """The new entry's id, and what was removed to make room."""

    id: str
    expired: int
    evicted: int
    totals: Totals


def _add(
    connection: Connection,
    text: str,
    about: rows.About,
    *,
    used: Sequence[int],
    oldest: int,
    bounds: tuple[int, int],
) -> _AddResult:
    moment = utc_now()
    rows.mark_used(connection, used, moment)
    entry_id = rows.add(connection, text, about, moment)
    old = "SELECT key FROM entries WHERE created < ? LIMIT 1000"
    expired = rows.remove(connection, read_keys(connection, old, oldest))
    evicted = rows.evict(connection, *bounds)
    return _AddResult(entry_id, expired, evicted, rows.read_totals(connection))


def _forget(connection: Connection, entry_id: str) -> bool:
    aside = connection.execute("DELETE FROM damaged WHERE id = ?", (entry_id,)).rowcount
    found = read_keys(connection, "SELECT key FROM entries WHERE id = ?", entry_id)
    removed = rows.remove(connection, found)
    if removed or aside:
        word_index.scrub(connection)
    return removed > 0


def _clear(connection: Connection, where: str) -> int:
    if not where:
        return rows.clear(connection)
    query = f"SELECT key FROM entries WHERE {FITS}"  # noqa: S608
    removed = rows.remove(connection, read_keys(connection, query, where))
    word_index.scrub(connection)
    return removed
