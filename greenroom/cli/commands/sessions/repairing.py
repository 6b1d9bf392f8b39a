"""`greenroom sessions repair`: what is to be done with a session that is damaged."""

from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.row import counted
from greenroom.cli.run.conversation import full_session_id, load_session
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import OutputWriter
from greenroom.core import serde

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions

__all__ = ["repair_session"]


async def repair_session(options: "SessionsOptions") -> int:
    """Keep what precedes the damage in a session, set the rest aside, and say what that was.

    Raises:
        SessionError: the session is unknown, is being written, or can't be repaired.
    """
    store = open_store(options)
    session_id = await full_session_id(options.session_id, store)
    report = await store.salvage(session_id)
    session = await load_session(session_id, store)
    out = OutputWriter()
    if options.json:
        found = {"messages": len(session.history), "repair": report}
        await out.line(serde.encode({"session_id": session.session_id, **found}))
        return 0
    said = "Nothing is damaged." if report is None else f"{report}."
    await out.text(f"{said} The session has {counted(len(session.history), 'message')}.")
    return 0
