"""Words: the name of a program, and the words of a text that a program may run."""

import re

_QUOTES = re.compile(r"[\"'\\]")
_ATTACHED = re.compile(r"(?<!\S)-c([\w./]+)")  # as in `su -c'rm x'`
_BETWEEN = re.compile(r"[\s;&|()<>`$={},!]+")


def basename(program: str) -> str:
    """Name a program without its folder."""
    return program.rpartition("/")[2]


def extract_words(text: str) -> tuple[str, ...]:
    """Split a text that may be run into words, whatever separates them.

    Example:
        >>> extract_words("ls;$(r'm' -rf x)")
        ('ls', 'rm', '-rf', 'x')
    """
    text = _ATTACHED.sub(r"-c\1 \1", _QUOTES.sub("", text))
    return tuple(word for word in _BETWEEN.split(text) if word)
