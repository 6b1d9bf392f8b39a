"""Texts that may hide something, shown so that they can't.

A text of a model, a file or a program may hold characters that a terminal obeys, that nobody sees
or that look as a font pleases. `legible` is for prose to read, `visible` for what is quoted, and
`exact` for what a person judges, such as a command. The category of a character in Unicode's data
says whether it can be seen; the few that can't although their category says so are listed.
"""

import unicodedata
from collections.abc import Sequence, Set as AbstractSet
from itertools import islice

from greenroom.core.late_pattern import compile_later

# Without a picture of their own, although their categories are those of letters and marks.
_EMPTY = compile_later(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00013441"
    "\U00013442\U00016fe4\U0001d159\U000e0000-\U000e0fff]"
)
# Not printable by their categories, but harmless: tabs and newlines, signs of Arabic and Kaithi
# that count as formats, and where each version of Unicode adds emoji and ideographs.
_HARMLESS = compile_later(
    "[\t\n\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
    "\U0001f000-\U0001faff\U00020000-\U0002fffd\U00030000-\U0003fffd]"
)

_LISTED = 5  # characters in a description
_CONTROL = "a control character"  # none of which has a name
# Picks the coloured form of an emoji; it is visible as part of it and hides nothing.
_COLOURED = "\N{VARIATION SELECTOR-16}"


def _is_plain(text: str) -> bool:
    """Whether a text is nothing but ASCII that can be seen, tabs and newlines, as most are."""
    return text.isascii() and text.replace("\n", "").replace("\t", "").isprintable()


def _list_odd(text: str) -> set[str]:
    """List the characters that can't be seen, and all blanks but the ordinary one."""
    if _is_plain(text):
        return set()
    # Printable is what is not of a category of controls, formats, private and unassigned
    # characters, and separators.
    odd = {ch for ch in set(text) if not ch.isprintable()}
    odd.update(_EMPTY.findall(text))
    return {ch for ch in odd if not _HARMLESS.match(ch)}


def list_hidden(text: str) -> set[str]:
    """List the characters that can't be seen; tabs, newlines and blanks are not among them."""
    return {ch for ch in _list_odd(text) if unicodedata.category(ch) != "Zs"}


def _escape(text: str, odd: AbstractSet[str]) -> str:
    if not odd:
        return text
    table = {ord(ch): f"\\u{{{ord(ch):x}}}" if ch in odd else ch for ch in set(text)}
    return text.translate(table)


def visible(text: str) -> str:
    r"""Escape every character that could hide or disguise text, as in `\u{202e}`.

    Tabs, newlines and the blanks of typography stay. Carriage returns, terminal escapes,
    bidirectional overrides, zero-width and private characters and the like become visible.

    Example:
        >>> print(visible("ls \u202e.txt"))
        ls \u{202e}.txt
    """
    return text if _is_plain(text) else _escape(text, list_hidden(text))


# Joiners and selectors, and what they may stand behind: pictographs and keys, and the letters of
# the scripts that are joined, Arabic to Mongolian; behind an ideograph a selector of its variants.
# The tags of a flag, as of Scotland, stand behind the black flag and end with a tag of their own.
_JOINED = (
    "#*0-9\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\u20e3\ufe0f"
    "\U0001f000-\U0001faff"
)
_CURSIVE = (
    "\u0600-\u08ff\u0900-\u0dff\u0f00-\u109f\u1780-\u18aa\ua840-\uabff\ufb50-\ufdff\ufe70-\ufefc"
)
_IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_NEEDED = compile_later(
    f"(?<=[{_JOINED}])[\u200d\ufe0e\ufe0f]|(?<=[{_CURSIVE}])[\u200c\u200d\u180b-\u180f\ufe00-\ufe0d]"
    f"|(?<=[{_IDEOGRAPHS}])[\ufe00-\ufe0d\U000e0100-\U000e01ef]"
    "|(?<=\U0001f3f4)[\U000e0020-\U000e007e]{1,8}\U000e007f"
)
_REPLACEMENT = "\ufffd"


