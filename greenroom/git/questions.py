"""Questions to git itself: what a repository's own files make git do while it only reads.

They may name programs that no word switches off, or lead git to files elsewhere. What the
configuration means is asked of git, since only git reads it as git does. Programs and files that
the user's own configuration names are the user's choice.
"""

import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import PurePath
from typing import NamedTuple

from greenroom.core._internal import visible
from greenroom.fs._internal import read_beginning
from greenroom.git.overrides import add_overrides, find_verb

MAX_ENTRIES = 50_000  # files in git's folder
MAX_PATH = 4096

_PROGRAM = re.compile(
    r"filter\..*\.(clean|smudge|process)|hook\..*\.command|lfs\.extension\..*"
    r"|core\.virtualfilesystem"
)
_FILE = re.compile(
    r"core\.(attributes|excludes)file|mailmap\.file|blame\.ignorerevsfile|diff\.orderfile"
)
_INCLUDE = re.compile(r"include(if\..*)?\.path")
_KEYS = f"^({_PROGRAM.pattern}|{_FILE.pattern}|{_INCLUDE.pattern})$"
_UNREAD = ("hooks", "modules", "lfs", "annex")  # folders that no reading verb opens
_OUTSIDE = re.compile(rb"\t((?:/|(?:[^\0]*/)?\.\.(?:/|\0))[^\0]*)")
_FOLDER = re.compile(rb"\t([^\0]+)/[^\0/]*\0")


class _Question(NamedTuple):
    """A command, and limits for it; a pipe among the files that it reads holds it up forever."""

    words: tuple[str, ...]
    seconds: float = 0.1
    most: int = 1 << 16  # bytes of output


_PLACES = ("--show-toplevel", "--absolute-git-dir", "--git-common-dir")
_QUESTIONS = (
    _Question(("git", "rev-parse", *_PLACES)),
    _Question(("git", "config", "--show-scope", "--includes", "-z", "--get-regexp", _KEYS)),
    _Question(("git", "ls-files", "--stage", "--full-name", "-z", ":/"), 1, 1 << 26),
)


@dataclass(frozen=True, slots=True)
class GitAnswer:
    """What is known of the repository around a folder.

    Attributes:
        reason: why a person should look before git reads it; empty if nothing speaks against it.
        has_submodules: whether its index names other repositories.
        folders: the folders that its index names, by their absolute paths.
        top: the top of its work tree.
        files: the files that all of this depends on; none if not all of them are known.
    """

    reason: str = ""
    has_submodules: bool = False
    folders: tuple[str, ...] = field(default=(), repr=False)
    top: str = ""
    files: tuple[str, ...] = field(default=(), repr=False)

    def find_obstacle(self, argv: Sequence[str]) -> str:
        """Say why a person should look before a command reads the repository; empty if none has to.

        `git grep` follows a link in the place of a folder that the index names, wherever it leads.
        So this looks at the disk.
        """
        if self.reason or "grep" not in argv[find_verb(argv) :][:1]:
            return self.reason
        link = next(filter(os.path.islink, self.folders), "")
        return link and f"git grep would follow the link {visible(link)}"


def ask_git(folder: str, program: str, environment: Mapping[str, str]) -> GitAnswer:
    """Ask git about the repository around a folder.

    Git gets 0.1 seconds to say what its configuration is, and one to list its index.

    Args:
        folder: an absolute path without links.
        program: the file of git.
        environment: all variables that it gets.

    Raises:
        OSError, ValueError, subprocess.TimeoutExpired: git gives no answer.
    """
    places, settings, index = _run_all(program, folder, environment)
    names = os.fsdecode(places).removesuffix("\n").split("\n")
    if len(names) != len(_PLACES):
        raise ValueError("its path has a line end")
    top, home, common = (os.path.realpath(os.path.join(folder, each)) for each in names)
    pairs = list(_read_settings(os.fsdecode(settings)))
    named = [_locate(value, top) for key, value in pairs if _FILE.fullmatch(key)]
    reasons = chain(
        _list_odd_places(folder, top, home, common),
        (f"the repository has git run a program: {k}" for k, _ in pairs if _PROGRAM.fullmatch(k)),
        (f"the repository has git read {each}" for each in named if not _is_below(each, top)),
        (f"the index names {os.fsdecode(each[1])}" for each in _OUTSIDE.finditer(index)),
        _list_links(common),
    )
    files = (
        *(os.path.join(home, name) for name in ("commondir", "gitdir", "config.worktree", "index")),
        *(os.path.join(common, name) for name in ("config", "objects/info/alternates")),
        os.path.join(top, ".git"),
        *named,
    )
    return GitAnswer(
        reason=visible(next(reasons, "")),
        has_submodules=b"\x00160000 " in b"\0" + index,
        folders=tuple(_list_folders(index, top)),
        top=top,
        files=() if any(_INCLUDE.fullmatch(key) for key, _ in pairs) else files,
    )


