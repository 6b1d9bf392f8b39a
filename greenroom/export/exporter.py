"""Exports sessions with their subagents, and imports exported ones, in a thread."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, TypeAlias

import msgspec
import trio

from greenroom.core import SessionError
from greenroom.core._internal import new_id
from greenroom.export.content import IMPORTED_FROM, SessionContent
from greenroom.export.html import to_html
from greenroom.export.json_document import from_json, to_json
from greenroom.export.markdown import to_markdown
from greenroom.session import AgentSession, SessionStore

ExportFormat: TypeAlias = Literal["markdown", "html", "json"]
"""How a session can be written: for a reader, for a browser, or to be imported again."""

_WRITERS: dict[ExportFormat, Callable[[SessionContent], Iterator[str]]] = {
    "markdown": to_markdown,
    "html": to_html,
    "json": to_json,
}
_DEEPEST = 8  # subagents of subagents; beyond these, no page could be read
_MOST = 1_000  # sessions in a page

_log = logging.getLogger("greenroom.session")


async def export_session(
    session: AgentSession,
    write: Callable[[str], object],
    format: ExportFormat = "markdown",  # noqa: A002 - what the command calls it
) -> None:
    r"""Write a session out as Markdown, as an HTML page or as JSON, piece by piece.

    Pages include the subagents' sessions that the session's store has, at most 1,000 of them and 8
    levels down, and name those that are left out. JSON holds one session only. The session may go
    on meanwhile: its content at the time of the call is written.

    Args:
        session: the session, stored or not.
        write: takes the pieces, such as the `write` of an open file. It is called in a thread, and
            may block.
        format: "markdown", "html" or "json".

    Raises:
        ValueError: the format is not known.
        OSError: whatever `write` raises.

    Example:
        >>> import io
        >>> from greenroom import Message
        >>> async def main() -> str:
        ...     session = AgentSession.new("coder")
        ...     session.add_message(Message.user("hello"))
        ...     await export_session(session, (page := io.StringIO()).write)
        ...     return page.getvalue()
        >>> trio.run(main)[-17:]
        '## User\n\n> hello\n'
    """
    if format not in _WRITERS:
        raise ValueError(f"{format!r} is not a format; use one of {tuple(_WRITERS)}")
    depth = 0 if format == "json" else _DEEPEST
    content = await _content(session, depth, {session.session_id})
    await trio.to_thread.run_sync(_write, _WRITERS[format](content), write)


async def _content(session: AgentSession, depth: int, seen: set[str]) -> SessionContent:
    """Gather a session and those that it started and that say the same, each once."""
    record, messages = session.description.record, session.history
    subagents = []
    for id_ in record.child_session_ids if depth and session.store else ():
        if id_ not in seen and len(seen) < _MOST:
            seen.add(id_)
            try:
                child = await AgentSession.load(id_, store=session.store)
            except SessionError as error:
                _log.warning("session %s is left out of the export: %s", id_, error)
                continue
            # An imported text may name any session, and would have it carried away with this one.
            if child.parent_session_id == record.session_id:
                subagents.append(await _content(child, depth - 1, seen))
    return SessionContent(record, messages, tuple(subagents))


def _write(pieces: Iterator[str], write: Callable[[str], object]) -> None:
    for piece in pieces:
        trio.from_thread.check_cancelled()
        write(piece)


async def import_session(
    data: bytes | str, *, keep_id: bool = False, store: SessionStore | None = None
) -> AgentSession:
    """Make and save a session from a text that `export_session` wrote as JSON.

    It has the same messages and description, but a new id; its metadata `imported_from` names its
    origin, and it is no longer archived. It is stored whole or not at all. A call without a result
    when it was exported is answered as interrupted, its outcome unknown.

    Args:
        data: the text; whatever its layout.
        keep_id: give it the id that it had, which must be free in the store.
        store: where to keep it; by default as for every session.

    Raises:
        InvalidJSONError: it is not JSON, not a session, or longer than 1 GiB; the message names the
            line or the field.
        SessionExistsError: the id was to be kept, and is taken.
        SessionError: it is of a newer version.
        SessionStorageError: the disk refused.
    """
    read = partial(_read_session, data, keep_id=keep_id, store=store)
    session = await trio.to_thread.run_sync(read)
    await session.save()
    return session


def _read_session(data: bytes | str, *, keep_id: bool, store: SessionStore | None) -> AgentSession:
    """Build the session, in a thread: a long one takes a while."""
    content = from_json(data)
    known = content.metadata
    # An import is made to be seen, whatever the lists left out where it comes from.
    own = {key: value for key, value in known.metadata.items() if key != "archived"}
    record = msgspec.structs.replace(
        known,
        session_id=known.session_id if keep_id else new_id("s"),
        metadata={**own, IMPORTED_FROM: {"session_id": known.session_id}},
    )
    session = AgentSession(record, store)
    session.conversation.copy_messages(content.messages)
    return session
