"""Stream events: what a model's reply is made of while it arrives, the same for every provider."""

from typing import Literal, TypeAlias

from greenroom.core import ContentBlock, Message, Usage, Wire


class StreamStart(Wire, frozen=True, tag="stream_start"):
    """The reply begins: the model that answers, and the provider's id of the reply."""

    model: str = ""
    response_id: str = ""


class BlockStart(Wire, frozen=True, tag="block_start"):
    """A block begins; its index orders it in the reply, its kind is the provider's word for it."""

    index: int
    kind: str


class BlockDelta(Wire, frozen=True, tag="block_delta"):
    """A piece of a block: of its text, of its thinking, or of a tool's argument text."""

    index: int
    kind: Literal["text", "thinking", "tool_input"]
    text: str


class BlockEnd(Wire, frozen=True, tag="block_end"):
    """A block is complete; `block` is authoritative, whatever its deltas were."""

    index: int
    block: ContentBlock


class UsageUpdate(Wire, frozen=True, tag="usage_update"):
    """The tokens used as far as reported; each update replaces the one before."""

    usage: Usage


class Notice(Wire, frozen=True, tag="notice"):
    """Something that belongs to no block, such as a ping or an event of an unknown kind."""

    kind: str
    text: str = ""


class Announcement(Wire, frozen=True, tag="announcement"):
    """Something that the readers of an agent are told; it is published as a `Custom` chunk.

    The fields are those of `Custom`: a dotted kind, the facts as JSON, and one line of text.
    """

    kind: str
    data: dict[str, object] = {}
    text: str = ""


class StreamRestart(Wire, frozen=True, tag="stream_restart"):
    """The reply begins anew: what has come before is not part of it.

    `partial` is what had come, with the usage that was reported of it, which is not in that of the
    reply to come.
    """

    partial: Message


class StreamEnd(Wire, frozen=True, tag="stream_end"):
    """The reply is complete: the provider said so, the connection did not just end."""

    message: Message


StreamEvent: TypeAlias = (
    StreamStart
    | BlockStart
    | BlockDelta
    | BlockEnd
    | UsageUpdate
    | Notice
    | Announcement
    | StreamRestart
    | StreamEnd
)
"""Anything that a model stream yields; the last event of a complete reply is its `StreamEnd`."""
