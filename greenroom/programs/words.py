"""Words: the name of a program, and the words of a text that a program may run."""

import re

_QUOTES = re.compile(r"[\"'\\]")
_CLUSTER = re.compile(r"(?<!\S)-[A-Za-z][\w./]+")
_MOST_LETTERS = 3  # of options in front of a value
_BETWEEN = re.compile(r"[\s;&|()<>`$={},!]+")


def basename(program: str) -> str:
    """Name a program without its folder."""
    return program.rpartition("/")[2]


def extract_words(text: str) -> tuple[str, ...]:
    """Split a text that may be run into words, whatever separates them.

    A value that is attached to options, as in `su -c'rm x'`, counts as words as well.

    Example:
        >>> extract_words("ls;$(r'm' -r x)"), extract_words("su -c'rm x'")
        (('ls', 'rm', '-r', 'x'), ('su', '-crm', 'rm', 'm', 'x'))
    """
    text = _CLUSTER.sub(_detach, _QUOTES.sub("", text))
    return tuple(word for word in _BETWEEN.split(text) if word)


def _detach(cluster: re.Match[str]) -> str:
    """Add to a word with options what may be the value of the first of them, or of the next."""
    word = cluster[0]
    last = min(len(word), 2 + _MOST_LETTERS)
    return " ".join((word, *(word[at:] for at in range(2, last))))
