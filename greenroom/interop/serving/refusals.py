"""Why a request is refused: the status, and the body `{"error", "kind", "hint"}`."""

from greenroom.core import (
    ConfigurationError,
    GreenroomError,
    MailboxFullError,
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
    SessionStorageError,
    ToolError,
    TurnError,
)
from greenroom.core._internal import InvalidJSONError, InvalidSessionIdError, clip
from greenroom.runtime import AgentNotRunningError, RuntimeClosedError
from greenroom.runtime._internal import InvalidAnswerError
from greenroom.session import SessionCorruptError, SessionExistsError


class RequestRefusedError(Exception):
    """A server refuses a request; it never leaves the server, but becomes a reply.

    Attributes:
        status: the status of HTTP.
        message: what is wrong.
        kind: a word for programs.
        hint: what to do about it.
        headers: headers of the reply.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str,
        hint: str = "",
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        """Keep what the reply says."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.hint = hint
        self.kind = kind
        self.headers = headers


_STATUSES: tuple[tuple[type[GreenroomError], int], ...] = (
    # The first that fits counts, so a class stands before its parent.
    (InvalidSessionIdError, 404),
    (SessionNotFoundError, 404),
    (SessionLockedError, 409),
    (SessionExistsError, 409),
    (SessionCorruptError, 409),
    (SessionStorageError, 503),
    (SessionError, 409),
    (MailboxFullError, 429),
    (AgentNotRunningError, 409),
    (RuntimeClosedError, 503),
    (InvalidAnswerError, 400),
    (InvalidJSONError, 400),
    (ToolError, 409),
    (TurnError, 409),
    (ConfigurationError, 409),
)


def refusal_of(error: Exception) -> RequestRefusedError:
    """Return how an error of a handler is told to the client.

    What is not an error of ours is a bug: the client learns nothing of it, the log has it.
    """
    if isinstance(error, RequestRefusedError):
        return error
    for kind, status in _STATUSES:
        if isinstance(error, kind):
            text = clip(error.message, 2_000)
            hint = clip(error.hint or error.remedy, 2_000)
            if isinstance(error, SessionLockedError) and error.holder:
                hint = f"{error.holder} has it, and it can be read meanwhile; {hint}"
            return RequestRefusedError(status, text, kind=type(error).__name__, hint=hint)
    return RequestRefusedError(
        500, "the server failed", kind="internal", hint="its log says how; try again"
    )


def bad_request(message: str, hint: str = "") -> RequestRefusedError:
    """Return the refusal of a request that makes no sense."""
    return RequestRefusedError(400, message, kind="bad_request", hint=hint)


def not_found(message: str, hint: str = "") -> RequestRefusedError:
    """Return the refusal of what does not exist, or is somebody else's."""
    return RequestRefusedError(404, message, kind="not_found", hint=hint)


def conflict(message: str, hint: str = "") -> RequestRefusedError:
    """Return the refusal of what contradicts what has happened."""
    return RequestRefusedError(409, message, kind="conflict", hint=hint)


def forbidden(message: str, hint: str = "") -> RequestRefusedError:
    """Return the refusal of what the token's role does not allow."""
    return RequestRefusedError(403, message, kind="role", hint=hint)
