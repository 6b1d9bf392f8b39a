"""What is done with sessions as they are stored: read in part, archived, deleted, searched.

These functions take ids, or a session of which all that was ever said is to be read. Histories are
read one at a time, and what was read of one is dropped before the next.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Self, TypeVar

import msgspec
import trio

from greenroom.core import (
    ContentBlock,
    Message,
    PermissionRecord,
    SessionError,
    SessionNotFoundError,
    TextBlock,
    ToolUseBlock,
    Used,
    check_session_id,
)
from greenroom.session.agent_session import AgentSession
from greenroom.session.branches import Branch, find_branches
from greenroom.session.description import SessionMetadata
from greenroom.session.entries import decode_decisions
from greenroom.session.file_store import default_store
from greenroom.session.history import START, Page
from greenroom.session.store import (
    SessionStore,
    SessionWriter,
    StoredSession,
    ThreadedStore,
    unknown_error,
)

T = TypeVar("T")


async def read_last(session_id: str, count: int, *, store: SessionStore | None = None) -> Page:
    """Read the last `count` messages of a session, without reading what precedes them.

    They are the end of the `history` that `AgentSession.load` gives, as it is stored: a call
    without a result stays one. Nothing is locked or repaired. What is read is verified; damage in
    front of it is not noticed.

    Raises:
        ValueError: `count` is less than 1.
        SessionNotFoundError: the store holds no such session.
        SessionCorruptError: it is damaged there, but for its last line.
        SessionStorageError: it can't be read.
    """
    store = store or default_store()
    found = await store.read_last(check_session_id(session_id), count)
    if found.metadata is None:
        raise unknown_error(session_id, store)
    return found.page


async def read_branches(session: AgentSession) -> tuple[Branch, ...]:
    """Return all that was ever said: the conversation as it stands last, before it those that were left.

    Rewinds leave branches, and so do compactions and rewrites. They are read from the store, with
    what is unsaved after them; nothing of it stays in memory.

    Raises:
        SessionNotFoundError: the session was removed.
        SessionCorruptError: what is stored is damaged.
        SessionStorageError: it can't be read.
        SessionError: less is stored than there was.
    """
    return await session.journal.read_entries(find_branches)


async def read_decisions(session: AgentSession) -> tuple[PermissionRecord, ...]:
    """Return what was decided about this session's tool calls, in order; all that ever was.

    A rewind or a compaction takes none of it away. What subagents did is on record in their own
    sessions, and a fork begins with nothing: it has decided nothing yet. They are read from the
    store, with what is unsaved after them; nothing of it stays in memory.

    Raises:
        SessionNotFoundError: the session was removed.
        SessionCorruptError: what is stored is damaged.
        SessionStorageError: it can't be read.
        SessionError: less is stored than there was, or it is of a newer version.
    """
    return await session.journal.read_entries(decode_decisions)


async def read_tree_used(session: AgentSession) -> Used:
    """Return what it and all sessions below it have used on record, detached subagents' too.

    Their histories are read from its store; one that is not there, such as of a subagent that
    never said anything, counts nothing.

    Raises:
        SessionCorruptError: one of them is damaged.
        SessionStorageError: one of them can't be read.
    """
    used, below, seen = session.used, list(session.child_session_ids), {session.session_id}
    while below:
        id_ = below.pop()
        if id_ not in seen:
            seen.add(id_)
            with suppress(SessionNotFoundError):
                child = await AgentSession.load(id_, store=session.store)
                used += child.used
                below += child.child_session_ids
    return used


async def archive_session(session_id: str, *, store: SessionStore | None = None) -> None:
    """Put a session out of the lists and searches; it can be loaded and gone on with as before.

    Its description says so, in the key `archived` of its metadata; its time stays as it was.

    Raises:
        SessionNotFoundError: the store holds no such session.
        SessionLockedError: it is being written.
        SessionCorruptError: it is damaged before its end.
        SessionStorageError: the disk refused.
    """
    await _set_archived(session_id, store or default_store(), archived=True)


async def unarchive_session(session_id: str, *, store: SessionStore | None = None) -> None:
    """Let lists show a session again; raises what `archive_session` raises."""
    await _set_archived(session_id, store or default_store(), archived=False)


async def _set_archived(session_id: str, store: SessionStore, *, archived: bool) -> None:
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
    session_id: str, *, store: SessionStore | None = None, children: bool = False
) -> None:
    """Remove a session for good, with all that lies in its folder; durable when it returns.

    A crash in the middle leaves it whole or gone. With `children`, the sessions that it started
    go first, and theirs; where one of them is being written, those before it are gone and the
    session itself is not. Without, they stay. What was loaded before can't be saved any more.

    Raises:
        SessionNotFoundError: the store holds no such session.
        SessionLockedError: it is being written, here or in another process.
        SessionStorageError: the disk refused; the session is whole, or it is gone and the error
            names what of it is left.
    """
    store = store or default_store()
    below = descendants(session_id, await store.list_all()) if children else {}
    await _delete(session_id, store, below)


async def _delete(session_id: str, store: SessionStore, below: Mapping[str, Sequence[str]]) -> None:
    """Delete what is below a session while its lock is held, so that none of them is left without it."""
    async with _hold(session_id, store) as writer:
        for child in below.get(session_id, ()):
            with suppress(SessionNotFoundError):  # another delete was faster
                await _delete(child, store, below)
        await writer.delete()


@asynccontextmanager
async def _hold(session_id: str, store: SessionStore) -> AsyncIterator[SessionWriter]:
    """Be the writer of a session that exists, for this block, without its conversation in memory.

    Raises:
        SessionNotFoundError: the store holds no such session.
        SessionLockedError: it is being written.
        SessionStorageError: the disk refused.
    """
    if not await store.exists(check_session_id(session_id)):
        raise unknown_error(session_id, store)
    writer = await store.acquire(session_id)
    try:
        if not await store.exists(session_id):  # it was deleted this moment
            raise unknown_error(session_id, store)
        yield writer
    finally:
        with trio.CancelScope(shield=True):
            await writer.release()


def descendants(
    session_id: str, sessions: Sequence[SessionMetadata]
) -> Mapping[str, Sequence[str]]:
    """Return the sessions below one: the children of each that has some.

    Each is named once, whatever the descriptions say of each other.
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
    text: str, *, store: SessionStore | None = None, limit: int = 20, archived: bool = False
) -> "SearchReport":
    """Find the sessions in whose title, messages or tool calls a text stands, in any case.

    The last changed come first; at most `limit` of them are found. One history is read at a
    time. `SessionSearch` finds them one by one, and says what is looked at.

    Raises:
        ValueError: the text is empty.
        SessionStorageError: the store can't be read.
    """
    place = store or default_store()
    listed = await AgentSession.list_all(store=place, archived=archived)
    search, hits = SessionSearch(text, listed, place), list[SearchHit]()
    while len(hits) < limit and (hit := await anext(search, None)) is not None:
        hits.append(hit)
    return SearchReport(tuple(hits), search.searched, tuple(search.damaged))


