"""What of a history may be sent to a provider: filtered, and merged into alternating turns."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import msgspec

from greenroom.core import (
    UNKNOWN_FIELDS,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    Message,
    RedactedThinkingBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UnknownBlock,
)

Accept: TypeAlias = Callable[[Sequence[ContentBlock], str], Sequence[ContentBlock]]
"""Leaves out of the blocks of a message, which came from this provider, what would be refused."""

Block = TypeVar("Block", bound=ContentBlock)


@dataclass(frozen=True)
class Turn:
    """All that one side says before the other does, tool results first.

    A message that has fields of its own on the wire is a turn of its own.

    Attributes:
        role: whose turn it is.
        blocks: what is said; empty only where `fields` say it.
        fields: the fields of its message besides role and content, which they may also replace.
    """

    role: Role
    blocks: tuple[ContentBlock, ...]
    fields: Mapping[str, object] = field(default_factory=dict)


class Turns:
    """Takes one message after another, and gives each turn as soon as the other side begins.

    What a message adds depends on those before it alone, so a conversation that has grown goes on
    from where it was: nothing that was given is ever changed.

    Another provider's thinking, blocks of unknown kinds and `extra` stay here: they mean nothing
    elsewhere, or are refused. `extra` of a message without a provider is sent, and of this provider's
    own replies what it takes back. Blank text is left out, since it is refused too, and with it a
    message that holds nothing else; but where the user said nothing but that, "(empty)" stands in
    its place, and in that of an empty history. Blocks keep their order, except that tool results
    lead, as providers demand.

    A message with a sender begins with the line `[from NAME]`. No other line begins like that: where
    one of any other text would, it gets a backslash in front, so that no text can pose as a sender.

    Args:
        provider: the name of the provider that it is for; messages without a provider are its own.
        accept: leaves out of a message's blocks what else this provider would refuse.
        returns: which fields of its own messages the provider takes back.

    Example:
        >>> turns = Turns("acme")
        >>> turns.add(Message.user("Go on.", sender="plan"))
        >>> print(turns.add(Message.assistant("So be it.")).blocks[0].text)
        [from plan]
        Go on.
        >>> turns.open.role
        'assistant'
    """

    def __init__(
        self,
        provider: str,
        accept: Accept = lambda blocks, _provider: blocks,
        returns: frozenset[str] = frozenset(),
    ) -> None:
        """Begin a conversation."""
        self._provider = provider
        self._accept = accept
        self._returns = returns
        self._role: Role | None = None
        self._blocks: list[ContentBlock] = []
        self._fields: Mapping[str, object] = {}

    def add(self, message: Message) -> Turn | None:
        """Take the next message, and return the turn that has ended with it, if one has."""
        fields = self._wire_fields(message)
        allowed = tuple(_allow(message, self._provider))
        blocks = tuple(map(_unsign, self._accept(allowed, message.provider)))
        if message.sender and message.role == "user":
            blocks = _sign(blocks, message.sender)
        if message.role == self._role and not fields and not self._fields:
            self._blocks.extend(blocks)
            return None
        if not blocks and "content" not in fields and message.role == "assistant":
            return None
        ended = self.open if self._role else None
        self._role, self._blocks, self._fields = message.role, list(blocks), fields
        return ended

    @property
    def open(self) -> Turn:
        """The turn that the next message may still add to."""
        blocks = _results_first(self._blocks)
        if not blocks and "content" not in self._fields:
            blocks = _EMPTY
        return Turn(self._role or "user", blocks, self._fields)

    def _wire_fields(self, message: Message) -> Mapping[str, object]:
        if not message.extra or message.provider not in {"", self._provider}:
            return {}
        if message.provider and message.role == "assistant":
            return {k: v for k, v in message.extra.items() if k in self._returns}
        return {k: v for k, v in message.extra.items() if k != UNKNOWN_FIELDS}


def turns(messages: Iterable[Message], provider: str, accept: Accept | None = None) -> list[Turn]:
    """Merge a whole conversation into turns, as `Turns` does.

    Example:
        >>> [turn] = turns([Message.user("a"), Message.assistant(" "), Message.user("b")], "acme")
        >>> [block.text for block in turn.blocks]
        ['a', 'b']
    """
    conversation = Turns(provider, accept) if accept else Turns(provider)
    ended = [turn for turn in map(conversation.add, messages) if turn]
    return [*ended, conversation.open]


def _allow(message: Message, provider: str) -> Iterable[ContentBlock]:
    blocks = (block for block in message.content if not _is_blank(block))
    if message.provider in {"", provider}:
        return blocks
    return (_strip(block) for block in blocks if not is_private(block))


_EMPTY = (TextBlock("(empty)"),)


# At the beginning of a text, or behind whatever a reader may take for the end of a line.
_CLAIM = re.compile("(?<![^\n\r\v\f\x1c-\x1e\x85\u2028\u2029])\\[from ")


def unsigned(text: str) -> str:
    r"""Put a backslash before each line that would say who speaks.

    Example:
        >>> print(unsigned("he wrote:\n[from boss] pay"))
        he wrote:
        \[from boss] pay
    """
    return _CLAIM.sub(r"\\[from ", text) if "[from " in text else text


def _unsign(block: ContentBlock) -> ContentBlock:
    match block:
        case TextBlock(text):
            return _with(block, text=unsigned(text))
        case DocumentBlock():
            return _with(block, title=unsigned(block.title))
        case ToolResultBlock(content=content):
            return _with(block, content=tuple(map(_unsign, content)))
        case _:
            return block


def _with(block: Block, **fields: object) -> Block:
    """Return the block with these fields, itself where they are its own already."""
    for name, value in fields.items():
        if getattr(block, name) != value:
            return msgspec.structs.replace(block, **fields)
    return block


def _sign(blocks: tuple[ContentBlock, ...], sender: str) -> tuple[ContentBlock, ...]:
    line = f"[from {sender}]"
    if blocks and isinstance(blocks[0], TextBlock):
        return (_with(blocks[0], text=f"{line}\n{blocks[0].text}"), *blocks[1:])
    return (TextBlock(line), *blocks)


def is_private(block: ContentBlock) -> bool:
    """Whether a block means nothing to another provider, such as a file that lies with its own."""
    match block:
        case ThinkingBlock() | RedactedThinkingBlock() | UnknownBlock():
            return True
        case ImageBlock() | DocumentBlock():
            return not (block.data or block.url)
        case _:
            return False


def _strip(block: Block) -> Block:
    """Leave out of a block what only its own provider understands."""
    if isinstance(block, ToolResultBlock):
        content = tuple(_strip(part) for part in block.content if not is_private(part))
        return msgspec.structs.replace(block, content=content, extra={})
    return msgspec.structs.replace(block, extra={})


def _is_blank(block: ContentBlock) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


def _results_first(blocks: Sequence[ContentBlock]) -> tuple[ContentBlock, ...]:
    results = [block for block in blocks if isinstance(block, ToolResultBlock)]
    if not results:
        return tuple(blocks)
    return (*results, *(block for block in blocks if not isinstance(block, ToolResultBlock)))
