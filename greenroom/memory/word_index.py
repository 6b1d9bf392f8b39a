"""The index of words: split texts into words, index them, and search with BM25 at a bounded cost.

Case and accents don't count. `snake_case`, `camelCase` and `HTTPServer` are found by their parts
and as a whole; scripts without spaces, such as Chinese, by pairs of characters.

FTS5 ranks by looking at every entry of every word, so eight common words are five hundred times as
slow as a rare one. Here the rarest words come first, as long as they are in no more than
`_POSTINGS` entries together; an entry with any of them is a candidate. Of the more common words,
the rarest must occur together: as many as leave about `_CANDIDATES` entries. The best candidates
are then ranked by BM25 over all words of the question.
"""

import heapq
import math
import re
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import msgspec

from greenroom.memory.database import FITS, WORD_INDEX, WORDS, Totals, read_keys, read_rows

_LONGEST = 64  # characters of a word; what follows is cut off, as of a key in base64

_RUN = re.compile(r"\w+")
_PART = re.compile(r"[^\W\d_a-z]+(?=[^\W\d_a-z][a-z])|[^\W\d_a-z]?[a-z]+|[^\W\d_]+|\d+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")

_STOP_WORDS = """
a about after again all also am an and any are as at be because been before being but by can
could d did do does doing don done down each few for from had has have having he her here
hers him his how i if in into is it its just ll m me more most my no nor not now of off on
once only or other our ours out over own please re s same she should so some such t tell
than that the their theirs them then there these they this those through to too under until
up us ve very was we were what when where which while who whom whose why will with would you
your yours
"""

STOP_WORDS = frozenset(_STOP_WORDS.split())
"""English words that carry no meaning in a search."""


def words(text: str) -> list[str]:
    """Split a text into words, with repetitions.

    Example:
        >>> words("Café: parseJSON of snake_case")
        ['cafe', 'parsejson', 'parse', 'json', 'of', 'snakecase', 'snake', 'case']
    """
    if not text.isascii():
        text = _without_accents(text)
    found: list[str] = []
    for run in _RUN.findall(text):
        if run.isascii() and (run.islower() or run.isdigit()) and "_" not in run:
            found.append(run[:_LONGEST])
        else:
            found += _split(run)
    return found


def content_words(text: str) -> list[str]:
    """Return the different words of a question, without stop words unless it has no others.

    Example:
        >>> content_words("What is the port of the test server?"), content_words("who are you")
        (['port', 'test', 'server'], ['who', 'are', 'you'])
    """
    different = list(dict.fromkeys(words(text)))
    return [word for word in different if word not in STOP_WORDS] or different


def _split(run: str) -> list[str]:
    if pairs := _UNSPACED.findall(run):
        rest = [word for piece in _UNSPACED.split(run) for word in words(piece)]
        return [pair for piece in pairs for pair in _pairs(piece)] + rest
    whole = run.replace("_", "").casefold()[:_LONGEST]
    parts = [part.casefold()[:_LONGEST] for part in _PART.findall(run)] if run.isascii() else []
    return [whole, *parts] if len(parts) > 1 else [whole] if whole else []


def _pairs(piece: str) -> list[str]:
    return [piece[at : at + 2] for at in range(len(piece) - 1)] or [piece]


def _without_accents(text: str) -> str:
    plain = unicodedata.normalize("NFKD", text)
    return unicodedata.normalize("NFC", "".join(c for c in plain if not unicodedata.combining(c)))


_POSTINGS = 2_000
_CANDIDATES = 200
_MAX_SKIPPED = 25_000  # entries of the rarest word, on the way to those that have several words
_MOST_WORDS = 32  # of a question, the rarest
_K1, _B = 1.2, 0.75  # as in FTS5 and everywhere


