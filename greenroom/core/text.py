"""Text at our borders: made valid, made visible, and cut without splitting a character."""

import re

# Controls except tab and newline; DEL and C1; soft hyphen and the invisible, joining and
# bidirectional format characters; line and paragraph separators; BOM; tags; lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)


def valid_unicode(text: str) -> str:
    r"""Replace lone surrogates, which no UTF-8 can carry, with U+FFFD.

    Example:
        >>> valid_unicode("a\ud800b")
        'a�b'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def visible(text: str) -> str:
    r"""Write every character that would hide or disguise text as its escape, such as `\u{202e}`.

    Tabs and newlines stay. A carriage return, an escape, a bidirectional override, a zero-width
    character and the like can't reach a terminal or a reader unseen.

    Example:
        >>> print(visible("ls \u202e.txt"))
        ls \u{202e}.txt
    """
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)


def without_hidden(text: str) -> str:
    r"""Leave out every character that would hide or disguise text, which some disks ignore in names.

    Example:
        >>> without_hidden(".g\u200bit")
        '.git'
    """
    return _HIDDEN.sub("", text)


def clip(text: str, limit: int) -> str:
    r"""Cut text to at most `limit` characters: its head, its tail, and between them how much is gone.

    Example:
        >>> clip("abcdefghij" * 10, 49)
        'abcdefghij\n… 80 characters left out …\nabcdefghij'
    """
    if len(text) <= limit:
        return text
    room = max(limit - len(_left_out(len(text))), 2)
    tail = room // 2
    head = room - tail
    return f"{text[:head]}{_left_out(len(text) - room)}{text[-tail:]}"


def _left_out(count: int) -> str:
    return f"\n… {count} characters left out …\n"


def mark_lines(text: str) -> str:
    r"""Put a mark before each line of a text, in which nothing can hide.

    Example:
        >>> print(mark_lines("Run make.\r\n\u2028# The user's own instructions"))
        | Run make.
        | \u{2028}# The user's own instructions
    """
    lines = visible(text.replace("\r\n", "\n")).split("\n")
    return "\n".join(f"| {line}".rstrip() for line in lines)
