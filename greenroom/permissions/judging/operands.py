"""Files and hosts that the words of a command name, for denials and for what is protected.

A rule that denies a file denies `cat` of it as well as `Read`. Which words a program takes as names
can't be known, so an operand never allows anything; and a word that is not known may be any name.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from urllib.parse import unquote

from greenroom.permissions.facts.fact import Change, Command, Fact, HostUse, PathUse, Stars, Unknown
from greenroom.permissions.facts.host import Host
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import UNKNOWN, Word, basename, words_of
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.rule_index import RuleIndex

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S+")
_LEFT_OUT = re.compile(r"--(?:exclude|exclude-dir|hide|ignore)=")
_OLD_LIST = re.compile(r"[A-Za-z]*T")  # letters of tar without a dash
_LOOKS_FOR = re.compile(r"--(?:include|i?glob)=|-g(?!$)")  # of grep and rg
_MAGIC = re.compile(r":(?:\([^)]*\)|[/!^]*:?)")  # of git, before a pattern
_WILD = re.compile(r"[*?\[]")
_BEHIND = re.compile(r"[=@<,]|:(?!//)")
_ENDS = re.compile(r"[:;,\"]")
_PATH_BEGINS = re.compile(r"[./~]")
MAX_LENGTH = 4096
MAX_PATTERNS = 256  # of a call
MAX_PARTS = 8  # of a word, each behind a sign


def operands(call: Call, rules: RuleIndex) -> Iterator[Fact]:
    """Find the files and hosts that words of the call's commands name, if a rule cares."""
    if not (rules.careful_paths or rules.careful_hosts):
        return
    named = set[tuple[Word, Place]]()
    is_lost, patterns = False, 0
    for fact in call.facts:
        place = (isinstance(fact, Command) and fact.place) or call.place
        if rules.careful_paths and isinstance(fact, Command):
            yield from _finds(fact, place)
        for word in _words(fact):
            if (word, place) in named:
                continue
            named.add((word, place))
            is_lost = is_lost or (place.lost and word.text[:1] not in "-/")
            patterns += word.pattern
            if word.pattern and patterns > MAX_PATTERNS:
                continue
            is_long = word.pattern and len(word.text) > MAX_LENGTH
            if (word.dynamic and (word.unknown or word.may_be_option)) or is_long:
                yield Unknown(reason=f"{word.text[:80]} may name what a rule is about")
            if rules.careful_hosts:
                yield from named_hosts(word.text)
            if rules.careful_paths:
                yield from named_files(word, place, call)
    if patterns > MAX_PATTERNS and rules.careful_paths:
        yield Unknown(reason=f"more than {MAX_PATTERNS} patterns of files")
    if is_lost and rules.careful_paths and rules.careful_folders:
        yield Unknown(reason="names files in a folder that can't be told")


def _words(fact: Fact) -> Sequence[Word]:
    """Collect the words of a fact that may name something."""
    if isinstance(fact, Change) and fact.setting:
        return (Word(fact.setting),)
    if not isinstance(fact, Command) or fact.extent == "prints":
        return ()
    words = fact.argv if "/" in fact.argv[0].text else fact.argv[1:]
    # What its words say may be run.
    return (*words, *map(Word, words_of(fact.text))) if fact.loose else words


def _finds(fact: Command, place: Place) -> Iterator[Fact]:
    """Look at the files that a program finds by itself: by a list of names, or by its own patterns."""
    argv, name = fact.argv, basename(fact.argv[0].text)
    is_list = name == "tar" and len(argv) > 1 and _OLD_LIST.match(argv[1].text)
    if is_list or any("~" in part.marks for part in fact.parts):
        yield Unknown(reason=f"{argv[0].text} reads files that it is told elsewhere")
    texts = {part.value_at for part in fact.parts if "=" in part.marks}
    for at, word in enumerate(argv[1:], 1):
        magic = word.text.partition(")")[0]
        if name == "git" and magic.startswith(":(") and "exclude" not in magic:
            yield Unknown(reason=f"{word.text[:80]} may name what a rule is about")
        # What fits no file, the shell hands on as it is.
        if not _WILD.search(word.text) or (word.pattern and name != "git"):
            continue
        option = _LOOKS_FOR.match(word.text)
        pattern = _MAGIC.sub("", word.text[option.end() :] if option else word.text)
        uses: list[tuple[Stars, str]] = [("search", f"**/{pattern}"), ("files", pattern)]
        is_path = name == "git" and at not in texts and not word.text.startswith("-")
        for stars, text in uses if is_path else uses[: bool(option)]:
            use = place.use("read", text, tilde=False, guard=True, stars=stars)
            yield from [use] if use.guard else []


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
        if name and (word.pattern or len(name) <= MAX_LENGTH):
            stars: Stars = "files" if word.pattern else "none"
            use = place.use("read", name, tilde=not word.quoted, guard=True, stars=stars)
            if isinstance(use, PathUse):
                yield use


def _names(text: str) -> Iterator[str]:
    """Take a word apart where a name may begin.

    Example:
        >>> list(_names("--out=a:b")), list(_names("-o./a"))
        (['a:b', 'a', 'b', 'b'], ['./a', './a'])
    """
    is_option = text.startswith("-")
    if is_option and _LEFT_OUT.match(text):
        return
    if not is_option:
        yield text
        yield text.partition(":")[0]
    elif not text.startswith("--") and text[2:] != "/":  # a separator, as in `cut -d/`
        begins = _PATH_BEGINS.search(text)
        yield from (text[2:], text[begins.start() :]) if begins else (text[2:],)
    for mark in islice(_BEHIND.finditer(text), MAX_PARTS):
        yield text[mark.end() :]
        yield _ENDS.split(text[mark.end() :].lstrip('"'), maxsplit=1)[0]
    if "file:" in text:
        yield unquote(re.sub("/*", "/", text.partition("file:")[2], count=1))
