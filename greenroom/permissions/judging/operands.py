"""Files and hosts that the words of a command name, for denials only.

A rule that denies a file denies `cat` of it as well as `Read`. Which words a program takes as
names can't be known, so an operand never allows anything.
"""

import re
from collections.abc import Iterator

from greenroom.permissions.facts.fact import Command, Fact, HostUse
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Word
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.rule_index import RuleIndex

__all__ = ["operands"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_TALKERS = frozenset({"echo", "printf", "true", "false", ":"})  # their words are only text
MAX_LENGTH = 4096


def operands(call: Call, rules: RuleIndex) -> Iterator[Fact]:
    """Find the files and hosts that words of the call's commands name, if a rule cares."""
    paths, hosts = rules.careful_paths, rules.careful_hosts
    if not (paths or hosts):
        return
    seen: set[tuple[str, Place | None, bool]] = set()
    for fact in call.facts:
        if isinstance(fact, Command) and fact.argv and fact.argv[0].text not in _TALKERS:
            place = fact.place or call.place
            for word in fact.argv[1:]:
                key = (word.text, fact.place, word.quoted)
                if len(word.text) > MAX_LENGTH or key in seen:
                    continue
                seen.add(key)
                if hosts:
                    yield from _hosts(word)
                if paths:
                    yield from _paths(word, place)


def _hosts(word: Word) -> Iterator[Fact]:
    for url in _URL.findall(word.text):
        yield HostUse(url=url, host=Host.of(url), guard=True)


def _paths(word: Word, place: Place) -> Iterator[Fact]:
    for name in _candidates(word.text):
        fact = place.use("read", name, tilde=not word.quoted, guard=True)
        if fact.guard:
            yield fact


def _candidates(word: str) -> Iterator[str]:
    """Take the word itself, and what stands behind `=`, `@` or a short option in it."""
    if word and not word.startswith("-"):
        yield word
    for mark in ("=", "@"):
        value = word.partition(mark)[2]
        if value:
            yield value
