"""Which verb does what."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from greenroom.cli.commands.sessions.arguments import SessionsOptions
from greenroom.cli.commands.sessions.branching import fork_session, rewind_session
from greenroom.cli.commands.sessions.exporting import export_to
from greenroom.cli.commands.sessions.importing import import_from
from greenroom.cli.commands.sessions.listing import list_sessions
from greenroom.cli.commands.sessions.removing import archive_sessions, remove_sessions
from greenroom.cli.commands.sessions.repairing import repair_session
from greenroom.cli.commands.sessions.searching import search_sessions
from greenroom.cli.commands.sessions.showing import show_session

_Verb: TypeAlias = Callable[[SessionsOptions], Awaitable[int]]

_VERBS: Mapping[str, _Verb] = {
    "sessions list": list_sessions,
    "sessions show": show_session,
    "sessions search": search_sessions,
    "sessions fork": fork_session,
    "sessions rewind": rewind_session,
    "sessions export": export_to,
    "sessions import": import_from,
    "sessions rm": remove_sessions,
    "sessions archive": archive_sessions,
    "sessions repair": repair_session,
}


async def run_verb(options: SessionsOptions) -> int:
    """Do what the user asked for; return the exit code.

    Raises:
        SessionError: a session or the store can't be used.
        OSError: standard output can't be written.
    """
    return await _VERBS[options.command](options)
