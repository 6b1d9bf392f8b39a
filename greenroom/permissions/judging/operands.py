"""Files and hosts that the words of a command name, for denials only.

A rule that denies a file denies `cat` of it as well as `Read`. Which words a program takes as names
can't be known, so an operand never allows anything; and a word that is not known may be any name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from greenroom.permissions.facts.fact import Command, Fact, HostUse, Stars, Unknown, Unread
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import UNKNOWN, Word
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.rule_index import RuleIndex
from greenroom.permissions.shell.programs.reading import only_prints

__all__ = ["candidates", "operands"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S+")
_LEFT_OUT = re.compile(r"--(?:exclude|exclude-dir|hide|ignore)=")
_BEHIND = re.compile(r"[=@:]")
_PATH_BEGINS = re.compile(r"[./~]")
MAX_LENGTH = 4096


def operands(call: Call, rules: RuleIndex) -> Iterator[Fact]:
    """Find the files and hosts that words of the call's commands name, if a rule cares."""
    paths, hosts = rules.careful_paths, rules.careful_hosts
    if not (paths or hosts):
        return
    lost = False
    seen_from: defaultdict[Place | None, set[tuple[str, bool, bool]]] = defaultdict(set)
    for fact in call.facts:
        place = fact.place if isinstance(fact, Command) else None
        seen = seen_from[place]
        for word in _words(fact):
            key = (word.text, word.quoted, word.pattern)
            if key in seen:
                continue
            seen.add(key)
            if word.unknown:
                yield Unknown(reason=f"{word.text[:80]} may name what a rule is about")
            if hosts and "://" in word.text:
                yield from _hosts(word)
            if paths:
                yield from _paths(word, place or call.place)
                lost |= place is not None and place.lost and word.text[:1] not in "-/"
    if lost and rules.careful_folders:
        yield Unknown(reason="names files in a folder that can't be told")


def _words(fact: Fact) -> Iterator[Word]:
    """Collect the words of a fact that may name something."""
    if isinstance(fact, Unread):
        yield from (Word(word) for word in fact.words)
    elif isinstance(fact, Command) and not only_prints(fact.argv):
        yield from fact.argv[1:]


def _hosts(word: Word) -> Iterator[Fact]:
    for url in _URL.findall(word.text):
        yield HostUse(url=url, host=Host.of(url), guard=True)


def _paths(word: Word, place: Place) -> Iterator[Fact]:
    for name in candidates(word):
        stars: Stars = "files" if word.pattern else "none"
        fact = place.use("read", name, tilde=not word.quoted, guard=True, stars=stars)
        if fact.guard or word.pattern:  # a pattern may be longer than what it stands for
            yield fact


def candidates(word: Word) -> Iterator[str]:
    """Find the names of files that a word may hold: itself, and what stands behind an option.

    A part that is not known counts as nothing.

    Example:
        >>> list(candidates(Word("--out=a:b"))), list(candidates(Word("-oa"))), list(candidates(Word("a")))
        (['a:b', 'b'], ['a'], ['a'])
    """
    text = word.shape.replace(UNKNOWN, "")
    found: list[str] = []
    if _LEFT_OUT.match(text):
        return
    if not text.startswith("-"):
        found.append(text)
    elif not text.startswith("--"):
        begins = _PATH_BEGINS.search(text)
        found += [text[2:], text[begins.start() :] if begins else ""]
    found += [text[mark.end() :] for mark in _BEHIND.finditer(text)][:8]
    yield from (
        each for each in dict.fromkeys(found) if each and (word.pattern or len(each) <= MAX_LENGTH)
    )
