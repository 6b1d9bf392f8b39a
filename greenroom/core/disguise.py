"""Text that is to be judged by a person: shown exactly, and with a warning where it misleads."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import islice

from greenroom.core.text import visible

__all__ = ["disguises", "exact", "texts_in"]

# Blanks that are none to a shell, or take no ink where one is expected.
_ODD_BLANKS = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u2800\u3000]")
_PADDING = re.compile(r"[ \t]{33,}|\t{5,}")
_EMPTY_LINES = re.compile(r"\n(?:[ \t]*+\n){4,}+")
_SOME_EMPTY_LINES = re.compile(r"\n(?:[ \t]*+\n){4}")
# A word with a letter of ASCII and one that is none.
_MIXED = re.compile(r"\b(?=[^\W]*?[A-Za-z])(?=[A-Za-z0-9_]*+[^\W])\w++")
_LIKE_LATIN = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "FULLWIDTH", "MATHEMATICAL", "LISU")
_NAMED = 3  # words in a warning
_SHOWN = 40  # letters of each

_HIDES = "it holds characters that would hide; they are shown as \\u{…}"
_PADS = "it holds long runs of blanks or empty lines; how long they are stands in their place"
_MIXES = "letters of several alphabets that look alike stand in one word: "


def exact(text: str) -> str:
    r"""Show what a text is, so that nothing in it can hide, pose as something else or push it away.

    As `visible`, and blanks that only look like one are escaped as well; a run of more than 32
    blanks or of more than 4 empty lines is told by its length.

    Example:
        >>> print(exact("ls" + " " * 3000 + "; rm\u00a0-rf x"))
        ls…(3000 blanks)…; rm\u{a0}-rf x
    """
    text = _ODD_BLANKS.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", visible(text))
    text = _EMPTY_LINES.sub(
        lambda found: f"\n…({found[0].count(chr(10)) - 1} empty lines)…\n", text
    )
    return _PADDING.sub(lambda found: f"…({len(found[0])} blanks)…", text)


def disguises(*texts: str) -> tuple[str, ...]:
    r"""Return what may mislead a reader of these texts, a sentence each; empty where nothing does.

    Example:
        >>> disguises("ls -l"), disguises("ls \u202e")
        ((), ('it holds characters that would hide; they are shown as \\u{…}',))
    """
    found = []
    if any(visible(text) != text or _ODD_BLANKS.search(text) for text in texts):
        found.append(_HIDES)
    if any(_PADDING.search(text) or _SOME_EMPTY_LINES.search(text) for text in texts):
        found.append(_PADS)
    mixed = dict[str, None]()
    for text in texts:
        mixed |= dict.fromkeys(islice(_mixed(text), _NAMED + 1))
    if mixed:
        more = " and others" if len(mixed) > _NAMED else ""
        found.append(_MIXES + ", ".join(islice(mixed, _NAMED)) + more)
    return tuple(found)


def texts_in(value: object) -> Iterator[str]:
    """Go through every text in a JSON value, such as a call's input; tools show of it what they wish.

    Example:
        >>> list(texts_in({"a": "x", "b": ["y", {"c": 1}]}))
        ['x', 'y']
    """
    waiting = [value]
    while waiting:
        each = waiting.pop(0)
        if isinstance(each, str):
            yield each
        elif isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list | tuple):
            waiting += each


def _mixed(text: str) -> Iterator[str]:
    """Find words of ASCII letters among which stand others that look like them."""
    if text.isascii():
        return
    for found in _MIXED.finditer(text):
        word = found[0]
        if odd := next((ch for ch in word if _looks_latin(ch)), ""):
            yield f"{word[:_SHOWN]} (U+{ord(odd):04X})"


def _looks_latin(character: str) -> bool:
    if character.isascii():
        return False
    return unicodedata.name(character, "").startswith(_LIKE_LATIN)
