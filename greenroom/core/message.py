"""Messages of a conversation: their blocks and senders, and the ids and times that stamp them.

Sessions, inputs and records are stamped by the same functions, which a test can make repeatable.
Nothing waits on the wall clock: deadlines and graces read trio's.
"""

import os
import random
import struct
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from time import time
from typing import Literal, TypeAlias, get_args

from msgspec.structs import force_setattr, replace

from greenroom.core.errors import InvalidSessionIdError
from greenroom.core.frozen import EMPTY, freeze_fields, valid_unicode
from greenroom.core.late_pattern import compile_later
from greenroom.core.serde import Wire
from greenroom.core.usage import Usage
from greenroom.core.visibility import without_hidden

RUNTIME = "runtime"
"""The sender of messages that the runtime writes itself, such as how a subagent ended."""

SUMMARY = "summary"
"""The sender of the summary that a compacted conversation begins with."""

RECALLED = "memory"
"""The sender of what a memory has recalled."""

HOOK = "hook"
"""The sender of what hooks add to a conversation."""

_SESSION_ID = compile_later(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for second in _ALPHABET for first in _ALPHABET]
"""What ten bits stand for: ids are made in pairs of letters, which takes half of the time."""

_random: random.Random | None = None  # in place of the system's, for tests
_MANY = struct.Struct("128Q")
_spare: list[int] = []


_clock: Callable[[], datetime] | None = None  # in place of the system's, for tests


def new_id(prefix: str) -> str:
    """Make an id such as `s-7k2m9q4x1zt0`: a prefix that says what it names, and 60 random bits."""
    bits = _take_bits() if _random is None else _random.getrandbits(60)
    return (
        f"{prefix}-{_PAIRS[bits & 1023]}{_PAIRS[bits >> 10 & 1023]}{_PAIRS[bits >> 20 & 1023]}"
        f"{_PAIRS[bits >> 30 & 1023]}{_PAIRS[bits >> 40 & 1023]}{_PAIRS[bits >> 50]}"
    )


def seed_ids(seed: int | None) -> None:
    """Make the ids of this process repeatable, for tests; None makes them random again."""
    global _random  # noqa: PLW0603
    _random = None if seed is None else random.Random(seed)  # noqa: S311


def _take_bits() -> int:
    """Return 60 bits or more of the system's randomness, of which it is asked for many at once.

    Each call of the system lets another thread run first, if one is ready, and waits for its turn.
    """
    while True:
        try:
            return _spare.pop()
        except IndexError:  # another thread may take them all meanwhile
            _spare.extend(bits >> 4 for bits in _MANY.unpack(os.urandom(_MANY.size)))


os.register_at_fork(after_in_child=_spare.clear)  # or parent and child would make the same ids


