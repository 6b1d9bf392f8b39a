"""Calls the person while a question waits, and when a long turn has ended."""

from collections.abc import Sequence

from greenroom.core._internal import visible

LONG = 20.0
"""Seconds of a turn after which its end is told."""

_CODES = {
    "bell": "\x07",
    "title": "\x1b]2;{words}\x07",
    "osc9": "\x1b]9;{words}\x07",
    "osc777": "\x1b]777;notify;greenroom;{words}\x07",
}
_MAX_WORDS = 80


def call_person(words: str, ways: Sequence[str]) -> str:
    r"""Return the control codes that call a person with a few words, in each of these ways.

    Example:
        >>> call_person("done", ["bell", "osc9"])
        '\x07\x1b]9;done\x07'
    """
    words = visible(" ".join(words.split()))[:_MAX_WORDS].replace(";", ",")
    return "".join(_CODES[way].format(words=words) for way in ways)


def reset_title(ways: Sequence[str]) -> str:
    """Return the control code that takes the words out of the title again."""
    return _CODES["title"].format(words="greenroom") if "title" in ways else ""
