"""What of a history may be sent to a provider: filtered, then merged into alternating turns."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from greenroom.core import (
    ContentBlock,
    Message,
    RedactedThinkingBlock,
    Role,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    UnknownBlock,
)

__all__ = ["Turn", "turns"]


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

    Args:
        messages: the history.
        provider: the name of the provider that it is for; messages without a provider are its own.
        accepted: leaves out of a message's blocks what else this provider would refuse.

    Example:
        >>> turns([Message.user("a"), Message.assistant(" "), Message.user("b")], "acme")
        [Turn(role='user', blocks=(TextBlock(text='a', extra={}), TextBlock(text='b', extra={})))]
    """
    merged: list[Turn] = []
    for message in messages:
        blocks = tuple(accepted(tuple(_allowed(message, provider))))
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


def _stripped(block: ContentBlock) -> ContentBlock:
    return msgspec.structs.replace(block, extra={})


def _is_blank(block: ContentBlock) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip()


def _results_first(blocks: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
    return tuple(sorted(blocks, key=lambda block: not isinstance(block, ToolResultBlock)))
