"""Words with the values of variables that the text itself gives them.

`for f in .env; do cat "$f"; done` reads `.env`: what is denied is looked for behind variables as well.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from greenroom.permissions.facts.word import Word

__all__ = ["TooManyValuesError", "substituted"]

Values: TypeAlias = Callable[[str], Sequence[Word]]

MAX_REPEATS = 2  # of one variable in the place of another's value
COST = 32  # of one command, however short
_REFERENCE = re.compile(
    r"\$(?:([A-Za-z_]\w*)"
    r"|\{([A-Za-z_]\w*)\}"
    r"|\{((?:\w+|[@*#?$!-])(?::?[-+]|//?[^{}$`/]*/)[^{}$`]*)\})"
)
_INSTEAD = re.compile(r"(?:\w+|[@*#?$!-])(?::?[-+]|//?[^/]*/)(.*)", re.DOTALL)


class TooManyValuesError(Exception):
    """More text than there is room for."""


def substituted(
    words: Sequence[Word], values: Values, spend: Callable[[int], bool]
) -> Iterator[tuple[Word, ...]]:
    """Write words out with every combination of the values that their variables may have.

    Args:
        words: the words; nothing is yielded if none of them has such a variable.
        values: what the text gives a variable, by its name.
        spend: asked before so many characters are written out; False if there is no room.

    Raises:
        TooManyValuesError: there is no room for another one.

    Example:
        >>> word = Word("$d/key", dynamic=True)
        >>> VALUES = {"d": [Word("a"), Word("b")]}.__getitem__
        >>> [each.text for (each,) in substituted((word,), VALUES, lambda _: True)]
        ['a/key', 'b/key']
    """
    if any(word.dynamic for word in words):
        yield from _chains(words, values, spend, {})


def _chains(
    words: Sequence[Word], values: Values, spend: Callable[[int], bool], used: Mapping[str, int]
) -> Iterator[tuple[Word, ...]]:
    """Write out the variables of the words, and then those that their values name."""
    names = dict.fromkeys(name for word in words if word.dynamic for name in _names(word.text))
    known = {name: _told(name, values) for name in names if used.get(name, 0) < MAX_REPEATS}
    known = {name: each for name, each in known.items() if each}
    if not known:
        return
    used = {**used, **{name: used.get(name, 0) + 1 for name in known}}
    for chosen in product(*known.values()):
        told = dict(zip(known, chosen, strict=True))
        if not spend(COST + sum(_length(word, told) for word in words)):
            raise TooManyValuesError
        written = tuple(part for word in words for part in _filled(word, told))
        yield written
        yield from _chains(written, values, spend, used)


def _names(text: str) -> list[str]:
    return [bare or braced or instead for bare, braced, instead in _REFERENCE.findall(text)]


def _told(name: str, values: Values) -> Sequence[Word]:
    """Say what a variable is set to, or what stands in its place: `.env` in `${x:-.env}`."""
    instead = _INSTEAD.fullmatch(name)
    return (Word(re.sub(r"[\"'\\]", "", instead[1])),) if instead else values(name)


def _length(word: Word, told: dict[str, Word]) -> int:
    """Say how long a word will at most be with these values."""
    if not word.dynamic:
        return len(word.text)
    return len(word.text) + sum(len(told[name].text) for name in _names(word.text) if name in told)


def _filled(word: Word, told: dict[str, Word]) -> Iterator[Word]:
    """Put values into a word; outside quotes one with blanks becomes several words."""
    used = [told[name] for name in _names(word.text) if name in told] if word.dynamic else []
    if not used:
        yield word
        return
    text = _REFERENCE.sub(lambda found: _value(found, told), word.text)
    dynamic = bool(re.search(r"[$`]", text)) or any(value.dynamic for value in used)
    pattern = word.pattern or any(value.pattern for value in used)
    for part in text.split() if word.split else [text]:
        yield Word(part, dynamic=dynamic, pattern=pattern, split=dynamic and word.split)


def _value(found: re.Match[str], told: dict[str, Word]) -> str:
    name = found[1] or found[2] or found[3]
    return told[name].text if name in told else found[0]
