"""Every error that Greenroom raises, in one tree.

    GreenroomError
    ├── ConfigurationError             the set-up is wrong: a key, a model name, an option
    │   └── RuleFileError              a permission rule or rule file can't be used
    ├── AgentNotRunningError           the agent has ended; `outcome` says how
    ├── RuntimeClosedError             the runtime's block has been left
    ├── SelfWaitError                  an agent would wait for itself, or agents in a circle
    ├── EventLoopError                 called outside of the runtime's event loop
    ├── MailboxFullError               no room for another input
    ├── SupervisionError               a supervisor gave up, stopped an agent, or has ended
    ├── TurnError                      turns and states used in an order that has no meaning
    ├── BudgetExceededError            a budget of this turn is spent
    ├── InvalidJSONError               a value or a text is not usable as JSON
    ├── SessionError                   about stored conversations
    │   ├── SessionInUseError          an agent already runs this session
    │   ├── SessionNotFoundError       no such session in the store
    │   ├── SessionExistsError         the store already holds this id
    │   ├── SessionLockedError         another process writes this session
    │   │   └── SessionFencedError     another process took it over from us
    │   ├── SessionCorruptError        damage in the middle of a history
    │   ├── SessionStorageError        the disk refused
    │   └── InvalidSessionIdError      an id that could leave the store
    ├── ToolError                      a tool failed, or is not usable as a tool
    │   └── SandboxUnavailableError    what a sandbox must hold can't be held here
    ├── NetworkError                   no answer from the other side
    │   ├── NetworkTimeoutError        it took too long
    │   └── AddressRefusedError        we refuse to contact that address
    └── ModelError                     the model did not give a usable reply
        ├── ModelAuthenticationError   the key is missing or refused
        ├── ModelRateLimitError        too many requests, or the quota is spent
        ├── ModelOverloadedError       the provider is overloaded or broken
        ├── ModelContextTooLongError   the conversation does not fit the model
        ├── ModelBadRequestError       the provider refused the request as it is
        ├── ModelTimeoutError          no event in time
        ├── ModelConnectionError       the provider can't be reached
        └── ModelStreamError           the stream broke off before its end

An error that ends a turn ends that turn only: the agent takes the next input. Anything outside this
tree is a bug in somebody's code and crashes the agent that raised it, never its siblings.
"""

__all__ = [
    "AddressRefusedError",
    "AgentNotRunningError",
    "BudgetExceededError",
    "ConfigurationError",
    "EventLoopError",
    "GreenroomError",
    "InvalidJSONError",
    "InvalidSessionIdError",
    "MailboxFullError",
    "ModelAuthenticationError",
    "ModelBadRequestError",
    "ModelConnectionError",
    "ModelContextTooLongError",
    "ModelError",
    "ModelOverloadedError",
    "ModelRateLimitError",
    "ModelStreamError",
    "ModelTimeoutError",
    "NetworkError",
    "NetworkTimeoutError",
    "RuleFileError",
    "RuntimeClosedError",
    "SandboxUnavailableError",
    "SelfWaitError",
    "SessionCorruptError",
    "SessionError",
    "SessionExistsError",
    "SessionFencedError",
    "SessionInUseError",
    "SessionLockedError",
    "SessionNotFoundError",
    "SessionStorageError",
    "SupervisionError",
    "ToolError",
    "TurnError",
]


class GreenroomError(Exception):
    """The root of every error of Greenroom: what happened, and in `hint` what to do about it."""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the message and the hint apart; `str()` joins them."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigurationError(GreenroomError):
    """The set-up is wrong: a missing key, an unknown model name, an option that can't be used."""


class RuleFileError(ConfigurationError):
    """A permission rule or a rule file can't be used; it names the file, the line and the field."""

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        line: int | None = None,
        column: int | None = None,
        hint: str = "",
    ) -> None:
        """Put `path:line:column` before the message, as far as they are known."""
        place = ":".join(str(part) for part in (path, line, column) if part)
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.path = path
        self.line = line
        self.column = column


class AgentNotRunningError(GreenroomError):
    """The agent has ended, so it can't be asked or told anything; `outcome` says how it ended."""

    def __init__(self, message: str, *, outcome: object = None, hint: str = "") -> None:
        """Keep the outcome; it is None where the agent is just about to end."""
        super().__init__(message, hint=hint)
        self.outcome = outcome


class RuntimeClosedError(GreenroomError):
    """The runtime is not open: its `async with` block is not entered yet, or has been left."""


class SelfWaitError(GreenroomError):
    """Code inside an agent would wait for the end of what it is itself part of."""