def _read_settings(output: str) -> Iterator[tuple[str, str]]:
    """Read the keys and values that the repository itself sets."""
    words = output.split("\0")
    for scope, entry in zip(words[::2], words[1::2], strict=False):
        if scope in ("local", "worktree"):
            key, _, value = entry.partition("\n")
            yield key, value


def _list_folders(index: bytes, top: str) -> Iterator[str]:
    """List the folders of the names in an index, and those around them."""
    todo, found = set(_FOLDER.findall(index)), set[bytes]()
    while todo:
        found |= todo
        todo = {os.path.dirname(each) for each in todo} - found - {b""}
    return (os.path.join(top, os.fsdecode(each)) for each in found)


def _list_odd_places(folder: str, top: str, home: str, common: str) -> Iterator[str]:
    """List what is odd about where git's folders lie, since a file `.git` may lead to any of them.

    Git's folder usually is `.git` at the top of the work tree. That of a linked work tree names it
    in turn, which only the owner of the other repository can do. That of a submodule lies in the
    repository around it.
    """
    at, shared = os.path.join(top, ".git"), os.path.dirname(os.path.dirname(home))
    is_linked = common == shared and os.path.basename(os.path.dirname(home)) == "worktrees"
    if is_linked:
        text = os.fsdecode(read_beginning(os.path.join(home, "gitdir"), MAX_PATH))
        is_linked = os.path.realpath(os.path.join(home, text.rstrip("\n"))) == at
    modules = [os.path.join(each, ".git/modules") for each in map(str, PurePath(top).parents)]
    if not _is_below(folder, top):
        yield f"the work tree of the repository is {top}"
    if not (home == at or is_linked or any(_is_below(home, each) for each in modules)):
        yield f"this is the repository in {home}"
    if common != home and not is_linked:
        yield f"this is part of the repository in {common}"
    if os.path.lexists(os.path.join(common, "objects/info/alternates")):
        yield "the repository uses objects of others"


def _list_links(common: str) -> Iterator[str]:
    """List the links that lead out of git's folder, where git would read, and print, other files.

    Objects need no look, since nobody guesses the name of a file with another one's objects.
    """
    folders, count = [common], 0
    for folder in folders:
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            for entry in entries:
                count += 1
                if count > MAX_ENTRIES:
                    raise ValueError(f"{common} has too many files")
                if folder == common and entry.name in _UNREAD:
                    continue
                if entry.is_symlink() and not _is_below(entry.path, common):
                    yield f"the repository has a link to elsewhere: {entry.path}"
                is_object = len(entry.name) == 2 and os.path.basename(folder) == "objects"
                if entry.is_dir(follow_symlinks=False) and not is_object:
                    folders.append(entry.path)


def _locate(value: str, top: str) -> str:
    """Locate a file of a configuration; `~` and other signs lead out of the work tree."""
    return os.path.join("/" if value.startswith(("~", "%", ":")) else top, value)


def _is_below(path: str, folder: str) -> bool:
    real = os.path.realpath(path)
    return real == folder or real.startswith(os.path.join(folder, ""))


def _run_all(program: str, folder: str, environment: Mapping[str, str]) -> list[bytes]:
    """Ask all questions at the same time, and return what git prints.

    Raises:
        OSError, ValueError, subprocess.TimeoutExpired: one fails; all processes are ended.
    """
    started = time.monotonic()
    running = list[subprocess.Popen[bytes]]()
    try:
        for question in _QUESTIONS:
            process = subprocess.Popen(  # noqa: S603 - a file that the caller chose
                add_overrides(question.words),
                executable=program,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            running.append(process)
        return [_read_output(*each, started) for each in zip(running, _QUESTIONS, strict=True)]
    finally:
        for each in running:
            with each:
                if each.returncode is None:
                    os.killpg(each.pid, signal.SIGKILL)


def _read_output(process: "subprocess.Popen[bytes]", question: _Question, started: float) -> bytes:
    assert process.stdout is not None
    data, descriptor, until = bytearray(), process.stdout.fileno(), started + question.seconds
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        while selector.select(max(until - time.monotonic(), 0)):
            piece = os.read(descriptor, 1 << 16)
            data += piece
            if len(data) > question.most:
                raise ValueError("git has too much to say")
            if not piece:
                if process.wait(question.seconds) > 1:  # 1 is that no setting was found
                    raise ValueError("git does not take it for a repository")
                return bytes(data)
    raise TimeoutError(f"git did not answer within {question.seconds} seconds")
