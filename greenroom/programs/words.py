"""Words: the name of a program, the words of a text that it may run, and the names in a word."""

import re
from collections.abc import Iterator
from itertools import islice
from urllib.parse import unquote

_QUOTES = re.compile(r"[\"'\\]")
_CLUSTER = re.compile(r"(?<!\S)-[A-Za-z][\w./]+")
_MOST_LETTERS = 3  # of options in front of a value
_BETWEEN = re.compile(r"[\s;&|()<>`$={},!]+")
_LEFT_OUT = re.compile(r"--(?:exclude|exclude-dir|hide|ignore)=")
_BEHIND = re.compile(r"[=@<,]|:(?!//)")
_ENDS = re.compile(r"[:;,\"]")
_SIGNS = re.compile(r'[=@<,:;"]')
_PATH_BEGINS = re.compile(r"[./~]")
_FILE_URL = re.compile("file:", re.IGNORECASE)
MAX_PARTS = 8  # of a word, each behind a sign
MAX_LETTERS = 16  # of options in one word


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


def split_names(text: str) -> Iterator[str]:
    """Split a word wherever the name of a file may begin.

    Example:
        >>> list(split_names("--out=a:b")), list(split_names("-vo./a"))
        (['a:b', 'a', 'b', 'b'], ['o./a', './a', './a'])
    """
    is_option = text.startswith("-")
    if is_option and _LEFT_OUT.match(text):
        return
    if not is_option:
        yield text
        yield text.partition(":")[0]
    elif not text.startswith("--") and text[2:] != "/":  # a separator, as in `cut -d/`
        letters = re.match("-[A-Za-z0-9]*", text)
        end = min(letters.end() if letters else 1, MAX_LETTERS)
        yield from (text[at:] for at in range(2, end + 1))
        if begins := _PATH_BEGINS.search(text):
            yield text[begins.start() :]
    for mark in islice(_BEHIND.finditer(text), MAX_PARTS):
        yield text[mark.end() :]
        yield _ENDS.split(text[mark.end() :].lstrip('"'), maxsplit=1)[0]
    yield from _SIGNS.split(text)[MAX_PARTS + 1 :]
    if found := _FILE_URL.search(text):
        rest = unquote(re.split("[?#]", text[found.end() :], maxsplit=1)[0])
        local = rest.lstrip("/")
        yield from (rest, f"/{local}", f"/{local.partition('/')[2]}")
