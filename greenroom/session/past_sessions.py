"""Working with stored sessions: reading parts of them, archiving, deleting, searching.

These functions take session ids, or a session whose whole past is to be read. They read one history
at a time, and drop it before the next.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import NamedTuple, Self

import msgspec
import trio

from greenroom.core import (
    ContentBlock,
    Message,
    SessionError,
    SessionNotFoundError,
    TextBlock,
    ToolUseBlock,
    Usage,
)
from greenroom.core._internal import check_session_id
from greenroom.session.branches import Branch, find_branches
from greenroom.session.description import SessionMetadata
from greenroom.session.entries import CompactionEntry, CopiedEntry, MessageEntry, UsageEntry
from greenroom.session.file_store import default_store
from greenroom.session.history import START, Page
from greenroom.session.store import (
    SessionStore,
    SessionWriter,
    StoredSession,
    release_after,
    run_in_thread,
)
from greenroom.session.store_errors import unknown_error


async def read_last(session_id: str, limit: int, *, store: SessionStore | None = None) -> Page:
    """Read the last `limit` messages of a session, without reading what precedes them.

    They are the end of the `history` that `AgentSession.load` returns, as stored: a call without a
    result stays one. Nothing is locked or repaired. What is read is verified; damage before it
    goes unnoticed.

    Raises:
        ValueError: `limit` is less than 1.
        SessionNotFoundError: the store holds no such session.
        SessionCorruptError: it is damaged there, before its last line.
        SessionStorageError: it can't be read.
    """
    store = store or default_store()
    found = await store.read_last(check_session_id(session_id), limit)
    if found.metadata is None:
        raise unknown_error(session_id, store)
    return found.page


class PaidCall(NamedTuple):
    """A model call that a session has paid for: when, which model, and what it used."""

    at: datetime
    model: str
    usage: Usage


async def read_paid_calls(
    session_id: str, *, store: SessionStore | None = None
) -> tuple[PaidCall, ...]:
    """Read the model calls that a session has paid for, also those that it left behind.

    What was copied from another session was paid there. A call whose reply was thrown away has the
    time of the message before it.

    Raises:
        SessionNotFoundError: the store holds no such session.
        SessionCorruptError: it is damaged before its end.
        SessionStorageError: it can't be read.
    """
    store = store or default_store()
    stored = await store.read(check_session_id(session_id))
    if stored.metadata is None:
        raise unknown_error(session_id, store)
    found: list[PaidCall] = []
    at = stored.metadata.created_at
    for entry in stored.history.entries:
        match entry:
            case MessageEntry(message=message) | CompactionEntry(summary=message):
                at = message.created_at or at
                if message.usage is not None:
                    found.append(PaidCall(at, message.model, message.usage))
            case UsageEntry(usage=usage, model=model):
                found.append(PaidCall(at, model, usage))
            case CopiedEntry():
                found.clear()
            case _:
                pass
    return tuple(found)


async def archive_session(session_id: str, store: SessionStore, *, archived: bool) -> None:
    """Hide a session from lists, or show it again; what `AgentSession.archive` does."""
    async with _hold(session_id, store) as writer:
        metadata = (await writer.read(START)).metadata
        if metadata is None:
            raise unknown_error(session_id, store)
        if metadata.is_archived == archived:
            return
        values = {key: value for key, value in metadata.metadata.items() if key != "archived"}
        if archived:
            values["archived"] = True
        await writer.write_metadata(msgspec.structs.replace(metadata, metadata=values))


async def delete_session(
    session_id: str, store: SessionStore, *, children: bool, older_than: datetime | None
) -> None:
    """Remove a session, and those below it if asked to; what `AgentSession.delete` does."""
    below = descendants(session_id, await store.list_all()) if children else {}
    await _delete(session_id, store, below, older_than)


async def _delete(
    session_id: str,
    store: SessionStore,
    below: Mapping[str, Sequence[str]],
    older_than: datetime | None,
) -> None:
    """Delete the sessions below one while its lock is held, then the session itself."""
    async with _hold(session_id, store) as writer:
        if older_than is not None:  # looked at under the lock
            metadata = (await store.read_last(session_id, 1)).metadata
            if metadata is None or metadata.updated_at >= older_than:
                raise SessionError(
                    f"session {session_id!r} was changed meanwhile, and is kept",
                    session_id=session_id,
                )
        for child in below.get(session_id, ()):
            with suppress(SessionNotFoundError):  # another delete was faster
                await _delete(child, store, below, older_than)
        await writer.delete()


@asynccontextmanager
async def _hold(session_id: str, store: SessionStore) -> AsyncIterator[SessionWriter]:
    """Lock an existing session for this block, without loading its conversation.

    Raises:
        SessionNotFoundError: the store holds no such session.
        SessionLockedError: it is being written.
        SessionStorageError: the disk refused.
    """
    if not await store.exists(check_session_id(session_id)):
        raise unknown_error(session_id, store)
    async with release_after(await store.acquire(session_id)) as writer:
        if not await store.exists(session_id):  # it was deleted just now
            raise unknown_error(session_id, store)
        yield writer


def descendants(
    session_id: str, sessions: Sequence[SessionMetadata]
) -> Mapping[str, Sequence[str]]:
    """Return the sessions below one, as the children of each session that has any.

    Each is named once, whatever the descriptions claim.
    """
    children: dict[str, list[str]] = {}
    for each in sessions:
        if each.parent_session_id is not None:
            children.setdefault(each.parent_session_id, []).append(each.session_id)
    found: dict[str, Sequence[str]] = {}
    seen, waiting = {session_id}, [session_id]
    while waiting:
        parent = waiting.pop()
        if below := [child for child in children.get(parent, ()) if child not in seen]:
            found[parent] = below
            seen.update(below)
            waiting += below
    return found


async def search_sessions(
    query: str, store: SessionStore, limit: int, *, archived: bool
) -> "SearchReport":
    """Find the sessions with a text; what `AgentSession.search` does."""
    listed = [each for each in await store.list_all() if archived or not each.is_archived]
    search, hits = SessionSearch(query, listed, store), list[SearchHit]()
    while len(hits) < limit and (hit := await anext(search, None)) is not None:
        hits.append(hit)
    return SearchReport(tuple(hits), search.searched, tuple(search.damaged))


class SearchHit(msgspec.Struct, frozen=True):
    """A session in which a text was found.

    Attributes:
        session: the session's description.
        at: the place in its history of the first message with the text; None if only the title has
            it.
        branch: None if that is the current conversation. A text from before a compaction is found
            too: then this is the number of the branch to whose history `at` refers.
        snippet: the text with some words around it, in one line; control characters are as stored.
        count: how many of its messages contain the text.
    """

    session: SessionMetadata
    at: int | None
    branch: int | None
    snippet: str
    count: int


class SearchReport(msgspec.Struct, frozen=True):
    """The result of a search.

    Attributes:
        hits: the sessions that contain the text, the last changed first.
        searched: how many sessions were searched; those after the last requested hit were not.
        damaged: why some of these could not be read; only their titles were searched.
    """

    hits: tuple[SearchHit, ...]
    searched: int
    damaged: tuple[SessionError, ...]


class SessionSearch:
    """An iterator over the sessions that contain a text; holds one history in memory at a time.

    It searches titles, messages and the inputs of tool calls, ignoring case. It does not search
    thinking, rewound messages, or tool results, most of which are other people's files.

    It may be cancelled between two histories, and continues from there when it is asked again.
    """

    def __init__(self, text: str, sessions: Iterable[SessionMetadata], store: SessionStore) -> None:
        """Prepare to search these sessions of a store; nothing is read yet.

        Raises:
            ValueError: the text is empty.
        """
        self._text = SearchText(text)
        self._sessions = iter(sessions)
        self._current: SessionMetadata | None = None  # until it has been searched
        self._store = store
        self.searched = 0
        self.damaged: list[SessionError] = []

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SearchHit:
        while session := self._current or next(self._sessions, None):
            self._current = session
            hit = await self._search(session)
            self._current = None
            self.searched += 1
            if hit is not None:
                return hit
        await trio.lowlevel.checkpoint()
        raise StopAsyncIteration

    async def _search(self, session: SessionMetadata) -> SearchHit | None:
        title = session.metadata.get("title")
        named = self._text.snippet(title) if isinstance(title, str) else None
        try:
            stored = await self._store.read(session.session_id)
        except SessionError as error:
            self.damaged.append(error)
            return SearchHit(session, None, None, named, 0) if named is not None else None
        if stored.metadata is None:  # deleted since it was listed
            return None
        return await run_in_thread(self._store, lambda: self._match(session, named, stored))

    def _match(
        self, session: SessionMetadata, named: str | None, stored: StoredSession
    ) -> SearchHit | None:
        """Search what was read, which takes long if the history is."""
        first: tuple[int, int | None, str] | None = None
        count = 0
        for branch, place, message in _searched_messages(find_branches(stored.history.entries)[-1]):
            found = self._find_snippet(message)
            if found is not None:
                count += 1
                first = first or (place, None if branch.is_current else branch.number, found)
        if first is not None:
            return SearchHit(session, *first, count)
        return None if named is None else SearchHit(session, None, None, named, 0)

    def _find_snippet(self, message: Message) -> str | None:
        for block in message.content:
            for text in _searched_texts(block):
                if (snippet := self._text.snippet(text)) is not None:
                    return snippet
        return None


def _searched_messages(current: Branch) -> Iterator[tuple[Branch, int, Message]]:
    """Yield the messages of a conversation, then those that compactions and rewrites replaced."""
    for place, message in enumerate(current.history):
        yield current, place, message
    branch: Branch | None = current
    while branch is not None:
        parent = branch.parent
        if parent is not None and branch.begun_by != "rewind":
            for place, message in enumerate(parent.history[: branch.begins_at - branch.kept]):
                yield parent, place, message
        branch = parent


def _searched_texts(block: ContentBlock) -> Iterator[str]:
    """Yield the texts of a block that a person would search: its text, or a tool's input."""
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


