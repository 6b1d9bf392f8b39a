"""What one input of a headless run came to, collected from the chunks of its turn."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from greenroom import core
from greenroom.cli.formatting import describe_call, shorten
from greenroom.cli.options import DENIED, DONE, FAILED, INTERRUPTED, USAGE
from greenroom.core import Message, OutputChunk, PermissionRequest, TurnStatus
from greenroom.core._internal import exact

_CONFIGURATION = frozenset(
    {
        "ConfigurationError",
        "ConfigurationFileError",
        "ModelAuthenticationError",
        "ModelCallForbiddenError",
        "RuleFileError",
    }
)
_MOST_NAMED = 5  # denied calls in one line
_MOST_LETTERS = 80  # of each


@dataclass(frozen=True)
class Denial:
    """A call that was denied, and why."""

    call: core.ToolStart
    reason: str

    def describe(self) -> str:
        """Describe the call in a few words."""
        words = f"{exact(self.call.name)} {describe_call(self.call.input)}"
        return shorten(words, _MOST_LETTERS)


class TurnRecord:
    """Collects the result of one input from the chunks of its turn: errors, denials, the end."""

    def __init__(self, session_id: str, model: str) -> None:
        self._session_id = session_id
        self._model = model
        self._begun_at = time.monotonic()
        self._calls: dict[tuple[str, str], core.ToolStart] = {}
        self._open_requests: dict[str, PermissionRequest] = {}
        self._turns = 0
        self._costs: list[float] = []
        self._lacked_person = False
        self.denials: list[Denial] = []
        self.credentials: dict[str, PermissionRequest] = {}
        """Requests for credentials, of subagents too, by the credentials' names."""
        self.signal: int | None = None
        self.error: core.Error | None = None
        self.end: core.Done | core.Exited | None = None

    def note(self, chunk: OutputChunk, source: str = "") -> None:
        """Take a chunk of the agent, or with its session as `source` of a subagent."""
        if isinstance(chunk, PermissionRequest) and chunk.credential:
            self.credentials[chunk.credential] = chunk
        match chunk:
            case core.SubAgentOutput():
                self.note(chunk.chunk, chunk.session_id)
            case core.ToolStart():
                self._calls[source, chunk.id] = chunk
            case core.ToolEnd():
                self._note_end(chunk, source)
            case core.UsageReport():
                self._costs += [] if chunk.usage.cost is None else [chunk.usage.cost]
            case PermissionRequest() if not source:
                self._open_requests[chunk.request_id] = chunk
            case core.PermissionResponse(cancelled=False):
                self._lacked_person |= chunk.by == "unattended"
                self._open_requests.pop(chunk.request_id, None)
            case core.TurnStart() if not source:
                self._turns += 1
            case core.Error() if not source:
                self.error = chunk
            case core.Done() | core.Exited() if not source:
                self.end = chunk
            case _:
                pass

    def _note_end(self, end: core.ToolEnd, source: str) -> None:
        # Ids are unique within one reply of one agent only, so a call is forgotten at its end.
        call = self._calls.pop((source, end.id), None)
        if end.result.status is core.ToolStatus.DENIED and call is not None:
            self.denials.append(Denial(call, end.result.text))

    @property
    def pending(self) -> tuple[PermissionRequest, ...]:
        """The questions that the turn left open."""
        waits = isinstance(self.end, core.Done) and self.end.status is TurnStatus.WAITING
        return tuple(self._open_requests.values()) if waits else ()

    @property
    def exit_code(self) -> int:
        """The exit code of the turn's end, or that of the `signal` that ended it."""
        if self.signal is not None:
            return 128 + self.signal
        match self.end:
            case core.Done(status=TurnStatus.COMPLETED):
                return DONE
            case core.Done(status=TurnStatus.WAITING):
                return DENIED
            case core.Done(status=TurnStatus.INTERRUPTED):
                return INTERRUPTED
            case _:
                kind = self.error.kind if self.error else ""
                is_unusable = not self._turns and kind.startswith("Session")
                return USAGE if kind in _CONFIGURATION or is_unusable else FAILED

    def describe_denials(self) -> str:
        """Describe the denied calls in one line, and what would allow some; empty without any."""
        if not self.denials:
            return ""
        named = [each.describe() for each in self.denials[:_MOST_NAMED]]
        left_out = len(self.denials) - len(named)
        calls = "1 call was" if len(self.denials) == 1 else f"{len(self.denials)} calls were"
        more = f" and {left_out} more" if left_out else ""
        # A rule that denies, or a hook, no `--allow` overrules.
        hint = " (--allow RULE allows some in advance)" if self._lacked_person else ""
        return f"{calls} denied: {'; '.join(named)}{more}{hint}"

    def result(self, new: Sequence[Message]) -> dict[str, object]:
        """Make the object that `--output-format json` prints, given the turn's messages."""
        replies = [each for each in new if each.role == "assistant"]
        done, error = self.end if isinstance(self.end, core.Done) else None, self.error
        usage = done.usage if done else core.Usage()
        seconds = time.monotonic() - self._begun_at
        return {
            "type": "result",
            "result": replies[-1].text if replies else "",
            "session_id": self._session_id,
            "model": self._model,
            "status": done.status if done else TurnStatus.FAILED,
            "stop_reason": done.stop_reason if done else None,
            "turns": self._turns,
            "steps": len(replies),
            "usage": {
                **{name: getattr(usage, name) for name in usage.__struct_fields__},
                "cached": usage.cache_share,
            },
            "cost": sum(self._costs) if self._costs else None,
            "denials": [
                {"tool": each.call.name, "input": each.call.input, "reason": each.reason}
                for each in self.denials
            ],
            "pending": [_describe_question(request) for request in self.pending],
            "error": error and {"message": error.message, "kind": error.kind, "hint": error.hint},
            "exit_code": self.exit_code,
            "duration_ms": round(seconds * 1000),
        }


def _describe_question(request: PermissionRequest) -> dict[str, object]:
    return {
        "request_id": request.request_id,
        "tool_use_id": request.tool_use_id,
        "tool": request.tool_name,
        "input": request.input,
        "action": request.action,
        "reason": request.reason,
    }
