"""Putting a session out of the lists, and back."""

from collections.abc import Iterable

import msgspec

from greenroom.session.history.lines import START
from greenroom.session.holder import unknown_error
from greenroom.session.metadata import SessionMetadata
from greenroom.session.shelf.held import held
from greenroom.session.store import SessionStore


def listable(sessions: Iterable[SessionMetadata], *, archived: bool) -> list[SessionMetadata]:
    """Return the sessions that a list shows: those that are archived only where they are asked for."""
    return [each for each in sessions if archived or not each.is_archived]


async def set_archived(session_id: str, store: SessionStore, *, archived: bool) -> None:
    """Write into a session's description whether lists leave it out; its time stays as it was.

    Raises:
        SessionError: it is unknown, being written, damaged, or the disk refused.
    """
    async with held(session_id, store) as writer:
        metadata = (await writer.read(START)).metadata
        if metadata is None:
            raise unknown_error(session_id, store)
        if metadata.is_archived == archived:
            return
        values = {key: value for key, value in metadata.metadata.items() if key != "archived"}
        if archived:
            values["archived"] = True
        await writer.write_metadata(msgspec.structs.replace(metadata, metadata=values))