def utc_now() -> datetime:
    """Return the present time, aware and in UTC, to the second."""
    if _clock is not None:
        return _clock().replace(microsecond=0)
    return datetime.fromtimestamp(time() // 1, UTC)


def unix_milliseconds() -> int:
    """Return the present time by the same clock, in milliseconds since 1970."""
    seconds = time() if _clock is None else _clock().timestamp()
    return int(seconds * 1000)


def utc_now_ms() -> datetime:
    """Return the present time, aware and in UTC, to the millisecond."""
    if _clock is None:
        return datetime.fromtimestamp(unix_milliseconds() / 1000, UTC)
    now = _clock()
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def set_clock(clock: Callable[[], datetime] | None) -> None:
    """Replace the wall clock in this process, for tests; None puts the system's clock back."""
    global _clock  # noqa: PLW0603
    _clock = clock


def is_system_clock() -> bool:
    """Whether the wall clock is the system's."""
    return _clock is None


def timestamp(moment: datetime) -> str:
    """Write a time as ISO 8601 with a final Z, as the session files hold it.

    Example:
        >>> timestamp(datetime(2026, 1, 14, 10, 30, tzinfo=UTC))
        '2026-01-14T10:30:00Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def check_session_id(session_id: str) -> str:
    """Return the id if it is a text of 1 to 200 characters without control characters.

    Raises:
        InvalidSessionIdError: it is not.
    """
    if not isinstance(session_id, str):
        raise InvalidSessionIdError(
            f"{session_id!r:.140} is not a session id",
            session_id=str(session_id),
            hint="use a text of 1 to 200 characters, or an AgentSession",
        )
    if not _SESSION_ID.fullmatch(session_id):
        raise InvalidSessionIdError(
            f"{session_id[:140]!r} is not a session id",
            session_id=session_id,
            hint="use 1 to 200 characters, without control characters",
        )
    return session_id


@lru_cache(maxsize=256)  # a message is checked whenever it is copied
def check_sender(name: str) -> str:
    """Return the name if it fits the line that tells a model who speaks; empty is a person.

    Raises:
        ValueError: it is longer than 64 characters, or holds brackets or invisible characters.

    Example:
        >>> check_sender("reviewer 2")
        'reviewer 2'
    """
    is_plain = name.isprintable() and without_hidden(name) == name.strip() == name
    if len(name) > 64 or not is_plain or "[" in name or "]" in name:
        raise ValueError(
            f"{name[:80]!r} can't name a sender: use at most 64 printable characters, no brackets"
        )
    return name


# Every block of content may carry `extra`: fields of a provider that have no typed place here
# (citations, cache markers, signatures of other vendors). They go back unchanged to the provider
# that the message came from, and to no other.


class TextBlock(Wire, frozen=True, tag="text"):
    """Text, from a person or from the model."""

    text: str
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")


class ThinkingBlock(Wire, frozen=True, tag="thinking"):
    """The model's reasoning, with the signature that its provider wants back.

    If only the signature was sent, the text is empty; the block still goes back.
    """

    thinking: str
    signature: str = ""
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")


class RedactedThinkingBlock(Wire, frozen=True, tag="redacted_thinking"):
    """Reasoning that the provider encrypts; it goes back unchanged."""

    data: str
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")


class ToolUseBlock(Wire, frozen=True, tag="tool_use"):
    """The model asks for a tool to be run.

    Attributes:
        id: the provider's id of the call; unique within one reply, not within a session. An empty
            one becomes "call", since results need one.
        name: the tool's name.
        input: the arguments; empty if `invalid` is set.
        invalid: why the arguments are unusable (not JSON, not an object, a repeated key); such a
            call is answered with an error and never run.
        raw_input: the argument text, kept only if it is invalid.
    """

    id: str
    name: str
    input: dict[str, object] = EMPTY
    invalid: str = ""
    raw_input: str = ""
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        freeze_fields(self, "input")
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")
        if not self.id:
            force_setattr(self, "id", "call")


class ImageBlock(Wire, frozen=True, tag="image"):
    """An image: either base64 `data` of the media type, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")


class DocumentBlock(Wire, frozen=True, tag="document"):
    """A document such as a PDF: either base64 `data` of the media type, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    title: str = ""
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")


class UnknownBlock(Wire, frozen=True, tag="unknown"):
    """A block of a kind that this version does not know, verbatim in `raw`."""

    raw: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        freeze_fields(self, "raw")


ResultContent: TypeAlias = TextBlock | ImageBlock | DocumentBlock | UnknownBlock
"""A block that the result of a tool may hold."""


class ToolResultBlock(Wire, frozen=True, tag="tool_result"):
    """The answer to one tool use, in the user's next message.

    Raises:
        ValueError: the id of the tool use is empty.
        TypeError: the content is neither a text nor blocks.

    Example:
        >>> ToolResultBlock("t1", as_blocks("12 degrees")).text
        '12 degrees'
        >>> ToolResultBlock("")
        Traceback (most recent call last):
        ValueError: a tool result needs the id of its call: write ToolResultBlock(call.id, …)
    """

    tool_use_id: str = ""  # without one, this says more than Python's own error
    content: tuple[ResultContent, ...] = ()
    is_error: bool = False
    extra: dict[str, object] = EMPTY

    def __post_init__(self) -> None:
        if not isinstance(self.tool_use_id, str) or not self.tool_use_id:
            raise ValueError(
                "a tool result needs the id of its call: write ToolResultBlock(call.id, …)"
            )
        hold_blocks(self, self.content)
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")

    @property
    def text(self) -> str:
        """The result's text, its text blocks joined by newlines."""
        return "\n".join(block.text for block in self.content if isinstance(block, TextBlock))


ContentBlock: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | RedactedThinkingBlock
    | ToolUseBlock
    | ToolResultBlock
    | ImageBlock
    | DocumentBlock
    | UnknownBlock
)
"""Any block of a message."""
_BLOCKS: frozenset[type] = frozenset(get_args(ContentBlock))

UNKNOWN_FIELDS = "unknown_fields"
"""The key of `Message.extra` for fields of a newer Greenroom; they go to no provider."""

Role: TypeAlias = Literal["user", "assistant"]
"""Who a message is from, for the model."""


class StopReason(StrEnum):
    """Why a reply ended, in one vocabulary for every provider.

    `MALFORMED_CALL`: the model wrote a call that its provider could not read, or of a tool that it
    does not have, so the reply lacks it.
    """

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    PAUSE = "pause"
    CONTENT_FILTER = "content_filter"
    MALFORMED_CALL = "malformed_call"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


REFUSALS = frozenset({StopReason.REFUSAL, StopReason.CONTENT_FILTER})
"""The ends of replies that the model, or a filter of its provider, refused to go on with."""


