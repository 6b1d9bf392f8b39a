"""Content blocks: what a message is made of.

Every block may carry `extra`: fields that a provider sent with it, or wants back with it, and that
have no typed place here (citations, cache markers, signatures of other vendors). They are sent back
unchanged to the provider that the message came from, and to no other.
"""

from typing import TypeAlias

import msgspec

from greenroom.core.wire import Wire


class TextBlock(Wire, frozen=True, tag="text"):
    """Text, from a person or from the model."""

    text: str
    extra: dict[str, object] = {}


class ThinkingBlock(Wire, frozen=True, tag="thinking"):
    """The model's reasoning, with the signature that its provider wants back.

    The text may be empty where only the signature was sent; such a block still goes back.
    """

    thinking: str
    signature: str = ""
    extra: dict[str, object] = {}


class RedactedThinkingBlock(Wire, frozen=True, tag="redacted_thinking"):
    """Reasoning that the provider sends encrypted; it goes back as it came."""

    data: str
    extra: dict[str, object] = {}


class ToolUseBlock(Wire, frozen=True, tag="tool_use"):
    """The model asks for a tool to be run.

    Attributes:
        id: the provider's id of the call; unique within one reply, not within a session.
        name: the tool's name.
        input: the arguments; empty where `invalid` is set.
        invalid: why the arguments can't be used (no JSON, no object, a key twice); a call with it
            is answered with an error and never run.
        raw_input: the argument text as it came, kept only where it is invalid.
    """

    id: str
    name: str
    input: dict[str, object] = {}
    invalid: str = ""
    raw_input: str = ""
    extra: dict[str, object] = {}


class ImageBlock(Wire, frozen=True, tag="image"):
    """An image: either base64 `data` of the media type, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    extra: dict[str, object] = {}


class DocumentBlock(Wire, frozen=True, tag="document"):
    """A document such as a PDF: either base64 `data` of the media type, or a `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    title: str = ""
    extra: dict[str, object] = {}


class UnknownBlock(Wire, frozen=True, tag="unknown"):
    """A block of a kind that this version does not know, kept verbatim in `raw`."""

    raw: dict[str, object] = msgspec.field(default_factory=dict)


ResultContent: TypeAlias = TextBlock | ImageBlock | DocumentBlock | UnknownBlock
"""What a tool's result may hold."""


class ToolResultBlock(Wire, frozen=True, tag="tool_result"):
    """The answer to one tool use, in the user's next message."""

    tool_use_id: str
    content: tuple[ResultContent, ...] = ()
    is_error: bool = False
    extra: dict[str, object] = {}

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
