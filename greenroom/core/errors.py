"""Every error that Greenroom raises, in one tree.

    GreenroomError
    ├── ConfigurationError             the set-up is wrong: a key, a model name, an option
    │   ├── ConfigurationFileError     a file of the user's can't be used; it names the line
    │   │   └── RuleFileError          a permission rule or rule file can't be used
    │   ├── ModelCallForbiddenError    a real model would be called where that is switched off
    │   └── CassetteError              a recording of HTTP can't be used, or does not fit
    ├── AgentCrashError                a tool has found that its agent can't go on
    ├── AgentNotRunningError           the agent has ended; `outcome` says how
    ├── RuntimeClosedError             the runtime's block has been left
    ├── SelfWaitError                  an agent would wait for itself, or agents in a circle
    ├── EventLoopError                 called outside of the runtime's event loop
    ├── MailboxFullError               no room for another input
    ├── TurnError                      turns and states used in an impossible order
    ├── AuditError                     the audit can't be written or read
    ├── SupervisionError               a supervisor gave up, stopped an agent, or has ended
    ├── BudgetExceededError            a budget of this turn is spent
    ├── InvalidAnswerError             an answer does not fit what the question asks for
    ├── InvalidJSONError               a value or a text is not usable as JSON
    ├── SessionError                   about stored conversations
    │   ├── SessionNotFoundError       no such session in the store
    │   ├── SessionExistsError         the store already holds this id
    │   ├── SessionLockedError         somebody else writes this session
    │   │   ├── SessionInUseError      this process has it already
    │   │   └── SessionFencedError     another process took it over from us
    │   ├── SessionCorruptError        damage in the middle of a history
    │   ├── SessionStorageError        the disk refused
    │   ├── AlreadyAnsweredError       the question is no longer open
    │   └── InvalidSessionIdError      an id that is empty, too long or not plain text
    ├── MemoryStorageError             a file of memories can't be read or written
    ├── ToolError                      a tool failed, or is not usable as a tool
    │   └── SandboxUnavailableError    nothing here can enforce what a sandbox requires
    ├── NetworkError                   no answer from the other side
    │   ├── NetworkTimeoutError        it took too long
    │   ├── AddressRefusedError        we refuse to contact that address
    │   └── MCPServerError             a server of tools can't be reached, or has ended
    ├── RemoteError                    an agent elsewhere refuses something
    │   └── RemoteLostError            its server can't be reached
    ├── NoHostError                    no host can run an agent
    ├── GuardError                     a guard has rejected an input or a reply
    ├── NoProgressError                the agent repeats a call, or none of its calls can run
    ├── HandoffLimitError              agents pass the conversation on, and none answers
    ├── TeamError                      a member of a team has failed, and the others can't go on
    ├── PlanError                      a plan is inconsistent, or can't be carried out
    ├── WorkflowError                  a workflow is inconsistent, or can't go on
    │   └── WorkflowLimitError         its steps, or the seconds of a node, are used up
    ├── ConflictError                  agents contradict each other, or too few have answered
    ├── StaleWriteError                the value has changed since it was read
    ├── BlackboardFullError            no room on a blackboard for a key or a value
    ├── CircuitOpenError               too many failures lately, so nothing was tried
    └── ModelError                     the model gave no usable reply
        ├── ModelAuthenticationError   the key is missing or refused
        │   └── ModelPermissionError   the key may not use this model or feature
        ├── ModelRateLimitError        too many requests or tokens for now
        │   └── ModelQuotaError        the quota or the credit is spent
        ├── ModelOverloadedError       the provider is overloaded or broken
        ├── ModelContextTooLongError   the conversation does not fit the model
        ├── ModelBadRequestError       the provider refused the request as it is
        │   ├── ModelNotFoundError     no such model or address
        │   └── ModelContentFilterError  a content filter refused the request
        ├── ModelTimeoutError          the model took too long
        │   ├── ModelConnectTimeoutError     to take the connection
        │   ├── ModelFirstEventTimeoutError  to begin its reply
        │   ├── ModelIdleTimeoutError        to go on with it
        │   └── ModelRequestTimeoutError     for the request as a whole
        ├── ModelConnectionError       the provider can't be reached
        ├── ModelStreamError           the stream broke off before its end
        └── ModelOutputError           the reply does not fit the type that was asked for

Those that several packages raise are defined here, the others in the package that raises them, from
which programs import them. An error that ends a turn ends only that turn: the agent takes the next
input. `AgentCrashError`, and any exception outside this tree, which is a bug, crash
the agent that raised it, never its siblings.
"""


class GreenroomError(Exception):
    """The root of every error of Greenroom: what happened, and in `hint` what to do about it.

    Attributes:
        message: what happened, in one sentence.
        hint: what to do about it; may be empty.
        retryable: whether the same call may succeed later, unchanged.
        remedy: what to do about errors of this class, unless a hint says it better.
    """

    retryable = False
    remedy = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        """Keep the message and the hint apart; `str()` joins them."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def add_hint(self, text: str) -> None:
        """Append to the hint, or to the remedy if there is no hint; a text only once."""
        said = self.hint or self.remedy
        if text not in said:
            self.hint = f"{said}; {text}" if said else text


class ConfigurationError(GreenroomError):
    """The set-up is wrong: a missing key, an unknown model name, an unusable option."""

    remedy = "correct the setting that the message names"


class ConfigurationFileError(ConfigurationError):
    """A configuration file can't be used; the message names the file, the line and the field."""

    def __init__(
        self,
        message: str,
        *,
        path: str = "",
        line: int | None = None,
        column: int | None = None,
        hint: str = "",
    ) -> None:
        """Put `path:line:column` before the message, as far as it is known."""
        place = ":".join(str(part) for part in (path, line, column) if part)
        super().__init__(f"{place}: {message}" if place else message, hint=hint)
        self.path = path
        self.line = line
        self.column = column