class Filter(msgspec.Struct, frozen=True):
    """Limits a search to entries created since a time that fit a `where` (`rows.encode_filter`)."""

    since: int
    where: str = ""

    SQL: ClassVar = f"created >= ? AND (? = '' OR {FITS})"
    """The condition, with the parameters in `values`."""

    @property
    def values(self) -> tuple[int, str, str]:
        """The parameters of `SQL`."""
        return self.since, self.where, self.where

    @property
    def is_open(self) -> bool:
        """Whether every entry counts."""
        return not self.where and self.since <= 0


class ScoredKey(msgspec.Struct, frozen=True):
    """An entry's key and its relevance, from 0 to 1."""

    key: int
    relevance: float


def find_by_words(
    connection: sqlite3.Connection, query: str, totals: Totals, only: Filter
) -> list[ScoredKey]:
    """Return the best 200 entries by their words, the best first.

    A relevance of 1 means all words of the question, weighed by their rarity, in an entry that is
    no longer than others.
    """
    query_words = content_words(query)
    counts = _count_entries(connection, query_words)
    weights = {word: _weight(counts.get(word, 0), totals.entries) for word in query_words}
    known = sorted(counts, key=lambda word: (counts[word], word))[:_MOST_WORDS]
    candidates = _candidates(connection, known, counts, weights, totals, only)
    best = heapq.nlargest(_CANDIDATES, ((score, key) for key, score in candidates.items()))
    average = max(totals.words / max(totals.entries, 1), 1.0)
    top = sum(weights.values()) or 1.0
    rows = read_rows(connection, f"key, {WORDS}", [key for _, key in best])
    found = [(_bm25(row, known, weights, average) / top, key) for key, row in rows]
    found.sort(reverse=True)
    return [ScoredKey(key, min(score, 1.0)) for score, key in found]


def _count_entries(connection: sqlite3.Connection, query_words: Sequence[str]) -> dict[str, int]:
    """Return in how many entries each word occurs, without words that don't occur."""
    counts = {}
    for word in query_words:
        row = connection.execute("SELECT entries FROM counts WHERE word = ?", (word,)).fetchone()
        count = row[0] if row and isinstance(row[0], int) else 0
        if count <= 0:  # unknown or damaged: ask the index
            count = len(_keys(connection, f'"{word}"', Filter(0), _POSTINGS + 1))
        if count:
            counts[word] = count
    return counts


def _weight(count: int, entries: int) -> float:
    return math.log(1 + (max(entries - count, 0) + 0.5) / (count + 0.5))


def _candidates(
    connection: sqlite3.Connection,
    known: Sequence[str],
    counts: Mapping[str, int],
    weights: Mapping[str, float],
    totals: Totals,
    only: Filter,
) -> dict[int, float]:
    """Return keys with the weight of the words that are known to be in them."""
    found: dict[int, float] = {}
    rare = list(_choose_rare(known, counts))
    for word in rare:
        for key in _keys(connection, f'"{word}"', only, -1):
            found[key] = found.get(key, 0.0) + weights[word]
    if len(rare) < len(known):
        together = _choose_common(known, counts, totals.entries)
        weight = sum(weights[word] for word in together)
        expression = " AND ".join(f'"{word}"' for word in together)
        for key in _keys(connection, expression, only, _CANDIDATES):
            found[key] = max(found.get(key, 0.0), weight)
        if not found:
            found = dict.fromkeys(_keys(connection, f'"{known[0]}"', only, _CANDIDATES), 0.0)
    return found


def _choose_rare(known: Sequence[str], counts: Mapping[str, int]) -> Iterator[str]:
    left = _POSTINGS
    for word in known:
        left -= counts[word]
        if left < 0:
            return
        yield word


