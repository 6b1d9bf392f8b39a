"""Characters that would let a command look like another one."""

import unicodedata

from greenroom.core import visible

__all__ = ["hidden_characters"]

# Picks the coloured form of an emoji; it shows as part of it and hides nothing.
_HARMLESS = "\N{VARIATION SELECTOR-16}"
MAX_NAMED = 5


def hidden_characters(text: str) -> str:
    r"""Name the control, invisible and direction-changing characters of a text; empty if none.

    Example:
        >>> hidden_characters("ls \u202e.txt")
        'U+202E (RIGHT-TO-LEFT OVERRIDE)'
    """
    if text.isascii() and text.isprintable():
        return ""
    hidden = sorted(ch for ch in set(text) if ch != _HARMLESS and visible(ch) != ch)
    return ", ".join(
        f"U+{ord(ch):04X} ({unicodedata.name(ch, 'a control character')})"
        for ch in hidden[:MAX_NAMED]
    )
