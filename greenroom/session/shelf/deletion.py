"""Deleting a session, alone or with those that it started."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from greenroom.core import SessionNotFoundError
from greenroom.session.metadata import SessionMetadata
from greenroom.session.shelf.held import held
from greenroom.session.store import SessionStore


async def delete_session(session_id: str, store: SessionStore, *, children: bool) -> None:
    """Delete a session; its subagents' sessions first, if they are to go as well.

    Raises:
        SessionError: one is unknown, or being written, or the disk refused.
    """
    below = descendants(session_id, await store.list_all()) if children else {}
    await _delete(session_id, store, below)


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


async def _delete(session_id: str, store: SessionStore, below: Mapping[str, Sequence[str]]) -> None:
    """Delete what is below a session while it is held, so that none of them is left without it."""
    async with held(session_id, store) as writer:
        for child in below.get(session_id, ()):
            with suppress(SessionNotFoundError):  # somebody else was faster
                await _delete(child, store, below)
        await writer.delete()