class EventLoopError(GreenroomError):
    """Called from another thread, or from another event loop than the runtime's; nothing changed."""


class MailboxFullError(GreenroomError):
    """The mailbox holds as many inputs as its limit allows; wait with `send_input` instead."""


class TurnError(GreenroomError):
    """Turns or states were used in an order that has no meaning, such as a turn inside a turn."""


class SupervisionError(GreenroomError):
    """A supervisor has ended, gave up, or stopped an agent for the sake of others.

    `__cause__` is the crash that led to it.
    """


class BudgetExceededError(GreenroomError):
    """A budget is spent; the scope that declared it ends, with this reason."""


class InvalidJSONError(GreenroomError):
    """A text that is no JSON, of another shape or ambiguous; or a value that JSON can't express."""


class SessionError(GreenroomError):
    """Something about a stored conversation; `session_id` says which."""

    def __init__(self, message: str, *, session_id: str = "", hint: str = "") -> None:
        """Keep the id of the session that it is about."""
        super().__init__(message, hint=hint)
        self.session_id = session_id


class SessionInUseError(SessionError):
    """An agent already runs this session."""


class SessionNotFoundError(SessionError):
    """The store holds no session of this id."""


class SessionExistsError(SessionError):
    """A new session was given an id that the store already holds."""


class SessionLockedError(SessionError):
    """Another process is writing this session; `pid` is its process id where that is known."""

    def __init__(
        self, message: str, *, session_id: str = "", pid: int | None = None, hint: str = ""
    ) -> None:
        """Keep the id of the process that holds the lock."""
        super().__init__(message, session_id=session_id, hint=hint)
        self.pid = pid


class SessionFencedError(SessionLockedError):
    """A writer lost its session, and what it would have written was refused."""


class SessionCorruptError(SessionError):
    """A history is damaged before its end; it names the file and the line, and changes nothing."""

    def __init__(
        self,
        message: str,
        *,
        session_id: str = "",
        path: str = "",
        line: int | None = None,
        hint: str = "",
    ) -> None:
        """Keep the place of the damage."""
        super().__init__(message, session_id=session_id, hint=hint)
        self.path = path
        self.line = line


class SessionStorageError(SessionError):
    """The disk refused to store or to read a session: full, read-only, broken or removed.

    `nothing_written` is true where the store knows that it left everything as it was.
    """

    def __init__(
        self,
        message: str,
        *,
        session_id: str = "",
        nothing_written: bool = False,
        hint: str = "",
    ) -> None:
        """Keep what is known of the outcome."""
        super().__init__(message, session_id=session_id, hint=hint)
        self.nothing_written = nothing_written


class InvalidSessionIdError(SessionError):
    """A session id that is empty, too long, or holds something else than letters and digits."""


class ToolError(GreenroomError):
    """A tool failed, or something can't be used as a tool. Raise it to tell the model why."""


class SandboxUnavailableError(ToolError):
    """A sandbox must hold something that nothing holds on this machine, so nothing was run."""


class NetworkError(GreenroomError):
    """The other side gave no answer: it can't be reached, or it broke the connection."""


class NetworkTimeoutError(NetworkError):
    """The other side took too long to connect or to answer."""


class AddressRefusedError(NetworkError):
    """We refuse to contact this address: it is private, or of a kind that we don't speak."""


class ModelError(GreenroomError):
    """The model gave no usable reply; the subclass says why.

    Attributes:
        provider: the provider's name, such as "anthropic".
        status: the HTTP status, or None where there was none.
        code: the provider's own name of the error, as it came.
        request_id: the provider's id of the request, for its support.
        retry_after: seconds that the provider asks to wait, only from an error response.
    """

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status: int | None = None,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        """Keep what the provider said."""
        super().__init__(message, hint=hint)
        self.provider = provider
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retry_after = retry_after


class ModelAuthenticationError(ModelError):
    """The key is missing, wrong, or not allowed to use this model."""


class ModelRateLimitError(ModelError):
    """Too many requests for this key, or its quota is spent."""


class ModelOverloadedError(ModelError):
    """The provider is overloaded or broken; the same request may work later."""


class ModelContextTooLongError(ModelError):
    """The conversation is longer than the model's context window."""


class ModelBadRequestError(ModelError):
    """The provider refused the request as it stands, such as an unknown model name."""


class ModelTimeoutError(ModelError):
    """No connection, first event or next event within the time-out."""


class ModelConnectionError(ModelError):
    """The provider can't be reached at all."""


class ModelStreamError(ModelError):
    """The stream broke off, or held something unreadable, before the reply was complete."""