class RuleFileError(ConfigurationFileError):
    """A permission rule or rule file can't be used; the message names file, line and field."""


class AgentCrashError(GreenroomError):
    """Crashes the agent whose tool or loop raises it, with this message.

    Any other exception of a tool is a result for the model. Raise this one where the model can't
    help, such as when a connection that the agent was started with is gone: a supervisor can then
    start the agent again, and `handle.wait()` returns the crash. The call is on record as started,
    and is not repeated.

    Example:
        >>> from greenroom.tools import tool
        >>> @tool
        ... async def read_sensor(name: str) -> float:
        ...     raise AgentCrashError(f"the bus of {name} is gone")
    """

    remedy = "let a supervisor start the agent again, or see what the tool lacks"


class SelfWaitError(GreenroomError):
    """Code inside an agent would wait for something that it is itself part of."""

    remedy = "wait from outside, or have the other agent answer by message"


class EventLoopError(GreenroomError):
    """Called from a thread or event loop other than the runtime's; nothing has changed."""

    remedy = "from a thread, go through `trio.from_thread`"


class MailboxFullError(GreenroomError):
    """The mailbox holds as many inputs as its limit allows; wait with `send_input` instead."""

    retryable = True
    remedy = "wait with `send_input`, or raise the limit of the mailbox"


class TurnError(GreenroomError):
    """Turns or states were used in an impossible order, such as a turn inside a turn."""

    remedy = "open one turn at a time, and set states inside it in their order"


class BudgetExceededError(GreenroomError):
    """A budget is spent; the scope that declared it ends for this reason."""

    remedy = "allow more, or ask for less"


class InvalidJSONError(GreenroomError):
    """A text that is not JSON, ambiguous or of the wrong shape; or a value that JSON can't hold."""

    remedy = "correct the text or the value at the place that the message names"


class SessionError(GreenroomError):
    """Something about a stored conversation; `session_id` says which."""

    remedy = "look at the session that `session_id` names with `greenroom sessions show`"

    def __init__(self, message: str, *, session_id: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.session_id = session_id


class SessionNotFoundError(SessionError):
    """The store holds no session of this id."""

    remedy = "check the id with `greenroom sessions list`"


class SessionLockedError(SessionError):
    """Another process is writing this session; `holder` is who, as far as known: HOST/PID/STORE.

    `pid` is the process id, or None if unknown. STORE tells the store objects of a process apart.
    """

    remedy = "close the other program, or fork the session"

    def __init__(
        self,
        message: str,
        *,
        session_id: str = "",
        pid: int | None = None,
        holder: str = "",
        hint: str = "",
    ) -> None:
        super().__init__(message, session_id=session_id, hint=hint)
        self.pid = pid
        self.holder = holder


class SessionInUseError(SessionLockedError):
    """This process has the session already: an agent runs it, or it is open for writing."""

    remedy = (
        "end the agent that runs it, close it, or fork the session; "
        "with on_busy='queue' a run waits for other runs"
    )


class SessionStorageError(SessionError):
    """The disk refused to read or store a session: it is full, read-only, broken or gone.

    `nothing_written` is true if the store knows that it left everything as it was.
    """

    remedy = "make room, or check the disk and its permissions"

    def __init__(
        self,
        message: str,
        *,
        session_id: str = "",
        nothing_written: bool = False,
        hint: str = "",
    ) -> None:
        super().__init__(message, session_id=session_id, hint=hint)
        self.nothing_written = nothing_written


class InvalidSessionIdError(SessionError):
    """A session id is empty, longer than 200 characters, or holds control characters."""

    remedy = "use a text of 1 to 200 characters"


class ToolError(GreenroomError):
    """A tool failed, or something can't be used as a tool. Raise it to tell the model why."""

    remedy = "follow the tool's message, which the model gets as well"


class NetworkError(GreenroomError):
    """The other side gave no answer: it can't be reached, or it broke the connection."""

    retryable = True
    remedy = "check the network and the proxy settings, or try again"


class NetworkTimeoutError(NetworkError):
    """The other side took too long to connect or to answer.

    Attributes:
        phase: what took too long: "connect", "response", "read" for the next piece of the body,
            "total" for all of it; empty if unknown.
    """

    remedy = "try again, or allow more time"

    def __init__(self, message: str, *, phase: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.phase = phase


class AddressRefusedError(NetworkError):
    """We refuse to contact this address: it is private, or its scheme is not supported."""

    retryable = False
    remedy = "use a public address, with http or https"


def find_error(name: str) -> type[GreenroomError] | None:
    """Return the error of this name in the tree, from whichever package it comes; else None."""
    waiting = [GreenroomError]
    while waiting and waiting[-1].__name__ != name:
        waiting += waiting.pop().__subclasses__()
    return waiting[-1] if waiting else None
