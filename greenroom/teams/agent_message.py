"""`AgentMessage`: what one agent says to others, as a value that can be stored and sent on."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

import msgspec

from greenroom.core import InputMessage, UserInput, Wire, check_sender, clock, serde


class TaskRequest(Wire, frozen=True):
    """The payload of a `task_request`: what someone is to do.

    Attributes:
        task_id: names the task; its response repeats it.
        description: what is to be done, in words.
        expected_output: what the result should look like.
        deadline: by when; nobody enforces it, see `handle.ask(timeout=…)`.
        context: JSON facts that the task needs.
    """

    task_id: str
    description: str
    expected_output: str = ""
    deadline: datetime | None = None
    context: dict[str, object] = {}


class TaskResponse(Wire, frozen=True):
    """The payload of a `task_response`: what came of a task.

    Attributes:
        task_id: that of the request.
        result: any JSON value.
        status: whether that is all that was asked for.
    """

    task_id: str
    result: object = None
    status: Literal["success", "partial", "failed"] = "success"


class StatusUpdate(Wire, frozen=True):
    """The payload of a `status_update`: how far a task is."""

    task_id: str
    status: str


class ErrorReport(Wire, frozen=True):
    """The payload of an `error`: why a task can't be done."""

    task_id: str
    error: str


class SharedInformation(Wire, frozen=True):
    """The payload of an `information_share`: what others may need to know, by a name."""

    key: str
    value: object


Payload: TypeAlias = TaskRequest | TaskResponse | StatusUpdate | ErrorReport | SharedInformation
"""What the contents of the known kinds of messages are."""

_PAYLOADS: Mapping[str, type[Payload]] = {
    "task_request": TaskRequest,
    "task_response": TaskResponse,
    "status_update": StatusUpdate,
    "error": ErrorReport,
    "information_share": SharedInformation,
}
_KINDS: Mapping[type[object], str] = {payload: kind for kind, payload in _PAYLOADS.items()}


class AgentMessage(Wire, frozen=True):
    """What an agent says to another one, or to all members of a topic.

    Attributes:
        sender: who says it, in at most 64 printable characters without brackets; empty for a person.
        to: the name or session id of the agent that it is for; empty for all.
        kind: what sort of message it is; any word. Of a `Payload` it is set by itself.
        content: any JSON value, or a msgspec struct, of which a copy is kept as JSON.
        correlation_id: the same in a request and in its replies.
        at: when it was made (UTC, to the second).

    Raises:
        InvalidJSONError: the content is something that JSON can't express.
        ValueError: the sender can't be called so.

    Example:
        >>> request = AgentMessage("lead", "writer", content=TaskRequest("t1", "Write."), correlation_id="c1")
        >>> reply = request.reply(TaskResponse("t1", "Once upon a time"))
        >>> reply.sender, reply.to, reply.kind, reply.correlation_id
        ('writer', 'lead', 'task_response', 'c1')
    """

    sender: str = ""
    to: str = ""
    kind: str = ""
    content: object = None
    correlation_id: str = ""
    at: datetime = msgspec.field(default_factory=clock.now)

    def __post_init__(self) -> None:
        check_sender(self.sender)
        if not self.kind:
            msgspec.structs.force_setattr(self, "kind", _KINDS.get(type(self.content), ""))
        content = self.content
        if isinstance(content, msgspec.Struct):
            content = serde.loads(serde.encode(content))
        plain = serde.plain(content, "the content of a message")
        msgspec.structs.force_setattr(self, "content", plain)

    @property
    def payload(self) -> Payload | None:
        """The content as what its kind says; None where the kind is none of ours.

        Raises:
            InvalidJSONError: it is of one of our kinds, and does not look so.
        """
        payload = _PAYLOADS.get(self.kind)
        return None if payload is None else serde.decode(serde.encode(self.content), payload)

    @property
    def text(self) -> str:
        """What a model reads: the content, as JSON unless it is a text, behind the kind if it has one."""
        is_text = isinstance(self.content, str)
        text = str(self.content) if is_text else serde.dumps(self.content).decode()
        return f"{self.kind}: {text}" if self.kind else text

    def reply(self, content: object, kind: str = "", *, sender: str = "") -> "AgentMessage":
        """Make the answer to this: it goes to its sender, with the same `correlation_id`.

        Args:
            content: as that of a message.
            kind: likewise.
            sender: who answers, by default whom this was for.

        Raises:
            InvalidJSONError: the content is something that JSON can't express.
            ValueError: the sender can't be called so.
        """
        return AgentMessage(sender or self.to, self.sender, kind, content, self.correlation_id)

    @staticmethod
    def of(message: InputMessage) -> "AgentMessage | None":
        """Return the message that came as this input; None where it came from no topic.

        Raises:
            InvalidJSONError: the sender of the input has written something else in its place.
        """
        found = message.metadata.get("message") if isinstance(message, UserInput) else None
        return None if found is None else serde.decode(serde.encode(found), AgentMessage)
