"""Find entries by meaning: vectors of length 1 are compared one by one.

Without numpy, a thousand comparisons of 1,536 numbers take about 90 ms of a thread's time; with it
a sixth of that. It comes with `pip install 'greenroom[vectors]'`.
"""

import math
import sqlite3
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from operator import mul
from types import ModuleType

import msgspec

from greenroom.llm import ModelBadRequestError, ModelContextTooLongError
from greenroom.memory.database import Totals
from greenroom.memory.memory_protocol import Embedder
from greenroom.memory.word_index import Filter, ScoredKey

EXHAUSTIVE = 10_000
"""Up to this many entries, all are compared; beyond that, only the best by words."""

_REFUSALS = (ModelBadRequestError, ModelContextTooLongError)
_PAGE = 500  # vectors in memory at a time
_BEST = 200  # the best of them


def find_numpy() -> ModuleType | None:
    """Return numpy if it is installed."""
    try:
        return import_module("numpy")
    except ImportError:
        return None


def encode(vectors: Iterable[Sequence[float] | None]) -> list[bytes]:
    """Scale vectors to length 1, and encode each as 32-bit floats; empty for one without a use.

    Raises:
        ValueError: none of them has a use: each is missing, all zero, or has a value that is not a
            finite number.
    """
    encoded, fault = [], ValueError("the embedder returned no vector")
    for vector in vectors:
        try:
            encoded.append(_normalize(() if vector is None else vector))
        except (ValueError, TypeError, OverflowError) as error:
            encoded.append(b"")
            fault = ValueError(f"the embedder returned a vector without a use: {error}")
    if encoded and not any(encoded):
        raise fault
    return encoded


def _normalize(vector: Sequence[float]) -> bytes:
    length = math.hypot(*vector)
    if not length or not math.isfinite(length):
        raise ValueError("its length is zero or infinite")
    return array("f", [each / length for each in vector]).tobytes()


async def ask(embedder: Embedder, texts: Sequence[str]) -> list[Sequence[float] | None]:
    """Ask for vectors; a text that is refused, such as one too long, gets None.

    Raises:
        Exception: the embedder raised it; a refusal only if it refuses the shortest text, too.
    """
    try:
        return list(await embedder.embed(texts))
    except _REFUSALS:
        if len(texts) == 1:
            raise
    await embedder.embed([min(texts, key=len)])
    return await _ask_in_halves(embedder, texts)


async def _ask_in_halves(embedder: Embedder, texts: Sequence[str]) -> list[Sequence[float] | None]:
    half = len(texts) // 2
    found: list[Sequence[float] | None] = []
    for part in (texts[:half], texts[half:]):
        try:
            found += await embedder.embed(part)
        except _REFUSALS:
            found += [None] if len(part) == 1 else await _ask_in_halves(embedder, part)
    return found


def find_pending(connection: sqlite3.Connection, name: str, most: int) -> list[tuple[int, str]]:
    """Return the newest entries that have no vector of this name yet: keys and texts."""
    return connection.execute(
        "SELECT key, ifnull(CAST(text AS TEXT), '') FROM entries AS e WHERE NOT EXISTS"
        " (SELECT 1 FROM vectors WHERE key = e.key AND name = ?) ORDER BY key DESC LIMIT ?",
        (name, most),
    ).fetchall()


def store(connection: sqlite3.Connection, name: str, vectors: Iterable[tuple[int, bytes]]) -> None:
    """Keep the vectors of entries that are still there."""
    connection.executemany(
        "INSERT OR REPLACE INTO vectors (key, name, vector, checksum)"
        " SELECT key, ?, ?, ? FROM entries WHERE key = ?",
        ((name, vector, zlib.crc32(vector), key) for key, vector in vectors),
    )


class Closest(msgspec.Struct):
    """The entries whose vectors are closest to a question's, and vectors that can't be compared.

    Attributes:
        best: the entries, the closest first.
        damaged: the keys of damaged vectors.
        misfits: how many vectors have another length than the question's.
    """

    best: list[ScoredKey] = []
    damaged: list[int] = []
    misfits: int = 0


def remove(connection: sqlite3.Connection, name: str, keys: Sequence[int]) -> int:
    """Remove the vectors of some entries, so that they are made again; return how many."""
    query = "DELETE FROM vectors WHERE key = ? AND name = ?"
    return connection.executemany(query, [(key, name) for key in keys]).rowcount


def find_by_meaning(
    connection: sqlite3.Connection,
    name: str,
    query: bytes,
    totals: Totals,
    only: Filter,
    by_words: Sequence[ScoredKey],
) -> Closest:
    """Find the 200 entries that are closest to the query's vector.

    Vectors of another length, or damaged ones, count as missing.
    """
    if totals.entries <= EXHAUSTIVE:
        rows = _all_vectors(connection, name, only)
    else:
        rows = _vectors_of(connection, name, [each.key for each in by_words])
    compare = _comparison(query)
    found = Closest()
    best = found.best
    for page in _pages(rows, len(query), found):
        best += map(ScoredKey, [key for key, _ in page], compare([vector for _, vector in page]))
        best.sort(key=lambda each: (-each.relevance, -each.key))
        del best[_BEST:]
    return found


def _all_vectors(
    connection: sqlite3.Connection, name: str, only: Filter
) -> Iterator[tuple[int, bytes, int]]:
    query = "SELECT v.key, v.vector, v.checksum FROM vectors AS v"
    if only.is_open:
        yield from connection.execute(f"{query} WHERE v.name = ?", (name,))
    else:
        yield from connection.execute(
            f"{query} JOIN entries ON entries.key = v.key WHERE v.name = ? AND {Filter.SQL}",
            (name, *only.values),
        )


def _vectors_of(
    connection: sqlite3.Connection, name: str, keys: Iterable[int]
) -> Iterator[tuple[int, bytes, int]]:
    for key in keys:
        yield from connection.execute(
            "SELECT key, vector, checksum FROM vectors WHERE key = ? AND name = ?", (key, name)
        )


def _pages(
    rows: Iterable[tuple[int, bytes, int]], length: int, found: Closest
) -> Iterator[list[tuple[int, bytes]]]:
    page: list[tuple[int, bytes]] = []
    for key, vector, checksum in rows:
        if not isinstance(vector, bytes) or zlib.crc32(vector) != checksum:
            found.damaged.append(key)
        elif len(vector) == length:
            page.append((key, vector))
        elif vector:  # else its text was refused
            found.misfits += 1
        if len(page) == _PAGE:
            yield page
            page = []
    if page:
        yield page


def _comparison(query: bytes) -> Callable[[list[bytes]], list[float]]:
    numpy = find_numpy()
    if numpy is None:
        plain = array("f", query)
        return lambda vectors: [sum(map(mul, plain, array("f", each))) for each in vectors]

    def compare(vectors: list[bytes]) -> list[float]:
        matrix = numpy.frombuffer(b"".join(vectors), dtype="f4").reshape(len(vectors), -1)
        found: list[float] = (matrix @ numpy.frombuffer(query, dtype="f4")).tolist()
        return found

    return compare
