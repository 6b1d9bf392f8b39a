"""Recall entries from the database: combine the rankings by words and by vectors."""

import math
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from greenroom.memory.database import Totals, read_keys, read_rows
from greenroom.memory.memory_protocol import Recalled
from greenroom.memory.rows import read, read_totals
from greenroom.memory.vectors import Closest, find_by_meaning
from greenroom.memory.word_index import Filter, ScoredKey, find_by_words

_K = 60  # of reciprocal rank fusion, as in the paper by Cormack and others


class RecallRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A question to the database.

    Attributes:
        text: the question.
        only: which entries count.
        limit: the most entries to return.
        threshold: the lowest score to return.
        vector: the question's vector, or empty.
        embedder: the name of the vectors to compare it with.
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


class RecallResult(msgspec.Struct):
    """The entries that a `RecallRequest` found, and problems on the way.

    Attributes:
        recalled: the entries, the best first.
        keys: their keys.
        damaged: the keys of damaged rows.
        failure: why words or vectors could not be searched, or None.
        damaged_vectors: the keys of damaged vectors.
        misfits: how many vectors have another length than the question's.
        totals: how much the database holds.
    """

    totals: Totals
    recalled: list[Recalled] = msgspec.field(default_factory=list)
    keys: list[int] = msgspec.field(default_factory=list)
    damaged: list[int] = msgspec.field(default_factory=list)
    failure: sqlite3.Error | None = None
    damaged_vectors: list[int] = msgspec.field(default_factory=list)
    misfits: int = 0


def recall(connection: sqlite3.Connection, request: RecallRequest) -> RecallResult:
    """Find entries by words and by meaning; if both fail, return the newest with a score of 0."""
    result = RecallResult(read_totals(connection))
    by_words: list[ScoredKey] = []
    closest = Closest()
    try:
        by_words = find_by_words(connection, request.text, result.totals, request.only)
    except sqlite3.Error as error:
        result.failure = error
    has_words = result.failure is None
    try:
        if request.vector:
            closest = find_by_meaning(
                connection,
                request.embedder,
                request.vector,
                result.totals,
                request.only,
                by_words,
            )
    except sqlite3.Error as error:
        result.failure = error
    by_meaning = [each for each in closest.best if each.relevance > 0]
    result.damaged_vectors, result.misfits = closest.damaged, closest.misfits
    if not has_words and not by_meaning:
        return _read_newest(connection, result, request.only, request.limit)
    scores = _fuse([each for each in (by_words, by_meaning) if each])
    times = read_rows(connection, "key, ifnull(CAST(created AS INTEGER), 0)", scores)
    final = [(scores[key] * _freshness(int(made), request), key) for key, made in times]
    final.sort(reverse=True)
    wanted = ((score, key) for score, key in final if score >= request.threshold)
    _read(connection, result, wanted, request.limit)
    return result


def list_recent(connection: sqlite3.Connection, only: Filter, limit: int) -> RecallResult:
    """Read the newest entries."""
    result = RecallResult(read_totals(connection))
    return _read_newest(connection, result, only, limit, is_list=True)


def _fuse(rankings: Sequence[Sequence[ScoredKey]]) -> dict[int, float]:
    """Score entries: their part of reciprocal rank fusion, at most 1, times their relevance."""
    shares: dict[int, float] = {}
    relevance: dict[int, float] = {}
    for ranking in rankings:
        for rank, each in enumerate(ranking):
            share = (_K + 1) / (_K + 1 + rank) / len(rankings)
            shares[each.key] = shares.get(each.key, 0.0) + share
            relevance[each.key] = max(relevance.get(each.key, 0.0), min(each.relevance, 1.0))
    return {key: share * relevance[key] for key, share in shares.items()}


def _freshness(created: int, request: RecallRequest) -> float:
    """Return a factor from 1 for new entries down to a half, so that age alone hides no entry."""
    if request.half_life is None:
        return 1.0
    age = max(request.at.timestamp() - created, 0.0)
    return 0.5 + math.exp2(-min(age / request.half_life, 1_000.0)) / 2


def _read_newest(
    connection: sqlite3.Connection,
    result: RecallResult,
    only: Filter,
    limit: int,
    *,
    is_list: bool = False,
) -> RecallResult:
    query = f"SELECT key FROM entries WHERE {Filter.SQL} ORDER BY key DESC LIMIT ?"  # noqa: S608
    keys = read_keys(connection, query, *only.values, limit)
    _read(connection, result, ((0.0, key) for key in keys), limit, is_list=is_list)
    return result


def _read(
    connection: sqlite3.Connection,
    result: RecallResult,
    scored: Iterable[tuple[float, int]],
    limit: int,
    *,
    is_list: bool = False,
) -> None:
    """Read the first undamaged rows; unless it is a list, skip duplicates of text and origin."""
    seen = set()
    for score, key in scored:
        if len(result.recalled) == limit:
            return
        entry = read(connection, key)
        if entry is None:
            result.damaged.append(key)
        elif is_list or (entry.origin, entry.text) not in seen:
            seen.add((entry.origin, entry.text))
            result.recalled.append(Recalled(entry, score))
            result.keys.append(key)
