"""`greenroom sessions list`, `greenroom sessions show ID` and `greenroom sessions repair ID`."""

from typing import TYPE_CHECKING

from greenroom.cli.conversation import load_session
from greenroom.cli.output_writer import OutputWriter
from greenroom.cli.recap import recap_text
from greenroom.cli.run_setup import open_store
from greenroom.core import clock, serde
from greenroom.session import AgentSession, SessionMetadata

if TYPE_CHECKING:
    from greenroom.cli.arguments import Options

__all__ = ["list_sessions", "repair_session", "show_session"]


async def list_sessions(options: "Options") -> int:
    """Print the stored sessions, the last changed first.

    Raises:
        SessionStorageError: the store can't be read.
    """
    found = await AgentSession.list_all(store=open_store(options))
    out = OutputWriter()
    if options.json:
        await out.line(b"[" + b",".join(serde.encode(each) for each in found) + b"]")
        return 0
    if not found:
        await out.text("There are no sessions yet.")
    for each in found:
        await out.text(_row(each))
    return 0


def _row(session: SessionMetadata) -> str:
    child = "  (subagent)" if session.parent_session_id else ""
    model = f"{session.provider}:{session.model}" if session.provider else "-"
    place = session.metadata.get("workspace", "-")
    title = session.metadata.get("title")
    said = f"  “{title}”" if title else ""
    changed = clock.timestamp(session.updated_at)
    return f"{session.session_id}{said}  {changed}  {session.agent_type}  {model}  {place}{child}"


async def show_session(options: "Options") -> int:
    """Print a session's conversation.

    Raises:
        SessionError: the session is unknown or can't be read.
    """
    session = await load_session(options.session_id, open_store(options))
    out = OutputWriter()
    if options.json:
        messages = b",".join(serde.encode(message) for message in session.history)
        head = serde.dumps({"session_id": session.session_id, "agent_type": session.agent_type})
        await out.line(head[:-1] + b',"messages":[' + messages + b"]}")
        return 0
    await out.text(recap_text(session.history))
    return 0


async def repair_session(options: "Options") -> int:
    """Keep what precedes the damage in a session, set the rest aside, and say what that was.

    Raises:
        SessionError: the session is unknown, is being written, or can't be repaired.
    """
    store = open_store(options)
    report = await store.salvage(options.session_id)
    session = await load_session(options.session_id, store)
    out = OutputWriter()
    if options.json:
        found = {"messages": len(session.history), "repair": report}
        await out.line(serde.encode({"session_id": session.session_id, **found}))
        return 0
    said = "Nothing is damaged." if report is None else f"{report}."
    await out.text(f"{said} The session has {len(session.history)} messages.")
    return 0
