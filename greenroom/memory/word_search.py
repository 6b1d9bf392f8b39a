"""Search by words with BM25, at a bounded cost however common the words are.

FTS5 ranks by looking at every entry of every word, so eight common words are five hundred times as
slow as a rare one. Here the rarest words come first, as long as they are in no more than
`_POSTINGS` entries together; an entry with any of them is a candidate. Of the more common words,
the rarest must occur together: as many as leave about `_CANDIDATES` entries. The best candidates
are then ranked by BM25 over all words of the question.
"""

import heapq
import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from greenroom.memory.database import read_keys, read_rows
from greenroom.memory.rows import FITS, WORDS, Totals
from greenroom.memory.words import content_words

_POSTINGS = 2_000
_CANDIDATES = 200
_MAX_SKIPPED = 25_000  # entries of the rarest word, on the way to those that have several words
_MOST_WORDS = 32  # of a question, the rarest
_K1, _B = 1.2, 0.75  # as in FTS5 and everywhere


class Filter(msgspec.Struct, frozen=True):
    """Which entries count: those created since a time that fit a `where` (see `rows.encode_filter`)."""

    since: int
    where: str = ""

    @property
    def is_open(self) -> bool:
        """Whether every entry counts."""
        return not self.where and self.since <= 0


class Match(msgspec.Struct, frozen=True):
    """An entry's key and its relevance, from 0 to 1."""

    key: int
    relevance: float


def find_by_words(
    connection: sqlite3.Connection, query: str, totals: Totals, only: Filter
) -> list[Match]:
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
    return [Match(key, min(score, 1.0)) for score, key in found]


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
        " WHERE word_index MATCH ? AND created >= ?"
        f" AND (? = '' OR {FITS}) ORDER BY word_index.rowid LIMIT ?"
    )
    return read_keys(connection, query, expression, only.since, only.where, only.where, limit)


def _bm25(entry: str, known: Sequence[str], weights: Mapping[str, float], average: float) -> float:
    length = _K1 * (1 - _B + _B * entry.count("  ") / average)
    total = 0.0
    for word in known:
        if times := entry.count(f" {word} "):
            total += weights[word] * times * (_K1 + 1) / (times + length)
    return total
