"""Characters that would let a command look like another one."""

import unicodedata
from collections.abc import Iterable, Iterator

from greenroom.core import lookalikes, visible
from greenroom.permissions.facts.fact import Command, Fact, Unknown

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
    return _named(sorted(ch for ch in set(text) if ch != _HARMLESS and visible(ch) != ch))


def posing_words(facts: Iterable[Fact]) -> Iterator[Unknown]:
    """Find the programs, options, paths and hosts of commands that look like others in ASCII.

    Text in quotes is left alone, unless it is a path or a host, and so are words of a language.
    """
    for fact in facts:
        if isinstance(fact, Command) and not fact.text.isascii():
            for at, word in enumerate(fact.argv):
                if at == 0 or word.text.startswith("-"):
                    yield from posing(word.text.partition("=")[0])
                elif not word.quoted or ("/" in word.text and " " not in word.text):
                    yield from posing(word.text, sure=True)


def posing(text: str, *, sure: bool = False) -> Iterator[Unknown]:
    """Say which letters of a text make it look like another one in ASCII, if there are any."""
    if letters := lookalikes(text, sure=sure):
        why = f"{text} holds letters that look like those of ASCII: {_named(letters)}"
        yield Unknown(reason=why)


def _named(characters: Iterable[str]) -> str:
    return ", ".join(
        f"U+{ord(ch):04X} ({unicodedata.name(ch, 'a control character')})"
        for ch in list(characters)[:MAX_NAMED]
    )