def _choose_common(known: Sequence[str], counts: Mapping[str, int], entries: int) -> list[str]:
    """Choose the rarest words, until few enough entries can be expected to have all of them.

    With more words, more entries of the rarest have to be skipped before enough matches are found,
    so no word is added that would make those too many.
    """
    taken: list[str] = []
    share = 1.0  # of the entries, as if words were independent
    for word in known:
        left = share * counts[word] / max(entries, 1)
        passed = min(1.0, _CANDIDATES / max(left * entries, 1.0)) * counts[known[0]]
        if taken and (share * entries <= _CANDIDATES or passed > _MAX_SKIPPED):
            break
        taken.append(word)
        share = left
    return taken


def _keys(connection: sqlite3.Connection, expression: str, only: Filter, limit: int) -> list[int]:
    """Return the newest entries that match; the words are letters and digits, so none is syntax."""
    if only.is_open:
        query = "SELECT -rowid FROM word_index WHERE word_index MATCH ? ORDER BY rowid LIMIT ?"
        return read_keys(connection, query, expression, limit)
    query = (
        "SELECT entries.key FROM word_index"  # noqa: S608  # ours
        " CROSS JOIN entries ON entries.key = -word_index.rowid"
        f" WHERE word_index MATCH ? AND {Filter.SQL} ORDER BY word_index.rowid LIMIT ?"
    )
    return read_keys(connection, query, expression, *only.values, limit)


def _bm25(entry: str, known: Sequence[str], weights: Mapping[str, float], average: float) -> float:
    length = _K1 * (1 - _B + _B * entry.count("  ") / average)
    total = 0.0
    for word in known:
        if times := entry.count(f" {word} "):
            total += weights[word] * times * (_K1 + 1) / (times + length)
    return total


def rebuild(connection: sqlite3.Connection) -> int:
    """Rebuild the index from the entries; return how many there are."""
    connection.execute("REINDEX")  # those of single columns
    _drop(connection)
    connection.execute(WORD_INDEX)
    connection.execute("DELETE FROM counts")
    keys = read_keys(connection, "SELECT key FROM entries ORDER BY key DESC")
    for key in keys:
        query = f"SELECT {WORDS} FROM entries WHERE key = ?"  # noqa: S608
        (text,) = connection.execute(query, (key,)).fetchone()
        add_words(connection, key, text.split())
    return len(keys)


def is_damage(error: BaseException | None) -> bool:
    """Whether an error of SQLite may mean a damaged index; FTS5 reports that in several ways."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT)


def scrub(connection: sqlite3.Connection) -> None:
    """Rewrite the index without removed entries, which it only marks as deleted until then."""
    connection.execute("INSERT INTO word_index (word_index) VALUES ('optimize')")


def _drop(connection: sqlite3.Connection) -> None:
    try:
        connection.execute("DROP TABLE word_index")
    except sqlite3.DatabaseError:  # FTS5 must read an index that it drops
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute("DELETE FROM sqlite_master WHERE name = 'word_index'")
        connection.execute("PRAGMA writable_schema = RESET")
        for part in ("data", "idx", "docsize", "config"):
            connection.execute(f"DROP TABLE IF EXISTS word_index_{part}")


def add_words(connection: sqlite3.Connection, key: int, split: list[str]) -> None:
    """Index the words of an entry."""
    # Negative, since an index is read fastest from its lowest number on, and the newest come first.
    connection.execute(
        "INSERT INTO word_index (rowid, words) VALUES (?, ?)", (-key, " ".join(split))
    )
    connection.executemany(
        "INSERT INTO counts VALUES (?, 1) ON CONFLICT DO UPDATE SET entries = entries + 1",
        ((word,) for word in set(split)),
    )


def remove_words(connection: sqlite3.Connection, key: int, split: list[str]) -> None:
    """Remove the words of an entry from the index."""
    connection.execute(
        "INSERT INTO word_index (word_index, rowid, words) VALUES ('delete', ?, ?)",
        (-key, " ".join(split)),
    )
    for word in set(split):
        connection.execute("UPDATE counts SET entries = entries - 1 WHERE word = ?", (word,))
        connection.execute("DELETE FROM counts WHERE word = ? AND entries <= 0", (word,))
