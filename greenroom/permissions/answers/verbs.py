"""What the first words of a command name: which rule for it is as narrow as it is useful.

A rule for a program and its verb, such as `git status`, is only proposed where the verb says what is
done. Nothing is proposed for what runs, fetches, removes or publishes whatever its other words name.
"""

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from itertools import product
from typing import TypeAlias

from greenroom.permissions.shell.programs.wrappers import RUNNERS, SHELLS, WRAPPERS

__all__ = ["Reach", "reach", "runs_scripts", "verb_length", "wraps"]


class Reach(Enum):
    """What a rule for a command may name."""

    PREFIX = "its first words"
    EXACT = "exactly its words"
    INSIDE = "exactly its words, if the others name only what is in the workspace"
    NOTHING = "no rule is narrow enough"


_Pattern: TypeAlias = tuple[str, ...]

_READ = (
    "describe describe-* diff explain graph history images info inspect list list-* logs ls "
    "outdated port ps search show stats status top tree view why"
)
_BUILD = "bench build check clippy doc fmt format lint metadata test typecheck vet"
# Programs, perhaps with a group of verbs, and the verbs behind them.
_VERBS = {
    Reach.NOTHING: """
        deno: eval install repl
        git: bisect clean clone daemon difftool filter-branch gui instaweb mergetool rm shell
        git: update-index update-ref
        git submodule: add foreach
    """,
    Reach.PREFIX: f"""
        apt|apt-cache|brew|conda: {_READ} depends policy
        aws|az *: {_READ}
        bun|npm|pnpm|yarn run: *
        bundle|pdm|pip|pip3|poetry: {_READ} build check freeze index
        cargo|dotnet|go|hatch|uv: {_READ} {_BUILD}
        docker|podman: {_READ} build events version
        docker|podman compose: {_READ} build config down restart start stop up version
        docker|podman container|image|network|volume: {_READ}
        gcloud * *: {_READ}
        gh: search status
        gh issue|pr|release|repo|run|workflow: {_READ} checks watch
        git: add annotate apply archive blame branch cat-file cherry-pick commit describe diff
        git: format-patch fsck grep log ls-files ls-tree merge merge-base mv rebase rev-list
        git: rev-parse revert shortlog show show-ref status tag version
        git reflog|remote|submodule: get-url show status
        git stash|worktree: apply list pop push show
        go: fix version
        go mod|tool: cover graph objdump verify why
        gradle|rake: *
        helm|kubectl: {_READ} api-resources api-versions cluster-info get lint template version
        kubectl config|rollout: current-context get-contexts history status view
        mvn: clean compile package test validate verify
        npm|pnpm|yarn: {_READ} {_BUILD} dev start
        ruff: check format rule
        sed: -n
        systemctl: {_READ} cat is-active is-enabled is-failed
        terraform|tofu: fmt graph output plan providers show validate version
    """,
    Reach.EXACT: """
        bun|cargo|deno|dotnet|go: generate run task test
        gh: issue pr
        git|tox: * -?*
    """,
}
# Words with which git gives up what it can't bring back, here or elsewhere.
_FORCES = re.compile(
    r"-\w*[dDf]\w*|--(?:delete|discard|force|hard|keep|merge|mirror|prune)\b.*|[+:].*"
)


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The program alone says what is done.
_WHOLE = _names("""
    basename black cat column comm cut df diff dirname du echo eslint file flake8 grep head isort
    jest jq ls md5sum mypy nl prettier pwd pylint pyright pytest realpath rg sha256sum sort stat
    tail tr tree tsc uniq vitest wc which
""")
_INSIDE = _names("chmod cp mkdir mv rm rmdir sed tee touch")
_INTERPRETERS = _names("""
    deno elixir java julia lua luajit node nodejs perl php pypy python R Rscript ruby scala swift
    ts-node tsx
""")
_NEVER = {*SHELLS, *WRAPPERS, *RUNNERS, *_INSIDE} | _names("""
    . alias apk apt-get aria2c at batch chgrp chown crontab curl dd dnf easy_install eval expect
    composer export find ftp gem ghci guile halt install ipython irb jshell kill killall ln mount nc ncat
    netcat osascript pacman pipx pkill poweroff reboot rsync scp set sftp shred shutdown snap socat
    source ssh su tclsh telnet trap truncate umount unlink useradd wget wish yum zypper
""")
# Modules of Python that run what their words say, or fetch programs.
_MODULES = _names("""
    IPython asyncio bdb cProfile code conda coverage debugpy ensurepip http idlelib ipykernel
    notebook pdb pipx poetry profile runpy site timeit trace uv webbrowser zipapp
""")
_VERB = re.compile(r"[a-z][A-Za-z0-9:_-]*")
_MODULE = re.compile(r"([A-Za-z_]\w*)[\w.]*")
_PYTHON = re.compile(r"python[\d.]*")
_VERSION = re.compile(r"(?:(?<![\d.])|(?=-))-?[\d.]+$")  # begun once in a row of digits


