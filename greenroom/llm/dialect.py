"""The format of a provider's requests, and a conversation in it."""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias

import msgspec

from greenroom.core import ContentBlock, Message, ModelRequest
from greenroom.llm.bound_thinking import BoundThinking
from greenroom.llm.merged_messages import MediaLimits, MergedMessage
from greenroom.llm.portable_calls import CallRules


class EncodedMessage(msgspec.Struct):
    """One merged message in a provider's format.

    Attributes:
        messages: the messages on the wire as plain JSON, usually one; never changed.
        wire: the same as bytes, separated by commas; may be empty.
        is_marked: whether it has marks for the provider's cache.
        with_mark: the same as bytes with a mark, once it was made; empty if it can't have one.
    """

    messages: Sequence[Mapping[str, object]]
    wire: bytes
    is_marked: bool
    with_mark: bytes | None = None


class EncodedConversation(msgspec.Struct, frozen=True):
    """A conversation in a provider's format; valid until its encoder continues.

    Attributes:
        prefix: all messages but the last few as bytes, separated by commas; may be empty.
        latest: the last few messages, at least three of each side if there are so many; never
            empty.
        is_marked: whether a message has marks for the provider's cache.
        thinking: what became of thinking that is bound to what came before it.
        changes: what else is not sent as it is, a sentence each.
        ends: for each encoded message but the last one, how many messages of the conversation it
            ends with, and for those in `prefix`, after how many bytes.
    """

    prefix: bytes | bytearray
    latest: Sequence[EncodedMessage]
    is_marked: bool
    thinking: BoundThinking
    changes: tuple[str, ...] = ()
    ends: Sequence[tuple[int, int]] = ()

    def pieces_after(self, count: int) -> list[bytes | bytearray]:
        """Return what follows the first `count` messages, as `pieces` does.

        This is for an API that has the beginning of a conversation already.

        Raises:
            ValueError: what is sent of the next message is part of the same message as they are.
        """
        if not count:
            return self.pieces()
        place = bisect_left(self.ends, (count, 0))
        if place == len(self.ends) or self.ends[place][0] != count:
            raise ValueError(f"no encoded message ends after {count} messages")
        in_prefix = len(self.ends) + 1 - len(self.latest)
        if place >= in_prefix:
            return [message.wire for message in self.latest[place + 1 - in_prefix :]]
        rest = self.prefix[self.ends[place][1] :].removeprefix(b",")
        return [rest, *(message.wire for message in self.latest)]

    def pieces(self) -> list[bytes | bytearray]:
        """Return the conversation as pieces to be joined by commas; some may be empty."""
        return [self.prefix, *(message.wire for message in self.latest)]


WriteMessages: TypeAlias = Callable[[EncodedConversation], Iterable[bytes | bytearray]]
"""Returns the messages of a request as pieces to be joined by commas."""


class Dialect(Protocol):
    """The format of a provider's requests; every method is a pure function of its arguments."""

    @property
    def provider(self) -> str:
        """The provider's name; parts that only another provider understands are not sent."""

    @property
    def api(self) -> str:
        """The `Message.api` of its replies, if the provider has several; else empty."""

    @property
    def calls(self) -> CallRules:
        """The ids and names of calls that the provider accepts."""

    @property
    def echoed_fields(self) -> frozenset[str]:
        """The fields of its own messages that the provider accepts back."""

    @property
    def bound_to(self) -> str:
        """The model, if its thinking is bound to what came before it; else an empty text."""

    @property
    def limits(self) -> MediaLimits:
        """How large images, documents and requests may be."""

    def accept(self, blocks: Sequence[ContentBlock], message: Message) -> Sequence[ContentBlock]:
        """Return the blocks of a message without those that this provider refuses."""

    def write(self, message: MergedMessage) -> Sequence[Mapping[str, object]]:
        """Write a message, whose calls have their final names and ids, as JSON messages.

        Raises:
            ModelBadRequestError: it contains something that can't be written.
        """

    def is_marked(self, messages: Sequence[Mapping[str, object]], wire: bytes) -> bool:
        """Whether messages, and the same as bytes, have marks for the provider's cache.

        Then no others are added.
        """

    def body(
        self, request: ModelRequest, *, is_marked: bool
    ) -> tuple[Mapping[str, object], WriteMessages]:
        """Return the fields of the request, and what writes its messages.

        Both hold for all requests that differ in their messages alone; `is_marked` says whether
        those have marks for the provider's cache. The messages go into the field whose value is
        `MESSAGES`; if the options of the request replace that field, they are not sent. Fields that
        are `msgspec.UNSET` are left out.
        """
