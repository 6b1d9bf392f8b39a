"""The errors of all stores: who holds a session, and what is not there."""

import os
import shlex

from greenroom.core import (
    SessionError,
    SessionInUseError,
    SessionLockedError,
    SessionNotFoundError,
)
from greenroom.fs._internal import is_alive
from greenroom.session.errors import SessionFencedError
from greenroom.session.holders import describe_holder, is_here


def locked_error(session_id: str, pid: int | None = None, holder: str = "") -> SessionLockedError:
    """Return the error for a session that is locked, by this process and holder if known."""
    if pid is not None and is_here(holder) and not is_alive(pid):
        return SessionLockedError(
            f"session {session_id!r} is locked by process {pid}, which has ended",
            session_id=session_id,
            pid=pid,
            holder=holder,
            hint="a process that it started still holds the lock: end that process",
        )
    kind, hint = SessionLockedError, "close it there, or wait until that process ends"
    if pid == os.getpid() and is_here(holder):
        kind, hint = SessionInUseError, SessionInUseError.remedy
    return kind(
        f"session {session_id!r} is being written by {describe_holder(pid, holder)}",
        session_id=session_id,
        pid=pid,
        holder=holder,
        hint=hint,
    )


def fenced_error(session_id: str, pid: int | None = None, holder: str = "") -> SessionFencedError:
    """Return the error of a writer that lost its session, to this process and holder if known."""
    fate = "its lock was removed or taken over"
    if pid:
        fate = f"{describe_holder(pid, holder)} took it over"
    return SessionFencedError(
        f"session {session_id!r} can no longer be written here: {fate}",
        session_id=session_id,
        pid=pid,
        holder=holder,
        hint="nothing was written; what is unsaved is kept in memory",
    )


def unknown_error(
    session_id: str, store: object, *, has_history: bool = False
) -> SessionNotFoundError:
    """Return the error for a session that the store lacks, or of which it has only the history."""
    if has_history:
        return SessionNotFoundError(
            f"session {session_id!r} has a history in {store!r}, but no description",
            session_id=session_id,
            hint=f"`greenroom sessions repair {shlex.quote(session_id)}` reconstructs it",
        )
    return SessionNotFoundError(
        f"there is no session {session_id!r} in {store!r}",
        session_id=session_id,
        hint="AgentSession.list_all shows what there is",
    )


def changed_error(session_id: str) -> SessionError:
    """Return the error for a session that another writer changed in the store."""
    return SessionError(
        f"session {session_id!r} was changed by another writer since it was loaded",
        session_id=session_id,
        hint="load it again, and repeat what was added since",
    )
