"""Files and hosts that the words of a command name, for denials and for what is protected.

A rule that denies a file denies `cat` of it as well as `Read`. Which words a program takes as names
can't be known, so an operand never allows anything; and a word that is not known may be any name.
"""

import re
from collections.abc import Iterator
from itertools import chain, islice

from greenroom.permissions.facts.fact import (
    Command,
    Fact,
    HostUse,
    PathUse,
    Stars,
    Unknown,
    Unread,
)
from greenroom.permissions.facts.glob import loosened
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import UNKNOWN, Word
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.rule_index import RuleIndex

__all__ = ["named_files", "named_hosts", "operands"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S+")
_LEFT_OUT = re.compile(r"--(?:exclude|exclude-dir|hide|ignore)=")
_BEHIND = re.compile(r"[=@:]")
_PATH_BEGINS = re.compile(r"[./~]")
MAX_LENGTH = 4096
MAX_PARTS = 8  # of a word, each behind a sign


def operands(call: Call, rules: RuleIndex) -> Iterator[Fact]:
    """Find the files and hosts that words of the call's commands name, if a rule cares."""
    if not (rules.careful_paths or rules.careful_hosts):
        return
    named = dict.fromkeys(chain.from_iterable(map(_words, call.facts)))
    crowded = any(place.crowded and word.text[:1] not in "-/" for word, place in named if place)
    if crowded and rules.careful_paths:
        yield Unknown(reason="changes to more folders than can be told apart")
    for word, place in named:
        if word.unknown:
            yield Unknown(reason=f"{word.text[:80]} may name what a rule is about")
        if rules.careful_hosts:
            yield from named_hosts(word.text)
        if rules.careful_paths:
            yield from named_files(word, place, call)


def _words(fact: Fact) -> Iterator[tuple[Word, Place | None]]:
    """Collect the words of a fact that may name something, and where that lies."""
    if isinstance(fact, Unread):
        yield from ((Word(word), None) for word in fact.words)
    elif isinstance(fact, Command) and fact.extent != "prints":
        yield from ((word, fact.place) for word in fact.argv[1:])


def named_hosts(text: str) -> Iterator[HostUse]:
    """Find the hosts of the URLs in a text."""
    for url in _URL.findall(text) if "://" in text else ():
        yield HostUse(url=url, host=Host.of(url), guard=True)


def named_files(word: Word, place: Place | None, call: Call) -> tuple[PathUse, ...]:
    """Find the files that a word may name: itself, and what stands behind an option.

    A part that is not known counts as nothing. Each word is looked at once in a call.
    """
    key = (word, place)
    if key not in call.named:
        call.named[key] = tuple(_uses(word, place or call.place))
    return call.named[key]


def _uses(word: Word, place: Place) -> Iterator[PathUse]:
    for name in dict.fromkeys(_names(word.shape.replace(UNKNOWN, ""))):
        if name and len(name) <= MAX_LENGTH:
            exact = loosened(name, quoted=word.quoted) if word.pattern else name
            stars: Stars = "files" if word.pattern else "none"
            use = place.use("read", exact, tilde=not word.quoted, guard=True, stars=stars)
            if isinstance(use, PathUse):
                yield use


def _names(text: str) -> Iterator[str]:
    """Take a word apart where a name may begin.

    Example:
        >>> list(_names("--out=a:b")), list(_names("-o./a"))
        (['a:b', 'b'], ['./a', './a'])
    """
    if _LEFT_OUT.match(text):
        return
    if not text.startswith("-"):
        yield text
    elif not text.startswith("--") and text[2:] != "/":  # a separator, as in `cut -d/`
        begins = _PATH_BEGINS.search(text)
        yield from (text[2:], text[begins.start() :]) if begins else (text[2:],)
    yield from (text[mark.end() :] for mark in islice(_BEHIND.finditer(text), MAX_PARTS))
