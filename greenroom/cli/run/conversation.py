"""Which stored conversation a run goes on with, and what lists tell of one."""

import os
import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.core import SessionError, SessionNotFoundError
from greenroom.session import AgentSession, SessionMetadata, SessionStore

if TYPE_CHECKING:
    from greenroom.cli.options import Options

_TITLE = 60
_NAMED = 5  # sessions that an error lists


def describe_session(session: AgentSession, workspace: Path) -> None:
    """Record where the session was used last, and the words that it began with.

    To be called once a run has its first input: what is never used is never stored.
    """
    session.set_metadata("workspace", str(workspace))
    if session.get_metadata("title") is None:
        said = next((each.text for each in session.history if each.role == "user"), "")
        session.set_metadata("title", _shortened(said))


def way_back(session_id: str, options: "Options") -> str:
    """Return the command that goes on with a session, wherever it is kept."""
    words = ["greenroom", "--resume", session_id]
    if options.sessions is not None:
        words += ["--sessions", options.sessions]
    return shlex.join(words)


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _TITLE else f"{words[: _TITLE - 1].rstrip()}…"


async def load_session(
    session_id: str, store: SessionStore, *, keep_open: bool = False
) -> AgentSession:
    """Load the session of this id, or of the one that begins like this; see `AgentSession.load`.

    Raises:
        SessionError: it is unknown or can't be read.
    """
    full_id = await full_session_id(session_id, store)
    return await AgentSession.load(full_id, store=store, keep_open=keep_open)


async def full_session_id(text: str, store: SessionStore) -> str:
    """Return the id of the session that is meant: the id itself, or a beginning that no other has.

    Raises:
        SessionNotFoundError: no session has such an id.
        SessionError: several begin like this; the error lists them. Or the store can't be read.
    """
    if await store.exists(text):
        return text
    found = [each for each in await store.list_all() if each.session_id.startswith(text)]
    if len(found) == 1:
        return found[0].session_id
    if found:
        names = [each.session_id for each in found[:_NAMED]]
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise SessionError(
            f"{len(found)} sessions begin with {text}",
            hint=f"write more of the id: {', '.join(names)}{more}",
        )
    if (await store.read(text)).history.end.lines:
        return text  # its description is lost: loading it fails with an error that says what to do
    place = os.path.dirname(store.folder(text)) or repr(store)
    raise SessionNotFoundError(
        f"there is no session {text} in {place}",
        session_id=text,
        hint="`greenroom sessions list` shows them",
    )


async def newest_session(store: SessionStore, workspace: Path) -> AgentSession:
    """Load the session that was used last in this folder, to go on with it.

    A session without any message does not count.

    Raises:
        SessionError: there is none, or it can't be read.
    """
    here = [each for each in await store.list_all() if _is_of(each, workspace)]
    if not here:
        raise SessionNotFoundError(
            f"there is no session of the folder {workspace} to continue",
            hint="start one without --continue, or name one with --resume ID",
        )
    # The store counts whole seconds; their folders tell the sessions of one second apart.
    tied = [each.session_id for each in here if each.updated_at == here[0].updated_at]
    newest = await trio.to_thread.run_sync(lambda: max(tied, key=partial(_left_at, store)))
    return await AgentSession.load(newest, store=store, keep_open=True)


def _is_of(session: SessionMetadata, workspace: Path) -> bool:
    is_used = session.model or "title" in session.metadata
    is_here = session.metadata.get("workspace") == str(workspace)
    is_root = session.parent_session_id is None
    return bool(is_used and is_here and is_root and not session.is_archived)


def _left_at(store: SessionStore, session_id: str) -> int:
    try:
        return os.stat(store.folder(session_id)).st_mtime_ns
    except OSError:  # removed this moment
        return 0
