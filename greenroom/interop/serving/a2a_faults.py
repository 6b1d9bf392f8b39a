"""Why a request of A2A is refused: the codes of the protocol, and the replies that tell them."""

from collections.abc import Mapping
from enum import Enum

from greenroom.core._internal import clip
from greenroom.interop.serving.refusals import RequestRefusedError, refusal_of

_LONGEST = 2_000  # characters of a message
_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
_VIOLATIONS = "type.googleapis.com/google.rpc.BadRequest"


class Fault(Enum):
    """A kind of error: its code in JSON-RPC, its status in HTTP, and its status in gRPC."""

    PARSE = (-32700, 400, "INVALID_ARGUMENT")
    INVALID_REQUEST = (-32600, 400, "INVALID_ARGUMENT")
    METHOD_NOT_FOUND = (-32601, 404, "UNIMPLEMENTED")
    INVALID_PARAMS = (-32602, 400, "INVALID_ARGUMENT")
    INTERNAL = (-32603, 500, "INTERNAL")
    TASK_NOT_FOUND = (-32001, 404, "NOT_FOUND")
    TASK_NOT_CANCELABLE = (-32002, 400, "FAILED_PRECONDITION")
    PUSH_NOTIFICATION_NOT_SUPPORTED = (-32003, 400, "FAILED_PRECONDITION")
    UNSUPPORTED_OPERATION = (-32004, 400, "FAILED_PRECONDITION")
    CONTENT_TYPE_NOT_SUPPORTED = (-32005, 400, "INVALID_ARGUMENT")
    VERSION_NOT_SUPPORTED = (-32009, 400, "FAILED_PRECONDITION")

    @property
    def code(self) -> int:
        """The code in JSON-RPC."""
        return self.value[0]

    @property
    def is_protocols(self) -> bool:
        """Whether it is one that A2A itself defines."""
        return -32100 < self.code <= -32001


class TaskRefusedError(Exception):
    """A request of A2A is refused; it never leaves the server, but becomes a reply.

    Attributes:
        fault: the kind of error.
        message: what is wrong, and what to do.
        field: the parameter that is wrong; empty if it is none.
        status: the status of HTTP.
    """

    def __init__(self, fault: Fault, message: str, *, field: str = "", status: int = 0) -> None:
        """Keep what the reply says."""
        super().__init__(message)
        self.fault = fault
        self.message = clip(message, _LONGEST)
        self.field = field
        self.status = status or fault.value[1]

    @property
    def details(self) -> list[Mapping[str, object]]:
        """What programs can read of it."""
        if self.fault.is_protocols:
            return [{"@type": _INFO, "reason": self.fault.name, "domain": "a2a-protocol.org"}]
        if self.field:
            violation = {"field": self.field, "description": self.message}
            return [{"@type": _VIOLATIONS, "fieldViolations": [violation]}]
        return []

    def as_rpc(self) -> dict[str, object]:
        """Describe it for JSON-RPC."""
        error: dict[str, object] = {"code": self.fault.code, "message": self.message}
        return {**error, "data": self.details} if self.details else error

    def as_http(self) -> dict[str, object]:
        """Describe it for the binding of HTTP and JSON."""
        error: dict[str, object] = {
            "code": self.status,
            "status": self.fault.value[2],
            "message": self.message,
        }
        return {"error": {**error, "details": self.details} if self.details else error}


def invalid(field: str, message: str) -> TaskRefusedError:
    """Return the refusal of a parameter."""
    return TaskRefusedError(Fault.INVALID_PARAMS, message, field=field)


def no_task() -> TaskRefusedError:
    """Return the refusal of a task that does not exist, or is somebody else's."""
    return TaskRefusedError(Fault.TASK_NOT_FOUND, "there is no such task")


def fault_of(error: Exception) -> TaskRefusedError:
    """Return how an error of a request is told to the client.

    What is not an error of ours is a bug: the client learns nothing of it, the log has it.
    """
    if isinstance(error, TaskRefusedError):
        return error
    refusal: RequestRefusedError = refusal_of(error)
    is_clients = refusal.status in (400, 404, 409)
    fault = Fault.INVALID_PARAMS if is_clients else Fault.INTERNAL
    text = f"{refusal.message}; {refusal.hint}" if refusal.hint else refusal.message
    return TaskRefusedError(fault, text, status=refusal.status)