def legible(text: str) -> str:
    r"""Show prose as it is read, with a sign for each character that could hide or disguise text.

    The joiners and variation selectors that emoji and scripts such as Arabic and Devanagari need
    stay where they have an effect. A control character is its picture, such as `␛` for an escape,
    and any other hidden character is `�`. Tabs, newlines and the blanks of typography stay.

    Example:
        >>> print(legible("\x1b[2J \u202eexe"), legible("\u26a0\ufe0f") == "\u26a0\ufe0f")
        ␛[2J �exe True
    """
    text = text.replace("\r\n", "\n")
    odd = list_hidden(text)
    if not odd:
        return text
    table = {ord(ch): _sign(ch) for ch in odd}
    kept = _NEEDED.finditer(text)
    parts, start = list[str](), 0
    for found in kept:
        parts += [text[start : found.start()].translate(table), found[0]]
        start = found.end()
    return "".join([*parts, text[start:].translate(table)])


def _sign(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else _REPLACEMENT


def without_hidden(text: str) -> str:
    r"""Drop every character that could hide or disguise text; some disks ignore them in names.

    Example:
        >>> without_hidden(".g\u200bit")
        '.git'
    """
    hidden = list_hidden(text)
    return text.translate(dict.fromkeys(map(ord, hidden))) if hidden else text


def mark_lines(text: str) -> str:
    r"""Put a mark before each line of a text, and escape what could hide in it.

    Example:
        >>> print(mark_lines("Run make.\r\n\u2028# The user's own instructions"))
        | Run make.
        | \u{2028}# The user's own instructions
    """
    lines = visible(text.replace("\r\n", "\n")).split("\n")
    return "\n".join(f"| {line}".rstrip() for line in lines)


def hides_something(text: str) -> bool:
    r"""Return whether a text has characters that `exact` escapes.

    Example:
        >>> hides_something("ls\u00a0-l"), hides_something("größe 漢字")
        (True, False)
    """
    return bool(_list_odd(text))


_PADDING = compile_later(r"[ \t]{33,}|\t{5,}")
_EMPTY_LINES = compile_later(r"\n(?>(?:[ \t]*+\n){4,})")
_SOME_EMPTY_LINES = compile_later(r"\n(?:[ \t]*+\n){4}")


def is_padded(text: str) -> bool:
    r"""Return whether long runs of blanks or empty lines may push a part of a text out of view.

    Example:
        >>> is_padded("ls" + " " * 3000 + "; rm"), is_padded("a\n\nb")
        (True, False)
    """
    return bool(_PADDING.search(text) or _SOME_EMPTY_LINES.search(text))


def exact(text: str) -> str:
    r"""Show a text exactly: nothing can hide, pose as something else or push text out of view.

    Besides what `visible` does, all blanks but the ordinary one are escaped, and a run of more than
    32 blanks or of more than 4 empty lines is replaced by its length.

    Example:
        >>> print(exact("ls" + " " * 3000 + "; rm\u00a0-rf x"))
        ls…(3000 blanks)…; rm\u{a0}-rf x
    """
    if text.isascii() and text.isprintable() and "  " not in text:  # as most are
        return text
    text = _escape(text, _list_odd(text))
    text = _EMPTY_LINES.sub(
        lambda found: f"\n…({found[0].count(chr(10)) - 1} empty lines)…\n", text
    )
    return _PADDING.sub(lambda found: f"…({len(found[0])} blanks)…", text)


def describe_hidden(text: str) -> str:
    r"""Say which characters of a text can't be seen, at most five of them; empty if none.

    Example:
        >>> describe_hidden("ls \u202e.txt"), describe_hidden("ls größe.txt")
        ("characters that can't be seen: U+202E (RIGHT-TO-LEFT OVERRIDE)", '')
    """
    hidden = sorted(list_hidden(text) - {_COLOURED})
    return f"characters that can't be seen: {name_characters(hidden)}" if hidden else ""


def name_characters(characters: Sequence[str]) -> str:
    """Name at most five characters, by their numbers and by the names that Unicode gives them."""
    named = (f"U+{ord(ch):04X} ({unicodedata.name(ch, _CONTROL)})" for ch in characters)
    return ", ".join(islice(named, _LISTED))
