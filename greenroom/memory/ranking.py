"""Answer a question from the database: combine the rankings by words and by vectors, read the best rows."""

import math
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from greenroom.memory.database import read_keys, read_rows
from greenroom.memory.protocol import Recalled
from greenroom.memory.rows import FITS, Totals, read, read_totals
from greenroom.memory.vectors import find_by_meaning
from greenroom.memory.word_search import Filter, Match, find_by_words

_K = 60  # of reciprocal rank fusion, as in the paper by Cormack and others


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the database.

    Attributes:
        text: the question.
        only: which entries count.
        limit: how many are wanted.
        threshold: what an entry must score.
        vector: the question's vector, or empty.
        embedder: the name of the vectors that it is compared with.
        half_life: seconds after which half of the penalty for age applies; None for no penalty.
        at: the present time.
    """

    text: str
    only: Filter
    limit: int
    threshold: float
    vector: bytes
    embedder: str
    half_life: float | None
    at: datetime


@dataclass
class Answer:
    """The database's answer to a `Question`, and what was wrong with it.

    Attributes:
        recalled: the entries, the best first.
        keys: their keys.
        damaged: keys of rows that are not what was written.
        failure: why words, or vectors, could not be searched, or None.
        totals: how much there is.
    """

    totals: Totals
    recalled: list[Recalled] = field(default_factory=list)
    keys: list[int] = field(default_factory=list)
    damaged: list[int] = field(default_factory=list)
    failure: sqlite3.Error | None = None


def recall(connection: sqlite3.Connection, question: Question) -> Answer:
    """Find entries by words and by meaning; if neither can be searched, return the newest with score 0."""
    answer = Answer(read_totals(connection))
    by_words: list[Match] = []
    by_meaning: list[Match] = []
    try:
        by_words = find_by_words(connection, question.text, answer.totals, question.only)
    except sqlite3.Error as error:
        answer.failure = error
    has_words = answer.failure is None
    try:
        by_meaning = _search_by_meaning(connection, question, answer.totals, by_words)
    except sqlite3.Error as error:
        answer.failure = error
    if not has_words and not by_meaning:
        newest = _newest(connection, question.only, question.limit)
        _read(connection, answer, ((0.0, key) for key in newest), question.limit)
        return answer
    scores = _fuse([each for each in (by_words, by_meaning) if each])
    times = read_rows(connection, "key, ifnull(CAST(created AS INTEGER), 0)", scores)
    final = [(scores[key] * _freshness(int(made), question), key) for key, made in times]
    final.sort(reverse=True)
    wanted = ((score, key) for score, key in final if score >= question.threshold)
    _read(connection, answer, wanted, question.limit)
    return answer


def list_recent(connection: sqlite3.Connection, only: Filter, limit: int) -> Answer:
    """Read the newest entries."""
    answer = Answer(read_totals(connection))
    newest = _newest(connection, only, limit)
    _read(connection, answer, ((0.0, key) for key in newest), limit, is_list=True)
    return answer


def _search_by_meaning(
    connection: sqlite3.Connection, question: Question, totals: Totals, by_words: Sequence[Match]
) -> list[Match]:
    if not question.vector:
        return []
    found = find_by_meaning(
        connection, question.embedder, question.vector, totals, question.only, by_words
    )
    return [each for each in found if each.relevance > 0]


def _fuse(rankings: Sequence[Sequence[Match]]) -> dict[int, float]:
    """Give each entry its share of reciprocal rank fusion, 1 for the first of all, times its relevance."""
    shares: dict[int, float] = {}
    relevance: dict[int, float] = {}
    for ranking in rankings:
        for rank, each in enumerate(ranking):
            share = (_K + 1) / (_K + 1 + rank) / len(rankings)
            shares[each.key] = shares.get(each.key, 0.0) + share
            relevance[each.key] = max(relevance.get(each.key, 0.0), min(each.relevance, 1.0))
    return {key: share * relevance[key] for key, share in shares.items()}


def _freshness(created: int, question: Question) -> float:
    """Return from 1 for now down to a half for what is old, so that no age hides what fits."""
    if question.half_life is None:
        return 1.0
    age = max(question.at.timestamp() - created, 0.0)
    return 0.5 + math.exp2(-min(age / question.half_life, 1_000.0)) / 2


def _newest(connection: sqlite3.Connection, only: Filter, limit: int) -> list[int]:
    return read_keys(
        connection,
        f"SELECT key FROM entries WHERE created >= ? AND (? = '' OR {FITS})"  # noqa: S608
        " ORDER BY key DESC LIMIT ?",
        only.since,
        only.where,
        only.where,
        limit,
    )


def _read(
    connection: sqlite3.Connection,
    answer: Answer,
    scored: Iterable[tuple[float, int]],
    limit: int,
    *,
    is_list: bool = False,
) -> None:
    """Read the first undamaged rows; unless it is a list, skip duplicates of text and origin."""
    seen = set()
    for score, key in scored:
        if len(answer.recalled) == limit:
            return
        entry = read(connection, key)
        if entry is None:
            answer.damaged.append(key)
        elif is_list or (entry.origin, entry.text) not in seen:
            seen.add((entry.origin, entry.text))
            answer.recalled.append(Recalled(entry, score))
            answer.keys.append(key)
