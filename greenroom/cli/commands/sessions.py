"""`greenroom sessions list` and `greenroom sessions show ID`."""

from typing import TYPE_CHECKING

from greenroom.cli.conversation import load_session
from greenroom.cli.output_writer import OutputWriter
from greenroom.cli.recap import recap_text
from greenroom.cli.run_setup import open_store
from greenroom.core import clock, serde
from greenroom.session import AgentSession, SessionMetadata

if TYPE_CHECKING:
    from greenroom.cli.arguments import Options

__all__ = ["list_sessions", "show_session"]


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
