"""`greenroom sessions copy`: sessions from one store to another."""

from pathlib import Path

from greenroom.cli.command_options import SessionsOptions
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import find_session_id, open_place
from greenroom.core import SessionError
from greenroom.core._internal import serde
from greenroom.session import AgentSession, SessionStore


async def copy_sessions(options: SessionsOptions) -> int:
    """Copy all sessions, or those that are named, and compare; the exit code is 1 if one is not.

    What the target has already is left; so a copy that was interrupted is continued by the same
    command.

    Raises:
        ConfigurationError: a place can't be used.
        SessionError: one is unknown; nothing was copied.
        SessionStorageError: the source can't be read.
    """
    source, target = open_place(options.source), _open_target(options.target)
    survey = await source.survey()
    ids = [each.session_id for each in reversed(survey.sessions)]
    if options.ids:
        ids = list(dict.fromkeys([await find_session_id(each, source) for each in options.ids]))
    failed = list(survey.damaged) if not options.ids else []
    for error in failed:
        tell(str(error))
    if not ids and not failed:
        tell(f"there are no sessions in {options.source}")
    found: dict[str, list[str]] = {"copied": [], "there": []}
    out = OutputWriter()
    for session_id in ids:
        try:
            outcome = await AgentSession.copy(session_id, source, target)
        except SessionError as error:
            failed.append(error)
            tell(str(error))
            continue
        found[outcome].append(session_id)
        if not options.json:
            word = "copied" if outcome == "copied" else "is there already:"
            await out.text(f"{word} {session_id}")
    if options.json:
        errors = [{"session_id": each.session_id, "error": each.message} for each in failed]
        await out.line(serde.encode({**found, "failed": errors}))
    return 1 if failed else 0


def _open_target(place: str) -> SessionStore:
    """Return the store at a place, which may be the file of a database that is to be made."""
    if place.endswith((".db", ".sqlite")) and not Path(place).is_dir():
        from greenroom.session import SQLiteStore

        return SQLiteStore(place)
    return open_place(place)
