"""Which stored conversation a run goes on with, and what lists tell of one."""

import os
from functools import partial
from pathlib import Path

import trio

from greenroom.core import SessionNotFoundError
from greenroom.session import AgentSession, SessionMetadata, SessionStore

__all__ = ["describe_session", "load_session", "newest_session"]

_TITLE = 60


def describe_session(session: AgentSession, workspace: Path) -> None:
    """Record where the session was used last, and the words that it began with.

    To be called once a run has its first input: what is never used is never stored.
    """
    session.set_metadata("workspace", str(workspace))
    if session.get_metadata("title") is None:
        said = next((each.text for each in session.history if each.role == "user"), "")
        session.set_metadata("title", _shortened(said))


def _shortened(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _TITLE else f"{words[: _TITLE - 1].rstrip()}…"


async def load_session(session_id: str, store: SessionStore) -> AgentSession:
    """Load a session.

    Raises:
        SessionError: it is unknown or can't be read.
    """
    try:
        return await AgentSession.load(session_id, store=store)
    except SessionNotFoundError as error:
        place = os.path.dirname(store.folder(session_id)) or repr(store)
        raise SessionNotFoundError(
            f"there is no session {session_id} in {place}",
            session_id=session_id,
            hint="`greenroom sessions list` shows them",
        ) from error


async def newest_session(store: SessionStore, workspace: Path) -> AgentSession:
    """Load the session that was used last in this folder; one without a word in it is none.

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
    return await AgentSession.load(newest, store=store)


def _is_of(session: SessionMetadata, workspace: Path) -> bool:
    is_used = session.model or "title" in session.metadata
    is_here = session.metadata.get("workspace") == str(workspace)
    return bool(is_used and is_here and session.parent_session_id is None)


def _left_at(store: SessionStore, session_id: str) -> int:
    try:
        return os.stat(store.folder(session_id)).st_mtime_ns
    except OSError:  # removed this moment
        return 0