class SearchHit(msgspec.Struct, frozen=True):
    """A session in which a text was found.

    Attributes:
        session: the session's description.
        at: the place in its history of the first message that holds the text; None where only the
            title does.
        branch: None where that is the conversation as it stands. What only stands before a
            compaction is found too: then it is the number of the branch to whose history `at`
            belongs.
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
    case of its letters; not in tools' results, which are other people's files for the most part,
    nor in thinking. What was rewound is not looked at.

    It may be cancelled between two histories, and goes on from there when it is asked again.
    """

    def __init__(self, text: str, sessions: Iterable[SessionMetadata], store: SessionStore) -> None:
        """Look for this text in these sessions of a store; nothing is read yet.

        Raises:
            ValueError: the text is empty.
        """
        self._text = SearchText(text)
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
        named = self._text.snippet(title) if isinstance(title, str) else None
        try:
            stored = await self._store.read(session.session_id)
        except SessionError as error:
            self.damaged.append(error)
            return SearchHit(session, None, None, named, 0) if named is not None else None
        if stored.metadata is None:  # deleted since it was listed
            return None
        return await self._in_thread(lambda: self._match(session, named, stored))

    def _match(
        self, session: SessionMetadata, named: str | None, stored: StoredSession
    ) -> SearchHit | None:
        """Look through what was read; this takes long where the history is."""
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
        return next(
            (
                snippet
                for block in message.content
                for text in _searched_texts(block)
                if (snippet := self._text.snippet(text)) is not None
            ),
            None,
        )

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if isinstance(self._store, ThreadedStore):
            return await self._store.in_thread(work)
        await trio.lowlevel.checkpoint()
        return work()


def _searched_messages(current: Branch) -> Iterator[tuple[Branch, int, Message]]:
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


def _searched_texts(block: ContentBlock) -> Iterator[str]:
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


_AROUND = 40  # letters of a snippet on either side of what was found


class SearchText:
    """A text to look for, whatever the case of its letters.

    Example:
        >>> SearchText("straße").snippet("In der STRASSE brennt Licht.")
        'In der STRASSE brennt Licht.'
        >>> SearchText("straße").snippet("In der Gasse brennt Licht.") is None
        True
    """

    def __init__(self, text: str) -> None:
        """Look for this text.

        Raises:
            ValueError: it is empty.
        """
        if not text.strip():
            raise ValueError("there is no text to look for")
        self._folded = text.casefold()

    def snippet(self, text: str) -> str | None:
        """Return the words around the first place where it stands, in one line; None if nowhere."""
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
    """Return where in a text the part begins and ends that has this place in its folded form."""
    begin, at = 0, 0
    for place, letter in enumerate(text):
        if at <= start:
            begin = place
        if at >= stop:
            return begin, place
        at += len(letter.casefold())
    return begin, len(text)
