"""Text on its way to a page: made printable, and facts put into words."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from greenroom.core import (
    DocumentBlock,
    ImageBlock,
    Message,
    StopReason,
    Usage,
    visible,
)

# Joiners and variation selectors make up words of many scripts, and most emoji; they hide nothing.
_JOINERS = re.compile("([\u200c\u200d\ufe0e\ufe0f])")
_USUAL = {None, StopReason.END_TURN, StopReason.TOOL_USE, StopReason.STOP_SEQUENCE}


def printed(text: str) -> str:
    r"""Write what no page should hold, such as controls and bidirectional overrides, as escapes.

    Lines end at `\n` alone. Joiners stay, as many scripts and emoji need them.

    Example:
        >>> print(printed("red \x1b[31m\r\nline"))
        red \u{1b}[31m
        line
    """
    parts = _JOINERS.split(text.replace("\r\n", "\n"))
    return "".join(part if at % 2 else visible(part) for at, part in enumerate(parts))


def file_words(block: ImageBlock | DocumentBlock) -> str:
    """Name an image or a document: its title, kind, and where it is or how long.

    Example:
        >>> file_words(DocumentBlock("application/pdf", data="JVBERi0=", title="Plan"))
        'Document “Plan”, application/pdf, 5 bytes'
    """
    kind = "Image" if isinstance(block, ImageBlock) else "Document"
    title = block.title if isinstance(block, DocumentBlock) else ""
    parts = [f"{kind} “{title}”" if title else kind, block.media_type, block.url]
    if block.data:
        parts.append(f"{len(block.data) * 3 // 4 - block.data[-2:].count('='):,} bytes")
    return " ".join(printed(", ".join(part for part in parts if part)).split())


def stop_words(message: Message) -> str:
    """Say how a reply ended, where that was unusual.

    Example:
        >>> stop_words(Message("assistant", stop_reason=StopReason.MAX_TOKENS))
        'stopped: max tokens'
    """
    reason = message.stop_reason
    return (
        f"stopped: {reason.replace('_', ' ')}"
        if reason is not None and reason not in _USUAL
        else ""
    )


def usage_words(messages: Iterable[Message]) -> str:
    """Say how many tokens these replies used, and what they cost, as far as that is known.

    Example:
        >>> usage_words([Message("assistant", usage=Usage(1200, 30, cost=0.0042))])
        '1,200 tokens in, 30 out, $0.0042'
    """
    usages = [message.usage for message in messages if message.usage is not None]
    if not usages:
        return ""
    usage = sum(usages, Usage())
    read = usage.cache_read_tokens or 0
    sent = (usage.input_tokens or 0) + read + (usage.cache_write_tokens or 0)
    cached = f" ({read:,} cached)" if read else ""
    cost = f", ${usage.cost:,.4f}" if usage.cost is not None else ""
    return f"{sent:,} tokens in{cached}, {usage.output_tokens or 0:,} out{cost}"


def time_words(moment: datetime) -> str:
    """Write a time for people, in UTC.

    Example:
        >>> time_words(datetime(2026, 1, 14, 10, 30, tzinfo=UTC))
        '2026-01-14 10:30 UTC'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
