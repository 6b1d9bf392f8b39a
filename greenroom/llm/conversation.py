"""What of a history may be sent to a provider: filtered, then merged into alternating turns."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from greenroom.core import (
    ContentBlock,
    DocumentBlock,
    Message,
    RedactedThinkingBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UnknownBlock,
)

__all__ = ["Turn", "turns", "unsigned"]

Block = TypeVar("Block", bound=ContentBlock)


@dataclass(frozen=True)
class Turn:
    """All that one side says before the other does: never empty, tool results first."""

    role: Role
    blocks: tuple[ContentBlock, ...]


def turns(
    messages: Sequence[Message],
    provider: str,
    accepted: Callable[[Sequence[ContentBlock]], Sequence[ContentBlock]] = lambda blocks: blocks,
) -> list[Turn]:
    """Merge messages into turns, holding only what this provider takes.

    Another provider's thinking, blocks of unknown kinds and `extra` stay here: they mean nothing
    elsewhere, or are refused. Blank text is left out, since it is refused too, and with it a
    message that holds nothing else; but where the user said nothing but that, "(empty)" stands in
    its place, and in that of an empty history. Blocks keep their order, except that tool results
    lead, as providers demand.

    A message with a sender begins with the line `[from NAME]`. No other line begins like that: where
    one of any other text would, it gets a backslash in front, so that no text can pose as a sender.

    Args:
        messages: the history.
        provider: the name of the provider that it is for; messages without a provider are its own.
        accepted: leaves out of a message's blocks what else this provider would refuse.

    Example:
        >>> turns([Message.user("a"), Message.assistant(" "), Message.user("b")], "acme")
        [Turn(role='user', blocks=(TextBlock(text='a', extra={}), TextBlock(text='b', extra={})))]
        >>> [turn] = turns([Message.user("Go on.", sender="plan")], "acme")
        >>> print(turn.blocks[0].text)
        [from plan]
        Go on.
    """
    merged: list[Turn] = []
    for message in messages:
        blocks = tuple(map(_unsigned, accepted(tuple(_allowed(message, provider)))))
        if message.sender and message.role == "user":
            blocks = _signed(blocks, message.sender)
        if merged and merged[-1].role == message.role:
            merged[-1] = Turn(message.role, merged[-1].blocks + blocks)
        elif blocks or message.role == "user":
            merged.append(Turn(message.role, blocks))
    merged = merged or [Turn("user", ())]
    return [Turn(turn.role, _results_first(turn.blocks) or _EMPTY) for turn in merged]


def _allowed(message: Message, provider: str) -> Iterable[ContentBlock]:
    blocks = (block for block in message.content if not _is_blank(block))
    if message.provider in {"", provider}:
        return blocks
    return (_stripped(block) for block in blocks if not isinstance(block, _PRIVATE))


_EMPTY = (TextBlock("(empty)"),)
_PRIVATE = (ThinkingBlock, RedactedThinkingBlock, UnknownBlock)


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


def _unsigned(block: ContentBlock) -> ContentBlock:
    match block:
        case TextBlock(text):
            return _with(block, text=unsigned(text))
        case DocumentBlock():
            return _with(block, title=unsigned(block.title))
        case ToolResultBlock(content=content):
            return _with(block, content=tuple(map(_unsigned, content)))
        case _:
            return block


def _with(block: Block, **fields: object) -> Block:
    """Return the block with these fields, itself where they are its own already."""
    same = all(getattr(block, name) == value for name, value in fields.items())
    return block if same else msgspec.structs.replace(block, **fields)


def _signed(blocks: tuple[ContentBlock, ...], sender: str) -> tuple[ContentBlock, ...]:
    line = f"[from {sender}]"
    if blocks and isinstance(blocks[0], TextBlock):
        return (_with(blocks[0], text=f"{line}\n{blocks[0].text}"), *blocks[1:])
    return (TextBlock(line), *blocks)


def _stripped(block: ContentBlock) -> ContentBlock:
    return msgspec.structs.replace(block, extra={})


def _is_blank(block: ContentBlock) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


def _results_first(blocks: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
    return tuple(sorted(blocks, key=lambda block: not isinstance(block, ToolResultBlock)))
