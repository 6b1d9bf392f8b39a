"""The errors of stored sessions alone; `greenroom.core.errors` draws the whole tree."""

from greenroom.core import SessionError, SessionLockedError


class SessionExistsError(SessionError):
    """The store already holds a session of the id given to a new one."""

    remedy = "load the session, or take another id"


class SessionFencedError(SessionLockedError):
    """A writer has lost its session to another one, and its write was refused."""

    remedy = "load the session again: what the other writer has stored counts"


class SessionCorruptError(SessionError):
    """A history is damaged before its end; the message names file and line; nothing changes."""

    remedy = "salvage what can be read with `greenroom sessions repair`"

    def __init__(
        self,
        message: str,
        *,
        session_id: str = "",
        path: str = "",
        line: int | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, session_id=session_id, hint=hint)
        self.path = path
        self.line = line
