"""A cache of answers: a question asked again is answered without a search, until something changes.

An agent asks the same question often, such as in each of several subagents. An answer is dropped
when this connection or another process has written to the file, and after a minute, since scores
change with age. At the bound, the answer that was used least recently is dropped.
"""

import sqlite3
from collections import OrderedDict
from datetime import datetime, timedelta
from typing import TypeAlias

from greenroom.fs import sqlite
from greenroom.memory.ranking import RecallRequest, RecallResult, recall

_MOST = 128  # answers
_LONGEST = 64_000  # characters of an answer's texts and of its question; a longer one is not kept
_KEPT = timedelta(minutes=1)

_Question: TypeAlias = tuple[str, str, int, float, bool]


class RecallCache:
    """The last answers of one database. It is used only inside of the database's transactions."""

    def __init__(self) -> None:
        self._answers: OrderedDict[_Question, tuple[datetime, RecallResult]] = OrderedDict()
        self._version: tuple[int, int] | None = None

    def recall(self, connection: sqlite3.Connection, request: RecallRequest) -> RecallResult:
        """Answer a question from the cache, else search, as `ranking.recall` does."""
        version = connection.total_changes, sqlite.read_pragma(connection, "data_version")
        if version != self._version:
            self._answers.clear()
            self._version = version
        has_vector = bool(request.vector)
        question = (request.text, request.only.where, request.limit, request.threshold, has_vector)
        found = self._find(question, request)
        if found is None:
            found = recall(connection, request)
            self._keep(question, request, found)
        return found

    def _find(self, question: _Question, request: RecallRequest) -> RecallResult | None:
        made_at, found = self._answers.get(question, (None, None))
        if made_at is None or found is None or not timedelta(0) <= request.at - made_at < _KEPT:
            return None
        created = (each.entry.created_at.timestamp() for each in found.recalled)
        if min(created, default=request.only.since) < request.only.since:
            return None  # one of them has expired
        self._answers.move_to_end(question)
        return found

    def _keep(self, question: _Question, request: RecallRequest, found: RecallResult) -> None:
        length = len(request.text) + sum(len(each.entry.text) for each in found.recalled)
        has_problem = found.failure is not None or bool(found.damaged)
        lacks_vector = bool(request.embedder) and not request.vector
        if length > _LONGEST or has_problem or lacks_vector:
            return
        self._answers[question] = request.at, found
        while len(self._answers) > _MOST:
            self._answers.popitem(last=False)