class Message(Wire, frozen=True):  # noqa: PLW1641 (its fields may hold dicts)
    """One message of a conversation: a role and its blocks, in order.

    Messages compare without their ids, times and prefixes.

    Attributes:
        role: "user" (also for tool results) or "assistant".
        content: the blocks, in order.
        model: the model that answered; empty in a user's message.
        provider: the provider of the reply; the `extra` of blocks goes back only there.
        api: the API of the reply, if its provider has several; empty for the usual one.
        stop_reason: why the reply ended; None in a user's message.
        native_stop_reason: the provider's own word for that.
        response_id: the provider's id of the reply.
        usage: tokens of the call, or None if not reported.
        extra: fields that have no typed place here. In a reply, those that its provider sent; the
            ones that it accepts go back to it. In a message without a provider, fields of the
            message on the wire, such as `{"name": "Ann"}` or `{"role": "developer"}`.
        id: names the message; the input's id if it came as an input. Empty in sessions written
            before messages had ids.
        created_at: when it was made, aware and in UTC, to the millisecond; None in such sessions.
        prefix: of a reply, a digest of what its request had before it, if the model binds its
            thinking to that.
        sender: the program or agent that sent a user's message, `RUNTIME` for the runtime itself;
            empty for a person. The model sees a line `[from NAME]` before the text.

    Example:
        >>> message = Message.user("hello")
        >>> message.text, message.created_at.tzinfo
        ('hello', datetime.timezone.utc)
        >>> message == Message.user("hello"), message.id == Message.user("hello").id
        (True, False)
    """

    role: Role
    content: tuple[ContentBlock, ...] = ()
    model: str = ""
    provider: str = ""
    stop_reason: StopReason | None = None
    native_stop_reason: str = ""
    response_id: str = ""
    usage: Usage | None = None
    extra: dict[str, object] = EMPTY
    id: str = ""
    created_at: datetime | None = None
    sender: str = ""
    prefix: str = ""
    api: str = ""

    def __post_init__(self) -> None:
        hold_blocks(self, self.content)
        if self.extra is not EMPTY:
            freeze_fields(self, "extra")
        if self.sender:
            check_sender(self.sender)
        if self.created_at is not None and self.created_at.tzinfo is not UTC:
            force_setattr(self, "created_at", _in_utc(self.created_at))

    @classmethod
    def user(
        cls,
        content: str | Iterable[ContentBlock],
        *,
        id: str = "",  # noqa: A002
        sender: str = "",
    ) -> "Message":
        """Make a user's message of a text or of blocks, with this id or a new one.

        Raises:
            TypeError: the content is neither a text nor blocks.
            ValueError: the sender's name is invalid; see `check_sender`.
        """
        blocks, now = as_blocks(content), utc_now_ms()
        return cls("user", blocks, id=id or new_id("m"), created_at=now, sender=sender)

    @classmethod
    def assistant(cls, content: str | Iterable[ContentBlock]) -> "Message":
        """Make an assistant's message of a text or of blocks."""
        return cls("assistant", as_blocks(content), id=new_id("m"), created_at=utc_now_ms())

    def __eq__(self, other: object) -> bool:
        """Whether the other is a message with the same fields, ids, times and prefixes excepted."""
        if not isinstance(other, Message):
            return NotImplemented
        return all(getattr(self, field) == getattr(other, field) for field in _COMPARED)

    def stamp(self) -> "Message":
        """Return the same message with an id and a time, unless it has them already."""
        if self.id and self.created_at:
            return self
        return replace(self, id=self.id or new_id("m"), created_at=self.created_at or utc_now_ms())

    @property
    def text(self) -> str:
        """The message's text, its text blocks joined."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_uses(self) -> tuple[ToolUseBlock, ...]:
        """The tool uses in this message, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolUseBlock))

    @property
    def tool_results(self) -> tuple[ToolResultBlock, ...]:
        """The tool results in this message, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolResultBlock))


_NOT_COMPARED = {"id", "created_at", "prefix"}
_COMPARED = tuple(field for field in Message.__struct_fields__ if field not in _NOT_COMPARED)


def _in_utc(moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise ValueError(f"created_at has no time zone: {moment} (write datetime.now(UTC))")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError(f"created_at is not a time in UTC: {moment}") from error


def as_blocks(content: str | Iterable[ContentBlock]) -> tuple[ContentBlock, ...]:
    """Return blocks as a tuple, and a text as one block of valid Unicode.

    Raises:
        TypeError: it is neither, or something in it is not a block; the message says what to pass.
    """
    if isinstance(content, str):
        return (TextBlock(valid_unicode(content)),)
    if isinstance(content, Iterable) and not isinstance(content, bytes | Mapping):
        return _check_blocks(tuple(content))
    hint = ""
    if isinstance(content, ContentBlock):
        hint = ": pass a list of one, for a single block"
    elif hasattr(content, "content"):
        hint = ": pass its .content"
    raise TypeError(f"content is a text or a list of blocks, not {content!r:.200}{hint}")


def _check_blocks(content: "tuple[ContentBlock, ...]") -> "tuple[ContentBlock, ...]":
    for block in content:
        if type(block) not in _BLOCKS and not isinstance(block, ContentBlock):
            hint = (
                "pass its .content"
                if isinstance(block, Message)
                else "write TextBlock(…) for a text"
            )
            raise TypeError(f"{block!r:.200} is not a block: {hint}")
    return content


def hold_blocks(value: Wire, content: "str | Iterable[ContentBlock]") -> None:
    """Make the content of a new message or result blocks, if it is a text or a list.

    Raises:
        TypeError: it is neither, or something in it is not a block.
    """
    if isinstance(content, tuple):
        _check_blocks(content)
    else:
        force_setattr(value, "content", as_blocks(content))