_AROUND = 40  # characters of a snippet on either side of the text


class SearchText:
    """A text to search for, ignoring case.

    Example:
        >>> SearchText("straße").snippet("In der STRASSE brennt Licht.")
        'In der STRASSE brennt Licht.'
        >>> SearchText("straße").snippet("In der Gasse brennt Licht.") is None
        True
    """

    def __init__(self, text: str) -> None:
        """Prepare to search for this text.

        Raises:
            ValueError: it is empty.
        """
        if not text.strip():
            raise ValueError("the text to search for is empty")
        self._folded = text.casefold()

    def snippet(self, text: str) -> str | None:
        """Return the first occurrence with the words around it, in one line, or None."""
        folded = text.casefold()
        found = folded.find(self._folded)
        if found < 0:
            return None
        start, stop = found, found + len(self._folded)
        if len(folded) != len(text):  # some letters fold to several
            start, stop = _unfold(text, start, stop)
        before = text[max(start - _AROUND, 0) : start]
        after = text[stop : stop + _AROUND]
        head = "…" if start > _AROUND else ""
        tail = "…" if stop + _AROUND < len(text) else ""
        return head + " ".join(f"{before}{text[start:stop]}{after}".split()) + tail


def _unfold(text: str, start: int, stop: int) -> tuple[int, int]:
    """Map a range of a text's case-folded form back to the text."""
    begin, at = 0, 0
    for place, letter in enumerate(text):
        if at <= start:
            begin = place
        if at >= stop:
            return begin, place
        at += len(letter.casefold())
    return begin, len(text)
