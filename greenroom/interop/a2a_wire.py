"""The forms of A2A 1.0, as far as they are used; further fields are left alone.

They are what `a2a.proto` of the protocol says, in the JSON that it prescribes: names in camel case,
values of enumerations by their names, bytes in base64, and a field that is empty left out.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from greenroom.core._internal import serde

T = TypeVar("T", bound=msgspec.Struct)

VERSION = "1.0"
"""The version of the protocol."""

CARD_PATH = ".well-known/agent-card.json"
"""Where the card of an agent is, below its address."""

MEDIA_TYPE = "application/a2a+json"
"""The media type of the binding of HTTP and JSON."""

Name = Annotated[str, Meta(min_length=1, max_length=1_000)]
"""An id."""


class State(StrEnum):
    """The state of a task."""

    UNSPECIFIED = "TASK_STATE_UNSPECIFIED"
    SUBMITTED = "TASK_STATE_SUBMITTED"
    WORKING = "TASK_STATE_WORKING"
    COMPLETED = "TASK_STATE_COMPLETED"
    FAILED = "TASK_STATE_FAILED"
    CANCELED = "TASK_STATE_CANCELED"
    INPUT_REQUIRED = "TASK_STATE_INPUT_REQUIRED"
    REJECTED = "TASK_STATE_REJECTED"
    AUTH_REQUIRED = "TASK_STATE_AUTH_REQUIRED"

    @property
    def is_final(self) -> bool:
        """Whether nothing more comes of a task in this state."""
        return self in _FINAL


_FINAL = {State.COMPLETED, State.FAILED, State.CANCELED, State.REJECTED}


class Form(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An object of the protocol, whose names are in camel case."""


class Part(Form, frozen=True):
    """A piece of content: exactly one of `text`, `raw`, `url` and `data`."""

    text: str | UnsetType = UNSET
    raw: str | UnsetType = UNSET
    url: str | UnsetType = UNSET
    data: object = UNSET
    metadata: dict[str, object] = {}
    filename: str = ""
    media_type: str = ""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which of them it has: a part that makes sense has one."""
        return tuple(
            kind for kind in ("text", "raw", "url", "data") if getattr(self, kind) is not UNSET
        )


class Message(Form, frozen=True):
    """What one side says to the other."""

    message_id: Name
    role: Literal["ROLE_USER", "ROLE_AGENT"]
    parts: Annotated[tuple[Part, ...], Meta(min_length=1)]
    context_id: str = ""
    task_id: str = ""
    metadata: dict[str, object] = {}

    @property
    def text(self) -> str:
        """Its texts, a paragraph each."""
        return "\n\n".join(each.text for each in self.parts if isinstance(each.text, str))


class Status(Form, frozen=True):
    """The state of a task, since when, and what is said about it."""

    state: State
    message: Message | None = None
    timestamp: str = ""


class Artifact(Form, frozen=True):
    """What a task has made."""

    artifact_id: Name
    parts: tuple[Part, ...]
    name: str = ""
    description: str = ""
    metadata: dict[str, object] = {}


class Task(Form, frozen=True):
    """A unit of work."""

    id: Name
    status: Status
    context_id: str = ""
    artifacts: tuple[Artifact, ...] | UnsetType = UNSET
    history: tuple[Message, ...] = ()


class StatusUpdate(Form, frozen=True):
    """The state of a task has changed."""

    task_id: str
    context_id: str
    status: Status


class ArtifactUpdate(Form, frozen=True):
    """A task has made something, or more of it."""

    task_id: str
    context_id: str
    artifact: Artifact
    append: bool = False
    last_chunk: bool = False


class Event(Form, frozen=True):
    """One event of a stream, or the answer to a message: exactly one of these."""

    task: Task | None = None
    message: Message | None = None
    status_update: StatusUpdate | None = None
    artifact_update: ArtifactUpdate | None = None


class Interface(Form, frozen=True):
    """Where an agent is spoken to, and how."""

    url: str
    protocol_binding: str
    protocol_version: str = ""
    tenant: str = ""


class Abilities(Form, frozen=True):
    """What an agent can do beyond the least."""

    streaming: bool = False
    push_notifications: bool = False
    extended_agent_card: bool = False


class Card(Form, frozen=True):
    """What is used of the card of an agent."""

    name: str
    supported_interfaces: tuple[Interface, ...] = ()
    description: str = ""
    capabilities: Abilities = Abilities()


HistoryLength = Annotated[int, Meta(ge=0, le=2**31 - 1)] | None
"""How many of the newest messages are wanted; None for all."""


class Configuration(Form, frozen=True):
    """How a message wants to be answered."""

    accepted_output_modes: tuple[str, ...] = ()
    history_length: HistoryLength = None
    return_immediately: bool = False
    task_push_notification_config: dict[str, object] | None = None


class SendMessage(Form, frozen=True):
    """The parameters of `SendMessage` and `SendStreamingMessage`."""

    message: Message
    configuration: Configuration = Configuration()
    tenant: str = ""


class GetTask(Form, frozen=True):
    """The parameters of `GetTask`."""

    id: Name
    history_length: HistoryLength = None
    tenant: str = ""


class NameTask(Form, frozen=True):
    """The parameters of `CancelTask` and `SubscribeToTask`."""

    id: Name
    tenant: str = ""


class ListTasks(Form, frozen=True):
    """The parameters of `ListTasks`."""

    context_id: str = ""
    status: State = State.UNSPECIFIED
    page_size: Annotated[int, Meta(ge=1, le=100)] = 50
    page_token: str = ""
    history_length: HistoryLength = None
    status_timestamp_after: str = ""
    include_artifacts: bool = False


class Nothing(Form, frozen=True):
    """The parameters of a method that takes none that count."""


def read(params: object, kind: type[T]) -> T:
    """Read parameters or a result as every reader of this JSON has to.

    What is null counts as left out, and a name may also be written as the schema has it, with
    underscores.

    Raises:
        msgspec.ValidationError: they don't fit; it says where.
    """
    try:
        return serde.convert(_mend({} if params is None else params), kind)
    except RecursionError:  # our reading of it takes more of the stack than the JSON itself did
        raise msgspec.ValidationError("it is nested too deeply") from None


def _mend(value: object) -> object:
    match value:
        case Mapping():
            # `data` is the sender's own, and null is one of its values.
            return {
                _camel(key): each if key in ("data", "metadata") else _mend(each)
                for key, each in value.items()
                if each is not None or key == "data"
            }
        case list():
            return [_mend(each) for each in value]
        case _:
            return value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest)) if first else name
