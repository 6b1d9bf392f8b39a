"""Operands: the files and hosts that the words of commands name, for rules that deny or ask.

How it works
============

Nobody can know which words a program takes for names. So each part of a word that may be a name
counts as one, and an operand never allows anything. There are three answers:

- A word names a file or a host, as far as can be told: a `PathUse` or a `HostUse`, which a rule may
  deny. Most of them no rule is about.
- A rule may be about what a word means, or about what the program finds in a list, in a folder or
  in a repository: an `Unknown`, so that a person is asked.
- The word is only text, as those of `echo` are, and the message of `git commit`: nothing.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import chain, islice
from typing import TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec.structs import replace

from greenroom.core._internal import visible
from greenroom.fs import file_lookup
from greenroom.fs._internal import expand_braces
from greenroom.git._internal import find_root, list_tracked
from greenroom.permissions.patterns import Care
from greenroom.permissions.searches import Search, find_unnamed
from greenroom.programs._internal import (
    REACH,
    GitWords,
    Host,
    extract_words,
    find_git_verb,
    list_folders,
    list_sought,
    locate,
    simplify_host,
    split_names,
    uses_option,
)
from greenroom.shell._internal import (
    Change,
    Command,
    PathUse,
    Place,
    Unknown,
)


class HostUse(msgspec.Struct, frozen=True, kw_only=True):
    """A host that is contacted."""

    url: str
    host: Host
    guard: bool = False

    def __str__(self) -> str:
        return f"contact {visible(self.url)}"


Operand: TypeAlias = PathUse | HostUse | Unknown
"""What a word names, or may name."""

_SETTING = re.compile(r"[A-Za-z_]\w*=")
_SCRIPT = re.compile(r"[\s\"'(){}]")
_URL_PATTERN = re.compile(r"file:[^\s\[{]*[\[{]", re.IGNORECASE)  # of curl


def list_operands(fact: object, place: Place, care: Care) -> Iterator[Operand]:
    """Find the files and hosts that a fact names, if some rule is about files or hosts.

    Args:
        fact: a command, a setting of one, or a redirection; others name nothing.
        place: where the names begin, unless the command says so.
        care: what the rules are about.

    Example:
        >>> from greenroom.permissions.patterns import HostPattern
        >>> from greenroom.shell._internal import analyse
        >>> place, care = Place("/w", "/w"), Care(hosts=(HostPattern.parse("evil.test"),))
        >>> (curl,) = analyse("curl -sx evil.test:80 good.test", place).effects
        >>> [str(each) for each in list_operands(curl, place, care)]
        ['contact evil.test:80']
    """
    if isinstance(fact, Command):
        if care.hosts and fact.extent != "prints":
            yield from _find_command_hosts(fact, care)
        if care.paths and fact.extent != "prints":
            yield from _find_command_files(fact, fact.place, care)
    elif isinstance(fact, Change) and fact.setting:
        place = fact.command.place if fact.command else place
        yield from _find_hosts(fact.setting, care, contacts=True) if care.hosts else ()
        yield from list_files(fact.setting, place, tilde=True) if care.paths else ()
    elif isinstance(fact, PathUse) and care.paths:
        yield from _find_others_files(fact)


def find_fed_files(commands: Iterable[Command], care: Care) -> Iterator[Unknown]:
    """Ask about the files that are named in what commands get as their input.

    The text of the whole call may be that, so it is looked at once.
    """
    reading = (each for each in commands if each.invocation.name not in REACH["data"])
    fed = next((each for each in reading if each.fed and each.extent == "any"), None)
    if fed and care.paths:
        yield from _find_inner_files(fed, (fed.fed,), fed.place, Search.of(fed.place, care))


def _show(text: str) -> str:
    return visible(text[:MAX_SHOWN])


# Hosts

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,31}://\S+")
_HEAD = re.compile(r"\s*(?:[^\s/?#]|//+|/(?=/))*")  # up to a path, a query or a space
_RANGE = re.compile(r"\[[^\[\]:]*-[^\[\]]*\]|%[a-z%]|\*")  # of curl and ssh
_STARRED = re.compile(r"[\w.*-]+")
MAX_SPELLINGS = 64  # of a word with braces
MAX_SHOWN = 80  # characters of a word


def find_hosts(text: str) -> Iterator[HostUse]:
    """Find the hosts of the URLs in a text."""
    for url in _URL.findall(text) if "://" in text else ():
        yield HostUse(url=url, host=Host.of(url), guard=True)


def _find_command_hosts(command: Command, care: Care) -> Iterator[Operand]:
    argv, end = command.argv, len(command.argv)
    if command.invocation.inner is not None:  # what it runs is judged on its own
        inner = range(command.invocation.inner, end)
        end = next((at for at in inner if not _SETTING.match(argv[at])), end)
    name = command.invocation.name.lower()
    contacts = name in REACH["contacts"]
    if name == "git":
        contacts, (at, _) = True, find_git_verb(argv)
        if REACH["git contacts"].isdisjoint(argv[at : at + 1]) and not command.loose:
            end = at
    for word in dict.fromkeys(argv[1:end]):
        yield from _find_hosts(word, care, contacts=contacts, asks=command.extent != "reads")
    if uses_option(command.invocation, REACH[f"hosts {name}"]):
        yield Unknown(reason=f"{argv[0]} reads a file that may name a host")
    if contacts and command.takes_input:
        yield Unknown(reason=f"{argv[0]} takes words from its input that may name a host")


def _find_hosts(word: str, care: Care, *, contacts: bool, asks: bool = True) -> Iterator[Operand]:
    """Find the hosts in a word that some rule is about.

    Args:
        word: the word.
        care: what the rules are about.
        contacts: whether a bare name is a host.
        asks: whether a name that may be a host is asked about.
    """
    texts, urls = list[str](), list[str]()
    if not re.search(r"\s", word):
        is_url = contacts and not {"/", "\\"}.isdisjoint(word)
        urls = [word] if is_url else _URL.findall(word)
    if contacts and (head := _HEAD.match(word)):
        try:
            spelled = expand_braces(head[0], most=MAX_SPELLINGS)
            texts = [re.sub("[{}]", "", each) for each in spelled]
        except ValueError:
            yield Unknown(reason=f"{_show(word)} may name a host that a rule is about")
    names = frozenset().union(
        *(Host.of(url).names for url in urls), *(Host.among(t).names for t in texts)
    )
    host = Host("", names)
    if care.touches(host):
        yield HostUse(url=word, host=host, guard=True)
        return
    starred = [_RANGE.sub("*", simplify_host(unquote(each))) for each in texts]
    tokens = [each for text in starred if "*" in text for each in _STARRED.findall(text)]
    may_be = any(each.may_be(t) for t in tokens if "*" in t and "." in t for each in care.hosts)
    if may_be or (asks and care.touches(Host.among(word))):
        yield Unknown(reason=f"{_show(word)} may name a host that a rule is about")


# Files

_OWN_LINK = re.compile(
    r"/proc/(?:thread-)?self/(?:task/[^/]+/)?(?:(?:cwd|root)(?:/.*)?|fd/[012])", re.DOTALL
)


def list_files(word: str, place: Place, *, tilde: bool = False) -> Iterator[PathUse]:
    """Find the files that a word may name, as a whole or in part; a program may expand a tilde."""
    for name in dict.fromkeys(split_names(word)):
        yield from place.guard(name)
        if tilde and name.startswith("~"):
            yield from place.guard(name, tilde=True)


def _find_command_files(command: Command, place: Place, care: Care) -> Iterator[Operand]:
    words = command.argv["/" not in command.argv[0] :]
    git = None
    if command.invocation.name == "git":
        outside, place = place, reduce(Place.move, find_git_verb(command.argv)[1], place)
        git = GitWords.of(
            command.invocation, command.settings, partial(_exists, place, surely=True)
        )
        yield from chain.from_iterable(list_files(word, outside) for word in words[: git.at])
        words = tuple(git.words)
    search = Search.of(place, care)
    # A loose program may run what its words say.
    for word in dict.fromkeys((*words, *(extract_words(command.text) if command.loose else ()))):
        for use in list_files(word, place, tilde=command.extent == "any"):
            yield use
            yield from _find_others_files(use)
    for name in list_sought(words):
        yield from place.guard(f"**/{name}", searches=True)
    if command.extent == "any" and not (git or command.loose):
        yield from _find_inner_files(command, words, place, search)
    folders = list_folders(command.invocation, partial(_exists, place))
    found = [use for word in folders for use in list_files(word, place)]
    is_unclear = found or (care.folders and any(word[:1] not in "-/" for word in words))
    if place.is_lost and is_unclear:
        yield Unknown(reason="names files in an unknown folder")
    yield from _find_lists(command, place)
    if git:
        yield from _find_git_files(command, git, place, search)
        return
    yield from found
    yield from _ask_about(command, find_unnamed(command, found, search), place)


def _find_inner_files(
    command: Command, words: Sequence[str], place: Place, search: Search
) -> Iterator[Unknown]:
    """Ask about the files that are named inside words, as in a script."""
    inner = (each for word in words if _SCRIPT.search(word) for each in extract_words(word))
    for name in dict.fromkeys(inner):
        if any(search.touches(*use.lexical, *use.real) for use in list_files(name, place)):
            yield Unknown(reason=f"{command.argv[0]} may use {_show(name)}")
    for word in filter(_URL_PATTERN.search, words):
        yield Unknown(reason=f"{_show(word)} may stand for a file that a rule is about")


def _find_others_files(use: PathUse) -> Iterator[Unknown]:
    """Find the files that are reached by links which only another process can follow."""
    for path in use.real:
        if file_lookup.PROCESS_LINK.match(path) and not _OWN_LINK.fullmatch(path):
            yield Unknown(reason=f"{_show(use.text)} leads to an open file, or another process's")


def _find_lists(command: Command, place: Place) -> Iterator[Unknown]:
    name = command.invocation.name
    options = REACH["files *"] | REACH[f"files {name}"]
    may_be_list = command.extent == "any" and name not in REACH["at"]
    lists = [word[1:] for word in command.argv[1:] if may_be_list and word.startswith("@")]
    is_list = any(_exists(place, each) for each in lists if each)
    if name in REACH["input"] or is_list or uses_option(command.invocation, options):
        yield Unknown(reason=f"{command.argv[0]} reads a list that may name files")


def _find_git_files(
    command: Command, git: GitWords, place: Place, search: Search
) -> Iterator[Operand]:
    if git.is_elsewhere or place.is_lost:
        yield Unknown(reason="it is unclear where git looks for files")
    # Files in trees begin at the top of a repository.
    roots = tuple(dict.fromkeys(filter(None, map(find_root, place.folders))))
    top = replace(place, folder=roots[0], others=roots[1:]) if roots else place
    for word in git.list_located():
        yield from chain.from_iterable(list_files(locate(word)[0], each) for each in (place, top))
    folders = dict.fromkeys((*place.folders, *top.folders))
    for pattern in git.list_patterns():
        if any(search.may_meet(f"{folder}/{pattern}") for folder in folders):
            yield Unknown(reason=f"{_show(pattern)} may stand for a file that a rule is about")
    printed = git.list_printed()
    if printed is None:
        return
    default = place if git.verb in ("archive", "grep") else top
    scope = list(_list_paths(printed, place, top)) or default.folders
    left_out = list(_list_paths(git.excluded, place, top))
    if any(word.startswith(("--no-index", "--untracked")) for word in git.words):
        uses = [use for path in scope for use in list_files(path, top)]
        yield from _ask_about(command, find_unnamed(command, uses, search), top)
    files = chain.from_iterable(list_tracked(each, search.care.marks) for each in top.folders)
    if git.reads_history:  # what is here may have been tracked before
        here = chain.from_iterable(map(search.list_below, top.folders))
        files = chain(files, filter(None, here))
    found = (
        path
        for path in files
        if not path or (search.touches(path) and _is_in(path, scope) and not _is_in(path, left_out))
    )
    yield from _ask_about(command, found, top)


def _list_paths(words: Iterable[str], place: Place, top: Place) -> Iterator[str]:
    for word in words:
        name, is_located = locate(word)
        for use in chain.from_iterable(each.guard(name) for each in (place, top)[: 1 + is_located]):
            yield from (*use.lexical, *use.real)


def _exists(place: Place, name: str, *, surely: bool = False) -> bool:
    """Return whether there is a file of this name, or surely is wherever the name may begin."""
    paths = [path for use in place.guard(name) for path in use.lexical]
    found = map(os.path.lexists, paths)
    return bool(paths) and all(found) if surely else any(found)


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{each.rstrip('/')}/") for each in folders)


def _ask_about(command: Command, found: Iterator[str], place: Place) -> Iterator[Unknown]:
    """Ask about a command that may read a file without naming it, if one was found."""
    for path in islice(found, 1):
        name = path.removeprefix(f"{place.root}/") or "a file that a rule is about"
        why = f"{command.argv[0]} reads all it finds, and {_show(name)} may be among it"
        yield Unknown(reason=f"{why}: name files, or leave it out")
