"""Copies of sessions from one store to another, of any kind."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

from greenroom.core import SessionError, SessionStorageError
from greenroom.session.entries import Entry, FormatEntry, encode_pending, split_lines
from greenroom.session.errors import SessionExistsError
from greenroom.session.history import START, History, Position, encode_line
from greenroom.session.store import (
    SessionStore,
    SessionWriter,
    StoredSession,
    release_after,
    run_in_thread,
)
from greenroom.session.store_errors import unknown_error


@runtime_checkable
class DatesSessions(Protocol):
    """A writer that can say when its session was last changed, as copies need it."""

    async def set_changed(self, moment: datetime) -> None:
        """Set when the history was changed."""


async def copy_session(
    session_id: str, source: SessionStore, target: SessionStore
) -> Literal["copied", "there"]:
    """Copy a session with its files, and read the copy back; what `AgentSession.copy` does."""
    original = await source.read(session_id)
    if original.metadata is None:
        raise unknown_error(session_id, source)
    entries = _contents(original.history)
    there = await target.read(session_id)
    if there.metadata is not None and _is_part(entries, _contents(there.history)):
        return "there"
    async with release_after(await target.acquire(session_id)) as writer:
        await _complete(writer, original, target)
        await _copy_files(session_id, source, target)
        if isinstance(writer, DatesSessions):
            await writer.set_changed(original.metadata.updated_at)
        await writer.write_metadata(original.metadata)  # from now on it exists
        await _compare(writer, original, target)
    return "copied"


async def _complete(writer: SessionWriter, original: StoredSession, target: SessionStore) -> None:
    """Write what the copy lacks of the history."""
    entries = _contents(original.history)
    begun = await writer.read(START)
    known, at = _contents(begun.history), begun.history.end.as_synced()
    if not _is_part(known, entries):
        if begun.metadata is not None:
            raise _differs_error(begun, target)
        known, at = [], START  # left behind by somebody else, and never stored as a session
    if begun.history.torn or at.size < begun.history.end.size:
        await writer.set_aside(at)
    rest, version = entries[len(known) :], _version(original.history)
    if not rest:
        return
    encoded = await run_in_thread(target, lambda: encode_pending(rest))
    for piece in split_lines(encoded):
        at = await _append(writer, piece, at, version)


async def _append(
    writer: SessionWriter, entries: Sequence[bytes], at: Position, version: int
) -> Position:
    first = encode_pending([FormatEntry(version)]) if version > 1 or at.lines == 0 else []
    line = encode_line([*first, *entries], at)
    await writer.append(line, at)
    return at.after(line).as_synced()


async def _copy_files(session_id: str, source: SessionStore, target: SessionStore) -> None:
    for file in await source.list_files(session_id):
        data = (await source.open_file(session_id, file.name)).getvalue()
        await target.put_file(session_id, file.name, data)
        if (await target.open_file(session_id, file.name)).getvalue() != data:
            raise _unlike_error(session_id, target)


async def _compare(writer: SessionWriter, original: StoredSession, target: SessionStore) -> None:
    """Read the copy, and compare all of it.

    Raises:
        SessionStorageError: it differs.
    """
    copy = await writer.read(START)
    metadata = original.metadata
    is_same = metadata is not None and not metadata.differs(copy.metadata)
    if not is_same or _contents(copy.history) != _contents(original.history):
        raise _unlike_error(metadata.session_id if metadata else "", target)


def _contents(history: History) -> list[Entry]:
    """Return what is in the lines, however it is divided into lines."""
    return [each for each in history.entries if not isinstance(each, FormatEntry)]


def _version(history: History) -> int:
    found = [each.version for each in history.entries if isinstance(each, FormatEntry)]
    return max(found, default=1)


def _is_part(some: Sequence[Entry], all_entries: Sequence[Entry]) -> bool:
    return list(all_entries[: len(some)]) == list(some)


def _differs_error(begun: StoredSession, target: SessionStore) -> SessionError:
    session_id = begun.metadata.session_id if begun.metadata else ""
    return SessionExistsError(
        f"{target!r} has another session {session_id!r}",
        session_id=session_id,
        hint="nothing was changed; remove that session, or copy to another store",
    )


def _unlike_error(session_id: str, target: SessionStore) -> SessionError:
    return SessionStorageError(
        f"the copy of session {session_id!r} in {target!r} does not read as the original",
        session_id=session_id,
        hint="copy it again; if that fails too, check the target's disk",
    )
