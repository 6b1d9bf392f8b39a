"""`AgentMessage`: a message between agents, as a value that can be stored and forwarded."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from greenroom.core import InputMessage, UserInput, utc_now
from greenroom.core._internal import EMPTY, Wire, check_sender, freeze, freeze_fields, serde


class TaskRequest(Wire, frozen=True):
    """The payload of a `task_request`.

    Attributes:
        task_id: the id of the task; its response repeats it.
        description: what to do, in words.
        expected_output: what the result should look like.
        deadline: when it is due, with a time zone; a `TaskQueue` enforces it.
        context: JSON facts that the task needs.
        priority: a `TaskQueue` sends tasks with a higher one first.

    Raises:
        ValueError: the deadline has no time zone.
    """

    task_id: str
    description: str
    expected_output: str = ""
    deadline: datetime | None = None
    context: dict[str, object] = EMPTY
    priority: int = 0

    def __post_init__(self) -> None:
        freeze_fields(self, "context")
        if self.deadline is not None and self.deadline.tzinfo is None:
            raise ValueError("a deadline needs a time zone: write datetime(…, tzinfo=UTC)")


class TaskResponse(Wire, frozen=True):
    """The payload of a `task_response`: the result, any JSON value, and what became of the task."""

    task_id: str
    result: object = None
    status: Literal["success", "partial", "failed"] = "success"

    def __post_init__(self) -> None:
        freeze_fields(self, "result")


class StatusUpdate(Wire, frozen=True):
    """The payload of a `status_update`: the progress of a task."""

    task_id: str
    status: str


class ErrorReport(Wire, frozen=True):
    """The payload of an `error`: why a task can't be done."""

    task_id: str
    error: str


class SharedInformation(Wire, frozen=True):
    """The payload of an `information_share`: a named value that others may need."""

    key: str
    value: object

    def __post_init__(self) -> None:
        freeze_fields(self, "value")


Payload: TypeAlias = TaskRequest | TaskResponse | StatusUpdate | ErrorReport | SharedInformation
"""The content of messages of the known kinds."""

_PAYLOADS: Mapping[str, type[Payload]] = {
    "task_request": TaskRequest,
    "task_response": TaskResponse,
    "status_update": StatusUpdate,
    "error": ErrorReport,
    "information_share": SharedInformation,
}
_KINDS: Mapping[type[object], str] = {payload: kind for kind, payload in _PAYLOADS.items()}


class AgentMessage(Wire, frozen=True):
    """A message from one agent to another, or to all members of a topic.

    Attributes:
        sender: the sender's name, at most 64 printable characters without brackets; empty for a
            person.
        to: the name or session id of the recipient; empty for all.
        kind: the kind of message, any word. For a `Payload` it is set automatically.
        content: any JSON value, or a msgspec struct, which is converted to JSON.
        correlation_id: the same in a request and its replies.
        at: when it was created (UTC, to the second).

    Raises:
        InvalidJSONError: the content can't be converted to JSON.
        ValueError: the sender's name is invalid.

    Example:
        >>> task = TaskRequest("t1", "Write.")
        >>> request = AgentMessage("lead", "writer", content=task, correlation_id="c1")
        >>> reply = request.respond("Once upon a time")
        >>> reply.sender, reply.to, reply.kind, reply.correlation_id
        ('writer', 'lead', 'task_response', 'c1')
    """

    sender: str = ""
    to: str = ""
    kind: str = ""
    content: object = None
    correlation_id: str = ""
    at: datetime = msgspec.field(default_factory=utc_now)

    def __post_init__(self) -> None:
        check_sender(self.sender)
        if not self.kind:
            msgspec.structs.force_setattr(self, "kind", _KINDS.get(type(self.content), ""))
        is_struct = isinstance(self.content, msgspec.Struct)
        content = serde.loads(serde.encode(self.content)) if is_struct else self.content
        plain = serde.plain(content, "the content of a message")
        msgspec.structs.force_setattr(self, "content", freeze(plain))

    @property
    def payload(self) -> Payload | None:
        """The content as the type of its kind; None for an unknown kind.

        Raises:
            InvalidJSONError: the content does not match its kind.
        """
        payload = _PAYLOADS.get(self.kind)
        return None if payload is None else serde.decode(serde.encode(self.content), payload)

    @property
    def result(self) -> object:
        """The result that a `task_response` has, a JSON value; None in any other message.

        Raises:
            InvalidJSONError: the content does not match its kind.
        """
        found = self.payload
        return found.result if isinstance(found, TaskResponse) else None

    @property
    def text(self) -> str:
        """The text for a model: the kind, if any, and the content as text or JSON."""
        text = serde.to_text(self.content)
        return f"{self.kind}: {text}" if self.kind else text

    def reply(self, content: object, kind: str = "", *, sender: str = "") -> "AgentMessage":
        """Return a reply to the sender, by default from the recipient of this message.

        Raises:
            InvalidJSONError: the content can't be converted to JSON.
            ValueError: the sender's name is invalid.
        """
        return AgentMessage(sender or self.to, self.sender, kind, content, self.correlation_id)

    def respond(
        self, result: object = None, status: Literal["success", "partial", "failed"] = "success"
    ) -> "AgentMessage":
        """Return the `task_response` to this `task_request`, with the result and what became of it.

        Raises:
            InvalidJSONError: the result can't be converted to JSON, or the content of this message
                does not match its kind.
            ValueError: this is no `task_request`.
        """
        match self.payload:
            case TaskRequest(task_id=task_id):
                return self.reply(TaskResponse(task_id, result, status))
            case _:
                raise ValueError(
                    f"a message of kind {self.kind!r} is not a task_request: use reply"
                )

    @staticmethod
    def of(message: InputMessage) -> "AgentMessage | None":
        """Return the message in this input, or None if it did not come from a topic.

        Raises:
            InvalidJSONError: the metadata of the input is not a message.
        """
        found = message.metadata.get("message") if isinstance(message, UserInput) else None
        return None if found is None else serde.decode(serde.encode(found), AgentMessage)
