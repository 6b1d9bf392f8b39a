"""Searching what was said in stored sessions, one history at a time."""

from collections.abc import Callable, Iterable, Iterator
from typing import Self, TypeVar

import msgspec
import trio

from greenroom.core import ContentBlock, Message, SessionError, TextBlock, ToolUseBlock
from greenroom.session.history.branches import Branch, branches
from greenroom.session.metadata import SessionMetadata
from greenroom.session.shelf.archive import listable
from greenroom.session.shelf.snippet import Pattern
from greenroom.session.store import SessionStore, StoredSession, ThreadedStore

T = TypeVar("T")


class SearchHit(msgspec.Struct, frozen=True):
    """A session in which a text was found.

    Attributes:
        session: the session's description.
        at: the place in its history of the first message that holds the text; None where only the
            title does.
        branch: None where that is the conversation in hand. What only stands before a compaction is
            found too: then it is the number of the branch to whose history `at` belongs.
        snippet: the text with some words around it, in one line; control characters are as they
            were stored.
        count: how many of its messages hold the text.
    """

    session: SessionMetadata
    at: int | None
    branch: int | None
    snippet: str
    count: int


class SearchReport(msgspec.Struct, frozen=True):
    """What a search has found.

    Attributes:
        hits: the sessions that hold the text, the last changed first.
        searched: how many sessions were looked at; those behind the last hit that was asked for
            were not.
        damaged: why some of these could not be read; of those the titles alone were looked at.
    """

    hits: tuple[SearchHit, ...]
    searched: int
    damaged: tuple[SessionError, ...]


class SessionSearch:
    """Looks for a text in sessions as they are asked for, one history in memory at a time.

    It is looked for in titles, in what was said, and in what tools were called with, whatever the
    case of its letters; not in tools' results, which are other people's files for the most part, nor
    in thinking. What was rewound is not looked at.

    It may be cancelled between two histories, and goes on from there when it is asked again.
    """

    def __init__(self, text: str, sessions: Iterable[SessionMetadata], store: SessionStore) -> None:
        """Look for this text in these sessions of a store; nothing is read yet.

        Raises:
            ValueError: the text is empty.
        """
        self._pattern = Pattern(text)
        self._sessions = iter(sessions)
        self._current: SessionMetadata | None = None  # until it has been looked at
        self._store = store
        self.searched = 0
        self.damaged: list[SessionError] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SearchHit:
        while session := self._current or next(self._sessions, None):
            self._current = session
            hit = await self._look(session)
            self._current = None
            self.searched += 1
            if hit is not None:
                return hit
        await trio.lowlevel.checkpoint()
        raise StopAsyncIteration

    async def _look(self, session: SessionMetadata) -> SearchHit | None:
        title = session.metadata.get("title")
        named = self._pattern.snippet(title) if isinstance(title, str) else None
        try:
            stored = await self._store.read(session.session_id)
        except SessionError as error:
            self.damaged.append(error)
            return SearchHit(session, None, None, named, 0) if named is not None else None
        if stored.metadata is None:  # deleted since it was listed
            return None
        return await self._in_thread(lambda: self._matched(session, named, stored))

    def _matched(
        self, session: SessionMetadata, named: str | None, stored: StoredSession
    ) -> SearchHit | None:
        """Look through what was read; this takes long where the history is."""
        first: tuple[int, int | None, str] | None = None
        count = 0
        for branch, place, message in _said(branches(stored.history.entries)[-1]):
            found = self._found(message)
            if found is not None:
                count += 1
                first = first or (place, None if branch.is_current else branch.number, found)
        if first is not None:
            return SearchHit(session, *first, count)
        return None if named is None else SearchHit(session, None, None, named, 0)

    def _found(self, message: Message) -> str | None:
        return next(
            (
                snippet
                for block in message.content
                for text in _texts(block)
                if (snippet := self._pattern.snippet(text)) is not None
            ),
            None,
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if isinstance(self._store, ThreadedStore):
            return await self._store.in_thread(work)
        await trio.lowlevel.checkpoint()
        return work()


async def search_sessions(
    text: str, store: SessionStore, *, limit: int, archived: bool
) -> SearchReport:
    """Look for a text in all sessions of a store, until so many are found.

    Raises:
        ValueError: the text is empty.
        SessionStorageError: the store can't be read.
    """
    listed = listable(await store.list_all(), archived=archived)
    search, hits = SessionSearch(text, listed, store), list[SearchHit]()
    while len(hits) < limit and (hit := await anext(search, None)) is not None:
        hits.append(hit)
    return SearchReport(tuple(hits), search.searched, tuple(search.damaged))


def _said(current: Branch) -> Iterator[tuple[Branch, int, Message]]:
    """Yield the messages of a conversation, then those that compactions and rewrites have left out."""
    for place, message in enumerate(current.history):
        yield current, place, message
    branch: Branch | None = current
    while branch is not None:
        parent = branch.parent
        if parent is not None and branch.begun_by != "rewind":
            for place, message in enumerate(parent.history[: branch.begins_at - branch.kept]):
                yield parent, place, message
        branch = parent


def _texts(block: ContentBlock) -> Iterator[str]:
    """Yield what a person would look for in a block: what was said, or what a tool was given."""
    if isinstance(block, TextBlock):
        yield block.text
    elif isinstance(block, ToolUseBlock):
        yield block.raw_input
        waiting: list[object] = [block.input]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, dict):
                waiting += reversed(value.values())
            elif isinstance(value, list):
                waiting += reversed(value)
