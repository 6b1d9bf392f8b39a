"""Files and hosts that the words of a command name, for denials only.

A rule that denies a file denies `cat` of it as well as `Read`. Which words a program takes as names
can't be known, so an operand never allows anything; and a word that is not known may be any name.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Literal

from greenroom.permissions.facts.fact import (
    Change,
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
from greenroom.permissions.shell.programs.reading import only_prints
from greenroom.permissions.shell.programs.table import parts, program_of
from greenroom.permissions.shell.unread import words_of

__all__ = ["named_files", "operands"]

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S+")
_LEFT_OUT = re.compile(r"--(?:exclude|exclude-dir|hide|ignore)=")
_OLD_LIST = re.compile(r"[A-Za-z]*T")  # letters of tar without a dash
_LOOKS_FOR = re.compile(r"--(?:include|i?glob)=|-g(?!$)")  # of grep and rg
_MAGIC = re.compile(r":(?:\([^)]*\)|[/!^]*:?)")  # of git, before a pattern
_WILD = re.compile(r"[*?\[]")
_BEHIND = re.compile(r"[=@]|:(?!//)")
_PATH_BEGINS = re.compile(r"[./~]")
MAX_LENGTH = 4096


def operands(call: Call, rules: RuleIndex) -> Iterator[Fact]:
    """Find the files and hosts that words of the call's commands name, if a rule cares."""
    paths, hosts = rules.careful_paths, rules.careful_hosts
    if not (paths or hosts):
        return
    crowded = False
    seen_from: defaultdict[Place | None, set[tuple[str, bool, bool]]] = defaultdict(set)
    for fact in call.facts:
        if paths and isinstance(fact, Command) and fact.argv:
            yield from _finds(fact.argv, fact.place or call.place)
        place = fact.place if isinstance(fact, Command) else None
        seen = seen_from[place]
        for word in _words(fact):
            key = (word.text, word.quoted, word.pattern)
            if key in seen:
                continue
            seen.add(key)
            if word.unknown or word.may_be_option:
                yield Unknown(reason=f"{word.text[:80]} may name what a rule is about")
            if hosts and "://" in word.text:
                yield from _hosts(word)
            if paths:
                yield from named_files(word, place or call.place, "read")
                crowded |= place is not None and place.crowded and word.text[:1] not in "-/"
    if crowded and rules.careful_folders:
        yield Unknown(reason="changes to more folders than can be told apart")


def _words(fact: Fact) -> Iterator[Word]:
    """Collect the words of a fact that may name something."""
    if isinstance(fact, Unread):
        yield from (Word(word) for word in fact.words)
    elif isinstance(fact, Change) and fact.setting:
        yield Word(fact.setting)
    elif isinstance(fact, Command) and not only_prints(fact.argv):
        yield from fact.argv if "/" in fact.argv[0].text else fact.argv[1:]
        if fact.loose:  # what its words say may be run
            yield from (Word(word) for word in words_of(fact.text))


def _hosts(word: Word) -> Iterator[Fact]:
    for url in _URL.findall(word.text):
        yield HostUse(url=url, host=Host.of(url), guard=True)


def _finds(argv: Sequence[Word], place: Place) -> Iterator[Fact]:
    """Look at the files that a program finds by itself: by a list of names, or by its own patterns."""
    program, start = program_of(argv)
    if any(program.has("~", part.option) for part in parts(argv, program, start) if part.option):
        yield Unknown(reason=f"{argv[0].text} reads files that it is told elsewhere")
    elif program.name == "tar" and _OLD_LIST.match(argv[1].text if len(argv) > 1 else ""):
        yield Unknown(reason="tar reads files that it is told elsewhere")
    is_git = program.name.startswith("git")
    for word in argv[start + 1 :]:
        option = _LOOKS_FOR.match(word.text)
        name = _MAGIC.sub("", word.text[option.end() :] if option else word.text)
        if (option or is_git) and not word.pattern and _WILD.search(name):
            kinds: tuple[Stars, ...] = ("search", "files") if is_git else ("search",)
            for stars in kinds:
                text = f"**/{name}" if stars == "search" else name
                fact = place.use("read", text, tilde=False, guard=True, stars=stars)
                yield from [fact] if fact.guard else []


def named_files(word: Word, place: Place, kind: Literal["read", "write"]) -> Iterator[PathUse]:
    """Find the files that a word may name: itself, and what stands behind an option.

    A part that is not known counts as nothing.

    Example:
        >>> [use.text for use in named_files(Word("--out=a:b"), Place("/w", "/w"), "read")]
        ['a:b', 'a', 'b']
    """
    text = word.shape.replace(UNKNOWN, "")
    names: list[str] = []
    if _LEFT_OUT.match(text):
        return
    if not text.startswith("-"):
        names.append(text)
    elif not text.startswith("--"):
        begins = _PATH_BEGINS.search(text)
        names += [text[2:], text[begins.start() :]] if begins else [text[2:]]
        names = [name for name in names if name != "/"]  # a separator, as in `cut -d/`
    behind = [text[mark.end() :] for mark in _BEHIND.finditer(text)][:8]
    names += [name for each in behind for name in (each, each.partition(":")[0])]
    names.append(text.partition(":")[0] if text[:1] != "-" else "")
    for name in dict.fromkeys(names):
        if name and len(name) <= MAX_LENGTH:
            stars: Stars = "files" if word.pattern else "none"
            exact = loosened(name, quoted=word.quoted) if word.pattern else name
            use = place.use(kind, exact, tilde=not word.quoted, guard=True, stars=stars)
            if isinstance(use, PathUse):
                yield use
