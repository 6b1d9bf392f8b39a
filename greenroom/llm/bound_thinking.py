"""Thinking that is bound to what came before it: left out where that has changed.

The newest Claude models sign each block of thinking together with its prefix: the system prompt,
the tools, and all earlier messages. Sent back behind anything else, it is refused, and so is the
whole request. So each reply keeps a digest of its own prefix, `Message.prefix`. A request is
digested message by message, and thinking whose prefix is another one is left out; that changes the
prefix of all later thinking, which is left out as well.

Source: https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks
"""

from hashlib import blake2b

import msgspec

from greenroom.core import Message, ModelRequest, RedactedThinkingBlock, ThinkingBlock
from greenroom.core._internal import serde


class BoundThinking:
    """Reads a conversation in its order, and leaves out thinking that no longer fits.

    Example:
        >>> from greenroom.core import TextBlock
        >>> hello, thought = Message.user("hello"), ThinkingBlock("hm", "signature")
        >>> before = BoundThinking(b"")
        >>> before.add(hello) is hello
        True
        >>> reply = Message("assistant", (thought, TextBlock("hi")), prefix=before.prefix)
        >>> before.add(reply) is reply
        True
        >>> elsewhere = BoundThinking(b"other tools")
        >>> [block.text for message in (hello, reply) for block in elsewhere.add(message).content]
        ['hello', 'hi']
        >>> elsewhere.left_out
        1
    """

    def __init__(self, beginning: bytes) -> None:
        """Begin behind the model, the system prompt and the tools, as `digest_beginning` has it."""
        self._digest = blake2b(beginning, digest_size=16)
        self.left_out = 0
        """How many messages had thinking that was left out."""

    @property
    def prefix(self) -> str:
        """The digest of all that was read; the prefix of the message that comes next."""
        return self._digest.hexdigest()

    def add(self, message: Message) -> Message:
        """Read the next message; return it without its thinking if that no longer fits."""
        if any(map(_is_bound, message.content)) and message.prefix != self.prefix:
            kept = tuple(block for block in message.content if not _is_bound(block))
            message = msgspec.structs.replace(message, content=kept)
            self.left_out += 1
        self._digest.update(
            serde.encode([message.role, message.sender, message.extra, message.content])
        )
        return message

    def copy(self) -> "BoundThinking":
        """Return another reader that has read as much."""
        other = BoundThinking(b"")
        other._digest, other.left_out = self._digest.copy(), self.left_out
        return other


def digest_beginning(request: ModelRequest, model: str) -> bytes:
    """Return a digest of what comes before the first message of a request to this model."""
    given = {name: request.options[name] for name in ("system", "tools") if name in request.options}
    tools = [(tool.name, tool.description, tool.parameters, tool.extra) for tool in request.tools]
    return blake2b(serde.encode([model, request.system, tools, given]), digest_size=16).digest()


def _is_bound(block: object) -> bool:
    return isinstance(block, ThinkingBlock | RedactedThinkingBlock)
