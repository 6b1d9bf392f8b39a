"""What a headless run remembers of its turn, and the result that it makes of it."""

from greenroom.core import (
    Done,
    Error,
    Exited,
    Message,
    OutputChunk,
    PermissionRequest,
    PermissionResponse,
    SubAgentOutput,
    ToolEnd,
    ToolStart,
    ToolStatus,
    TurnStart,
    TurnStatus,
    Usage,
)

DONE, FAILED, USAGE, DENIED, INTERRUPTED = 0, 1, 2, 3, 130
"""The exit codes: done, failed, usage or configuration, denied or waiting, interrupted."""

_CONFIGURATION = frozenset(
    {
        "ConfigurationError",
        "ConfigurationFileError",
        "ModelAuthenticationError",
        "ModelCallForbiddenError",
        "RuleFileError",
    }
)


class TurnRecord:
    """Collects from the chunks of one turn what its result says: errors, denials, the end."""

    def __init__(self, session_id: str, model: str) -> None:
        """Start with an empty record of this session and model."""
        self._session_id = session_id
        self._model = model
        self._calls: dict[tuple[str, str], ToolStart] = {}
        self._denials: list[dict[str, object]] = []
        self._asked: dict[str, PermissionRequest] = {}
        self._last_denied = False
        self._has_begun = False
        self.credentials: dict[str, PermissionRequest] = {}
        """Who asked for credentials, subagents included, by their names."""
        self.signal: int | None = None
        self.error: Error | None = None
        self.end: Done | Exited | None = None

    def note(self, chunk: OutputChunk, source: str = "") -> None:
        """Take a chunk of the agent, or with its session as `source` of a subagent."""
        if isinstance(chunk, PermissionRequest) and chunk.credential:
            self.credentials[chunk.credential] = chunk
        match chunk:
            case SubAgentOutput():
                self.note(chunk.chunk, chunk.session_id)
            case ToolStart():
                self._calls[source, chunk.id] = chunk
            case ToolEnd():
                self._note_end(chunk, source)
            case PermissionRequest() if not source:
                self._asked[chunk.request_id] = chunk
            case PermissionResponse(cancelled=False):
                self._asked.pop(chunk.request_id, None)
            case TurnStart() if not source:
                self._has_begun = True
            case Error() if not source:
                self.error = chunk
            case Done() | Exited() if not source:
                self.end = chunk
            case _:
                pass

    def _note_end(self, end: ToolEnd, source: str) -> None:
        denied = end.result.status is ToolStatus.DENIED
        if not source:
            self._last_denied = denied
        # Ids are unique within one reply of one agent only, so a call is forgotten at its end.
        call = self._calls.pop((source, end.id), None)
        if denied and call is not None:
            self._denials.append(
                {"tool": call.name, "input": call.input, "reason": end.result.text}
            )

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """The questions that the turn has left open."""
        waits = isinstance(self.end, Done) and self.end.status is TurnStatus.WAITING
        return tuple(self._asked.values()) if waits else ()

    @property
    def exit_code(self) -> int:
        """The exit code that the turn's end amounts to, or the `signal` that ended it."""
        if self.signal is not None:
            return 128 + self.signal
        match self.end:
            case Done(status=TurnStatus.COMPLETED):
                return DONE
            case Done(status=TurnStatus.WAITING):
                return DENIED
            case Done(status=TurnStatus.INTERRUPTED):
                return INTERRUPTED
            case _:
                return self._failure

    @property
    def _failure(self) -> int:
        kind = self.error.kind if self.error else ""
        is_unusable = not self._has_begun and kind.startswith("Session")
        if kind in _CONFIGURATION or is_unusable:
            return USAGE
        # The model kept on trying what it may not do, until its steps were used up.
        return DENIED if self._last_denied and kind == "BudgetExceededError" else FAILED

    def result(self, reply: Message | None) -> dict[str, object]:
        """Make the object that `--output-format json` prints."""
        done = self.end if isinstance(self.end, Done) else None
        usage = done.usage if done else Usage()
        return {
            "type": "result",
            "result": reply.text if reply else "",
            "session_id": self._session_id,
            "model": self._model,
            "status": done.status if done else TurnStatus.FAILED,
            "stop_reason": done.stop_reason if done else None,
            "usage": {
                **{name: getattr(usage, name) for name in usage.__struct_fields__},
                "cached": usage.cached,
            },
            "denials": self._denials,
            "pending": [_question(request) for request in self.pending],
            "error": self._error(),
            "exit_code": self.exit_code,
        }

    def _error(self) -> dict[str, object] | None:
        if self.error is None:
            return None
        return {"message": self.error.message, "kind": self.error.kind, "hint": self.error.hint}


def _question(request: PermissionRequest) -> dict[str, object]:
    return {
        "request_id": request.request_id,
        "tool_use_id": request.tool_use_id,
        "tool": request.tool_name,
        "input": request.input,
        "action": request.action,
        "reason": request.reason,
    }