def _patterns(text: str) -> frozenset[_Pattern]:
    lines = (line.partition(":") for line in map(str.strip, text.splitlines()))
    return frozenset(
        pattern
        for group, _, verbs in lines
        for pattern in product(*(each.split("|") for each in group.split()), verbs.split())
    )


_PATTERNS = {kind: _patterns(text) for kind, text in _VERBS.items()}
_GROUPS = {each[:-1] for patterns in _PATTERNS.values() for each in patterns} | {("uv", "pip")}
_LISTED = {group[0] for group in _GROUPS} - _INSIDE


def wraps(words: Sequence[str]) -> bool:
    """Tell whether a command runs another one that its words, or its text, name."""
    name = _name(words[0])
    return name in SHELLS or name in WRAPPERS or name in ("eval", "source", ".")


def runs_scripts(program: str) -> bool:
    """Tell whether a program does what a file says that another word names."""
    return _name(program) in _INTERPRETERS or program == "make"


def reach(words: Sequence[str]) -> tuple[Reach, int]:
    """Say what a rule for such commands may name, and how many words say what they do.

    Example:
        >>> reach(["git", "status", "-s"])
        (<Reach.PREFIX: 'its first words'>, 2)
        >>> reach(["git", "-C", "sub", "log"])[0].value, reach(["python", "-c", "1"])[0].value
        ('exactly its words', 'no rule is narrow enough')
    """
    program, name = words[0], _name(words[0])
    if words[1:] in (["--version"], ["--help"]) or words == ["node", "-v"]:
        return Reach.EXACT, 2
    if words[1:2] == ["-m"] and _PYTHON.fullmatch(program):
        return _module(words)
    gives_up = program == "git" and any(map(_FORCES.fullmatch, words[1:]))
    for kind, patterns in _PATTERNS.items():
        if length := _begin(words, patterns):
            return Reach.NOTHING if kind is Reach.EXACT and gives_up else kind, length
    if program in _INSIDE:
        return Reach.INSIDE, 1
    if program in _WHOLE:
        return Reach.PREFIX, 1
    if name in _INTERPRETERS:
        # A script by its name, and nothing before it that could be a program's text.
        script = len(words) > 1 and not words[1].startswith("-")
        return Reach.EXACT if script else Reach.NOTHING, 2
    return Reach.NOTHING if name in _NEVER | _LISTED else Reach.EXACT, 1


def _module(words: Sequence[str]) -> tuple[Reach, int]:
    """Look at a module that Python runs; pip is the program of that name."""
    named = _MODULE.fullmatch("".join(words[2:3]))
    if named is None or named[1] in _MODULES:
        return Reach.NOTHING, 3
    if words[2] == "pip":
        kind, length = reach(words[2:])
        return kind, length + 2
    return Reach.INSIDE if words[2] == "venv" else Reach.PREFIX, 3


def verb_length(words: Sequence[str]) -> int:
    """Say how many words name the program and its verb, listed or not; 0 where none stands there."""
    length = _begin(words, _GROUPS)
    return length + 1 if length and _VERB.fullmatch("".join(words[length : length + 1])) else 0


def _begin(words: Sequence[str], patterns: Iterable[_Pattern]) -> int:
    """Say how many words the longest of the patterns that they begin with has; 0 if none fits."""
    fitting = (each for each in patterns if len(each) <= len(words))
    return max((len(each) for each in fitting if all(map(_fits, words, each))), default=0)


def _fits(word: str, wanted: str) -> bool:
    if "*" not in wanted or wanted.startswith("-"):
        return fnmatchcase(word, wanted)
    return fnmatchcase(word, wanted) and _VERB.fullmatch(word) is not None


def _name(program: str) -> str:
    """Take the name of a program that may be named by its path, or with its version."""
    name = program.rpartition("/")[2]
    return name if name in SHELLS else _VERSION.sub("", name) or name
