"""Files and hosts that the words of a command name, for denials only.

A rule that denies a file denies `cat` of it as well as `Read`. Which words a program takes as
names can't be known, so an operand never allows anything.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from greenroom.permissions.facts.fact import Command, Fact, HostUse, Stars, Unknown, Unread
from greenroom.permissions.facts.glob import loosened
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Word
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.rule_index import RuleIndex
from greenroom.permissions.judging.searches import left_out, sought

__all__ = ["operands"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S+")
_TALKERS = frozenset({"echo", "printf", "true", "false", ":"})  # their words are only text …
MAX_LENGTH = 4096


def operands(call: Call, rules: RuleIndex) -> Iterator[Fact]:
    """Find the files and hosts that words of the call's commands name, if a rule cares."""
    paths, hosts = rules.careful_paths, rules.careful_hosts
    if not (paths or hosts):
        return
    crowded = False
    seen_from: defaultdict[Place | None, set[tuple[str, bool, bool]]] = defaultdict(set)
    for fact in call.facts:
        place = fact.place if isinstance(fact, Command) else None
        seen = seen_from[place]
        for word in _words(fact):
            key = (word.text, word.quoted, word.pattern)
            if key in seen:
                continue
            seen.add(key)
            if hosts and "://" in word.text:
                yield from _hosts(word)
            if paths:
                yield from _paths(word, place or call.place)
                crowded |= place is not None and place.crowded and word.text[:1] not in "-/"
        if paths and isinstance(fact, Command) and fact.argv:
            yield from _searches(fact.argv, fact.place or call.place)
    if crowded and rules.careful_folders:
        yield Unknown(reason="changes to more folders than can be told apart")


def _words(fact: Fact) -> Iterable[Word]:
    """Collect the words of a fact that may name something."""
    if isinstance(fact, Unread):
        return (Word(word) for word in fact.words)
    if not isinstance(fact, Command) or not fact.argv:
        return ()
    # … unless it goes to a program that takes it for its words.
    talks = fact.argv[0].text in _TALKERS and not fact.captured
    if talks:
        return ()
    skipped = left_out(fact.argv)
    return [word for at, word in enumerate(fact.argv) if at and at not in skipped]


def _hosts(word: Word) -> Iterator[Fact]:
    for url in _URL.findall(word.text):
        yield HostUse(url=url, host=Host.of(url), guard=True)


def _paths(word: Word, place: Place) -> Iterator[Fact]:
    for name in _candidates(word.text):
        if len(name) > MAX_LENGTH:
            continue
        stars: Stars = "files" if word.pattern else "none"
        told = loosened(name, quoted=word.quoted) if word.pattern else name
        fact = place.use("read", told, tilde=not word.quoted, guard=True, stars=stars)
        if fact.guard:
            yield fact
    glob = word.opening.glob if word.opening else ""
    if glob.replace("*", "") and len(glob) <= MAX_LENGTH:
        guess = place.use("read", glob, guard=True, stars="guess")
        yield from [guess] if guess.guard else []


def _searches(argv: Sequence[Word], place: Place) -> Iterator[Fact]:
    for pattern in sought(argv):
        if len(pattern) <= MAX_LENGTH:
            fact = place.use("read", pattern, tilde=False, guard=True, stars="search")
            yield from [fact] if fact.guard else []


def _candidates(word: str) -> Iterator[str]:
    """Take the word itself, and what stands behind `=`, `@` or a short option in it."""
    if word and not word.startswith("-"):
        yield word
    elif len(word) > 2 and word[1] != "-":
        yield word[2:]
    for mark in ("=", "@"):
        value = word.partition(mark)[2]
        if value:
            yield value
