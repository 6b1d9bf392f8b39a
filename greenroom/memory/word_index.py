"""The index of words: split texts into words, index them, and search with BM25 at a bounded cost.

Case and accents don't count. `snake_case`, `camelCase` and `HTTPServer` are found by their parts
and as a whole; scripts without spaces, such as Chinese, by pairs of characters. The index has words
as they are written; a question's word also finds its other English forms, with the same stem.

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
from greenroom.memory.stems import stem

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
_MOST_FORMS = 8  # of a word, beside itself: the most common
_MOST_SIMILAR = 400  # words that begin alike, among which its forms are looked for
_SHORTEST_BEGINNING = 3  # characters; shorter ones have too many words
_OTHER_FORM = 0.6  # of an occurrence, when another form of the word occurs
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


class Term(msgspec.Struct, frozen=True):
    """A word of a question, its other forms in the index, and how many entries have any of them."""

    word: str
    forms: tuple[str, ...] = ()
    count: int = 0

    @property
    def expression(self) -> str:
        """The term in FTS5's query language; words are letters and digits, so none is syntax."""
        return "(" + " OR ".join(f'"{each}"' for each in (self.word, *self.forms)) + ")"


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
    terms = [_find_term(connection, word) for word in content_words(query)]
    weights = {term.word: _weight(term.count, totals.entries) for term in terms}
    known = sorted((t for t in terms if t.count), key=lambda term: (term.count, term.word))
    known = known[:_MOST_WORDS]
    candidates = _candidates(connection, known, weights, totals, only)
    best = heapq.nlargest(_CANDIDATES, ((score, key) for key, score in candidates.items()))
    average = max(totals.words / max(totals.entries, 1), 1.0)
    top = sum(weights.values()) or 1.0
    rows = read_rows(connection, f"key, {WORDS}", [key for _, key in best])
    found = [(_bm25(row, known, weights, average) / top, key) for key, row in rows]
    found.sort(reverse=True)
    return [ScoredKey(key, min(score, 1.0)) for score, key in found]


def _find_term(connection: sqlite3.Connection, word: str) -> Term:
    """Find the other forms of a word, and count the entries, at least those of the word itself."""
    row = connection.execute("SELECT entries FROM counts WHERE word = ?", (word,)).fetchone()
    count = row[0] if row and isinstance(row[0], int) else 0
    if count <= 0:  # unknown or damaged: ask the index
        count = len(_keys(connection, f'"{word}"', Filter(0), _POSTINGS + 1))
    forms = heapq.nlargest(_MOST_FORMS, _find_forms(connection, word))
    return Term(word, tuple(form for _, form in forms), count + sum(more for more, _ in forms))


def _find_forms(connection: sqlite3.Connection, word: str) -> Iterator[tuple[int, str]]:
    """Yield the other words with the same stem, each after the number of its entries.

    A stem replaces no more than the last letter of what its words begin with.
    """
    wanted = stem(word)
    beginning = wanted[: max(len(wanted) - 1, _SHORTEST_BEGINNING)]
    if len(beginning) < _SHORTEST_BEGINNING or not (word.isascii() and word.isalpha()):
        return
    similar = connection.execute(
        "SELECT word, entries FROM counts WHERE word >= ? AND word < ? LIMIT ?",
        (beginning, beginning + "\x7f", _MOST_SIMILAR),
    )
    for other, count in similar.fetchall():
        is_sound = isinstance(other, str) and isinstance(count, int) and count > 0
        if is_sound and other != word and stem(other) == wanted:
            yield count, other


def _weight(count: int, entries: int) -> float:
    return math.log(1 + (max(entries - count, 0) + 0.5) / (count + 0.5))


def _candidates(
    connection: sqlite3.Connection,
    known: Sequence[Term],
    weights: Mapping[str, float],
    totals: Totals,
    only: Filter,
) -> dict[int, float]:
    """Return keys with the weight of the words that are known to be in them."""
    found: dict[int, float] = {}
    rare = list(_choose_rare(known))
    for term in rare:
        for key in _keys(connection, term.expression, only, -1):
            found[key] = found.get(key, 0.0) + weights[term.word]
    if len(rare) < len(known):
        together = _choose_common(known, totals.entries)
        weight = sum(weights[term.word] for term in together)
        expression = " AND ".join(term.expression for term in together)
        for key in _keys(connection, expression, only, _CANDIDATES):
            found[key] = max(found.get(key, 0.0), weight)
        if not found:
            found = dict.fromkeys(_keys(connection, known[0].expression, only, _CANDIDATES), 0.0)
    return found


def _choose_rare(known: Sequence[Term]) -> Iterator[Term]:
    left = _POSTINGS
    for term in known:
        left -= term.count
        if left < 0:
            return
        yield term


def _choose_common(known: Sequence[Term], entries: int) -> list[Term]:
    """Choose the rarest words, until few enough entries can be expected to have all of them.

    With more words, more entries of the rarest have to be skipped before enough matches are found,
    so no word is added that would make those too many.
    """
    taken: list[Term] = []
    share = 1.0  # of the entries, as if words were independent
    for term in known:
        left = share * min(term.count / max(entries, 1), 1.0)
        passed = min(1.0, _CANDIDATES / max(left * entries, 1.0)) * known[0].count
        if taken and (share * entries <= _CANDIDATES or passed > _MAX_SKIPPED):
            break
        taken.append(term)
        share = left
    return taken


def _keys(connection: sqlite3.Connection, expression: str, only: Filter, limit: int) -> list[int]:
    """Return the newest entries that match."""
    if only.is_open:
        query = "SELECT -rowid FROM word_index WHERE word_index MATCH ? ORDER BY rowid LIMIT ?"
        return read_keys(connection, query, expression, limit)
    query = (
        "SELECT entries.key FROM word_index"  # noqa: S608  # ours
        " CROSS JOIN entries ON entries.key = -word_index.rowid"
        f" WHERE word_index MATCH ? AND {Filter.SQL} ORDER BY word_index.rowid LIMIT ?"
    )
    return read_keys(connection, query, expression, *only.values, limit)


def _bm25(entry: str, known: Sequence[Term], weights: Mapping[str, float], average: float) -> float:
    length = _K1 * (1 - _B + _B * entry.count("  ") / average)
    total = 0.0
    for term in known:
        times = float(entry.count(f" {term.word} "))
        times += _OTHER_FORM * sum(entry.count(f" {form} ") for form in term.forms)
        if times:
            total += weights[term.word] * times * (_K1 + 1) / (times + length)
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
