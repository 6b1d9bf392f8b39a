"""Sessions written out, with their subagents, in a thread."""

import logging
from collections.abc import Callable, Iterator
from typing import Literal, TypeAlias

import trio

from greenroom.core import SessionError
from greenroom.session.export.content import SessionContent
from greenroom.session.export.document import to_json
from greenroom.session.export.html.page import to_html
from greenroom.session.export.markdown import to_markdown
from greenroom.session.session import AgentSession

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

    Pages hold the subagents' sessions as well, as far as the session's store has them, 1,000 at the
    most and 8 levels down; those that are left out are named. JSON is about one session. The session may go on meanwhile: what it holds at the call is
    written.

    Args:
        session: the session, stored or not.
        write: what takes the pieces, such as the `write` of an open file. It is called in a thread,
            and may block.
        format: "markdown", "html" or "json".

    Raises:
        ValueError: the format is none.
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
        raise ValueError(f"{format!r} is no format; use one of {tuple(_WRITERS)}")
    depth = 0 if format == "json" else _DEEPEST
    content = await _content(session, depth, {session.session_id})
    await trio.to_thread.run_sync(_write, _WRITERS[format](content), write)


async def _content(session: AgentSession, depth: int, seen: set[str]) -> SessionContent:
    """Gather a session and those that it started and that say the same, each once."""
    record, messages = session.record, session.history
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
