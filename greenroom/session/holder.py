"""Who holds a session: the errors of somebody who does not, or did not meanwhile."""

import os

from greenroom.core import (
    SessionError,
    SessionFencedError,
    SessionLockedError,
    SessionNotFoundError,
)
from greenroom.session.files.lock import is_alive


def locked_error(session_id: str, pid: int | None = None) -> SessionLockedError:
    """Return the error of a caller that asks for a session which this process holds."""
    if pid is not None and not is_alive(pid):
        return SessionLockedError(
            f"session {session_id!r} is locked by process {pid}, which has ended",
            session_id=session_id,
            pid=pid,
            hint="a process that it started still holds the lock: end that one",
        )
    return SessionLockedError(
        f"session {session_id!r} is being written by {_name(pid)}",
        session_id=session_id,
        pid=pid,
        hint="close it there, or wait until that process ends",
    )


def fenced_error(session_id: str, pid: int | None = None) -> SessionFencedError:
    """Return the error of a writer that lost its session, to this process where that is known."""
    fate = f"{_name(pid)} took it over" if pid else "its lock was removed or taken over"
    return SessionFencedError(
        f"session {session_id!r} is no longer ours to write: {fate}",
        session_id=session_id,
        pid=pid,
        hint="nothing was written; what is unsaved is kept in memory",
    )


def unknown_error(
    session_id: str, store: object, *, has_history: bool = False
) -> SessionNotFoundError:
    """Return the error of a session that the store does not hold, or of which it has the lines alone."""
    if has_history:
        return SessionNotFoundError(
            f"the description of session {session_id!r} is missing in {store!r}; its history is there",
            session_id=session_id,
            hint=f"`greenroom sessions repair {session_id}` puts it together anew",
        )
    return SessionNotFoundError(
        f"there is no session {session_id!r} in {store!r}",
        session_id=session_id,
        hint="AgentSession.list_all shows what there is",
    )


def changed_error(session_id: str) -> SessionError:
    """Return the error of a session whose changes begin where the store no longer ends."""
    return SessionError(
        f"session {session_id!r} was changed by another writer since it was loaded",
        session_id=session_id,
        hint="load it again, and repeat what was added since",
    )


def _name(pid: int | None) -> str:
    if pid is None:
        return "another process"
    return "this process" if pid == os.getpid() else f"process {pid}"
