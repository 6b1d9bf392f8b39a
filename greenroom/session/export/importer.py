"""Sessions read from exported texts."""

from functools import partial

import msgspec
import trio

from greenroom.core import new_id
from greenroom.session.export.content import IMPORTED_FROM, SessionContent
from greenroom.session.export.document import from_json
from greenroom.session.history.entry import MessageEntry
from greenroom.session.history.pairing import unanswered
from greenroom.session.metadata import SessionMetadata
from greenroom.session.session import AgentSession
from greenroom.session.store import SessionStore


async def import_session(
    data: bytes | str, *, keep_id: bool = False, store: SessionStore | None = None
) -> AgentSession:
    """Make and save a session from a text that `export_session` wrote as JSON.

    It has the same messages and the same description, but an id of its own; its metadata
    `imported_from` says where it came from, and it is no longer archived. It is stored as a whole or
    not at all. A call that had no result when it was exported is answered as interrupted, its outcome
    unknown.

    Args:
        data: the text; whatever its layout.
        keep_id: give it the id that it had, which must be free in the store.
        store: where to keep it; by default as for every session.

    Raises:
        InvalidJSONError: it is no JSON, no session, or longer than 1 GiB; the message names the
            line or the field.
        SessionExistsError: the id was to be kept, and is taken.
        SessionError: it is of a newer version.
        SessionStorageError: the disk refused.
    """
    session = await trio.to_thread.run_sync(partial(_session, data, keep_id=keep_id, store=store))
    await session.save()
    return session


def _session(data: bytes | str, *, keep_id: bool, store: SessionStore | None) -> AgentSession:
    """Build the session, in a thread: a long one takes a while."""
    content = from_json(data)
    session = AgentSession(_record(content, keep_id=keep_id), store)
    for message in content.messages:
        session._transcript.add(MessageEntry(message))  # as it is: it was not said just now
    # Whether they had started, the text does not say; that they had is the careful guess.
    session.mark_tools_started(unanswered(session.history))
    session.pair_tool_uses()
    session.mark_copied()
    return session


def _record(content: SessionContent, *, keep_id: bool) -> SessionMetadata:
    known = content.metadata
    origin = {"session_id": known.session_id}
    # An import is made to be seen, whatever the lists left out where it comes from.
    kept = {key: value for key, value in known.metadata.items() if key != "archived"}
    return msgspec.structs.replace(
        known,
        session_id=known.session_id if keep_id else new_id("s"),
        metadata={**kept, IMPORTED_FROM: origin},
    )
