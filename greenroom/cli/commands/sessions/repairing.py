"""`greenroom sessions repair`: what is to be done with a session that is damaged."""

from typing import TYPE_CHECKING

from greenroom.cli.commands.sessions.row import counted
from greenroom.cli.run.conversation import full_session_id, load_session
from greenroom.cli.run.store import open_store
from greenroom.cli.streams.output_writer import OutputWriter
from greenroom.core import SessionNotFoundError, serde

if TYPE_CHECKING:
    from greenroom.cli.commands.sessions.arguments import SessionsOptions
    from greenroom.session import FileStore, SQLiteStore


async def repair_session(options: "SessionsOptions") -> int:
    """Keep of a damaged session what can be verified, set the rest aside, and say what that was.

    Raises:
        SessionError: the session is unknown, is being written, or can't be repaired.
    """
    store = open_store(options)
    session_id = await _find(options.session_id, store)
    report = await store.salvage(session_id)
    session = await load_session(session_id, store)
    out, count = OutputWriter(), len(session.history)
    if options.json:
        found = {"messages": count, "repair": report}
        await out.line(serde.encode({"session_id": session.session_id, **found}))
        return 0
    said = "Nothing is damaged." if report is None else f"{report}."
    await out.text(f"{said} The session has {counted(count, 'message')}.")
    if report is not None and report.kept:
        await out.text(
            f"`greenroom sessions show {session_id}` shows where some are missing; "
            f"`greenroom sessions fork {session_id} --at N` begins anew with the first N."
        )
    return 0


async def _find(text: str, store: "FileStore | SQLiteStore") -> str:
    """Return the id that is meant, also of a session that no list can show.

    Raises:
        SessionError: no session, or more than one, begins like this.
    """
    damaged = [each.session_id for each in (await store.survey()).damaged]
    if text in damaged:
        return text
    found = [each for each in damaged if each.startswith(text)]
    try:
        return await full_session_id(text, store)
    except SessionNotFoundError:
        if len(found) != 1:
            raise
        return found[0]
