"""What the first words of a command name: which rule for it is as narrow as it is useful.

A rule for a program and its verb, such as `git status`, is only proposed where the verb says what is
done. Nothing is proposed for what runs, downloads, removes or publishes whatever its other words name.
"""

import re
from collections.abc import Sequence
from enum import Enum
from fnmatch import fnmatchcase

from greenroom.permissions.shell.programs.wrappers import RUNNERS, SHELLS, WRAPPERS

__all__ = ["Reach", "reach", "verb_length", "wraps"]


class Reach(Enum):
    """How much of a command a rule may name that is not about its first words."""

    EXACT = "exactly these words"
    NOTHING = "no rule is narrow enough"


# Programs and groups of verbs, and the verbs behind them for which a rule is proposed.
_VERBS_TEXT = """
    apt: depends list policy rdepends search show
    apt-cache: *
    aws *: describe-* head-* list-* ls
    az *: list show
    brew: config deps doctor info list outdated search
    bundle: check list show
    cargo: bench build check clippy doc fmt metadata test tree
    conda: info list
    docker: build events history images info inspect logs port ps stats top version
    docker compose: build config down images logs ls ps restart start stop top up version
    docker image: history inspect ls
    docker network: inspect ls
    docker volume: inspect ls
    dotnet: build clean format test
    gcloud * *: describe list
    gh: search status
    gh issue: list status view
    gh pr: checks diff list status view
    gh release: list view
    gh repo: list view
    gh run: list view watch
    gh workflow: list view
    git: add annotate apply archive blame branch cat-file cherry cherry-pick clone commit
    git: count-objects describe diff diff-tree fetch for-each-ref format-patch fsck grep log
    git: ls-files ls-remote ls-tree merge merge-base mv name-rev pull push range-diff rebase rev-list
    git: rev-parse revert shortlog show show-branch show-ref status tag var verify-commit version
    git reflog: show
    git remote: get-url show
    git stash: apply list pop push show
    git submodule: status
    git worktree: add list
    go: build fix fmt list test version vet
    go mod: graph verify why
    go tool: cover objdump
    gradle: *
    hatch: build fmt test version
    helm: get history lint list search show status template version
    kubectl: api-resources api-versions cluster-info describe diff explain get logs top version
    kubectl config: current-context get-contexts view
    kubectl rollout: history status
    mvn: clean compile package test validate verify
    npm: list ls outdated start test view why
    npm run: *
    pdm: build list show
    pip: check freeze index list show
    pip3: check freeze index list show
    pnpm: list ls outdated start test why
    pnpm run: *
    podman: build history images info inspect logs port ps stats top version
    podman compose: build config down images logs ls ps restart start stop up version
    poetry: build check show version
    rake: *
    ruff: check format rule
    systemctl: cat is-active is-enabled is-failed list-timers list-unit-files list-units show status
    terraform: fmt graph output plan providers show validate version
    tofu: fmt graph output plan providers show validate version
    tox: config list run
    uv: build tree version
    yarn: build lint list outdated start test why
    yarn run: *
"""

_WHOLE = frozenset(
    # the program alone says what is done
    {"basename", "black", "cat", "column", "comm", "cut", "df", "diff", "dirname", "du", "echo"}
    | {"eslint", "file", "flake8", "grep", "head", "isort", "jest", "jq", "ls", "md5sum", "mypy"}
    | {"nl", "prettier", "pwd", "pylint", "pyright", "pytest", "realpath", "rg", "sha256sum"}
    | {"sort", "stat", "tail", "tr", "tree", "tsc", "uniq", "vitest", "wc", "which"}
)
# Listed programs with verbs for which a rule of all the words is proposed.
_EXACT_TEXT = """
    cargo run; dotnet run; gh issue *; gh pr *; git *; go generate; go run
"""
_NOTHING_TEXT = """
    bun *; deno eval; deno install; deno repl; git bisect; git clean; git daemon; git difftool;
    git filter-branch; git gui; git instaweb; git mergetool; git reset; git rm; git shell;
    git submodule foreach; git update-index; git update-ref
"""
_RUNNERS = frozenset(
    {"bundle exec", "hatch run", "pdm run", "pipenv run", "poetry run", "rye run", "uv run"}
)
_INTERPRETERS = frozenset(
    {"bun", "deno", "elixir", "java", "julia", "lua", "luajit", "node", "nodejs", "perl", "php"}
    | {"pypy", "python", "R", "Rscript", "ruby", "scala", "swift", "ts-node", "tsx"}
)
_NEVER = frozenset(
    {*SHELLS, *WRAPPERS, *RUNNERS}
    | {".", "alias", "eval", "export", "set", "source", "trap"}
    | {"awk", "expect", "gawk", "ghci", "guile", "ipython", "irb", "jshell", "mawk", "nawk"}
    | {"osascript", "sed", "tclsh", "wish"}
    | {"chgrp", "chmod", "chown", "crontab", "at", "batch", "dd", "find", "install", "ln", "mount"}
    | {"mv", "rm", "rmdir", "rsync", "scp", "sftp", "shred", "tee", "truncate", "umount", "unlink"}
    | {"aria2c", "curl", "ftp", "nc", "ncat", "netcat", "socat", "ssh", "telnet", "wget"}
    | {"apk", "apt-get", "dnf", "easy_install", "gem", "pacman", "pipx", "snap", "yum", "zypper"}
    | {"halt", "kill", "killall", "pkill", "poweroff", "reboot", "shutdown", "su", "useradd"}
)
# Modules of Python that run what their words say, or fetch programs.
_MODULES = frozenset(
    {"IPython", "asyncio", "bdb", "cProfile", "code", "conda", "coverage", "debugpy", "ensurepip"}
    | {"http.server", "idlelib", "ipykernel", "notebook", "pdb", "pip", "pipx", "poetry", "profile"}
    | {"runpy", "site", "timeit", "trace", "uv", "webbrowser", "zipapp"}
)
_VERB = re.compile(r"[a-z][A-Za-z0-9:_-]*")
_MODULE = re.compile(r"[A-Za-z_][\w.]*")
_PYTHON = re.compile(r"python[\d.]*")
_VERSION = re.compile(r"(?:(?<![\d.])|(?=-))-?[\d.]+$")  # begun once in a row of digits


def _listed(text: str) -> dict[tuple[str, ...], frozenset[str]]:
    found: dict[tuple[str, ...], frozenset[str]] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        names, _, verbs = line.partition(":")
        group = tuple(names.split())
        found[group] = found.get(group, frozenset()) | frozenset(verbs.split())
    return found


def _patterns(text: str) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(each.split()) for each in text.split(";"))


_VERBS = _listed(_VERBS_TEXT)
_LISTED = frozenset(group[0] for group in _VERBS)
_EXACT, _NOTHING = _patterns(_EXACT_TEXT), _patterns(_NOTHING_TEXT)


def wraps(words: Sequence[str]) -> bool:
    """Tell whether a command runs another one that its words, or its text, name."""
    name = _name(words[0])
    return name in SHELLS or name in WRAPPERS or name in ("eval", "source", ".")


def reach(words: Sequence[str]) -> int | Reach:
    """Say how many words a rule for such commands should name, or which else it should be.

    Example:
        >>> reach(["git", "status", "-s"]), reach(["npm", "run", "lint"]), reach(["jq", "."])
        (2, 3, 1)
        >>> reach(["git", "-C", "sub", "log"]), reach(["python", "-c", "1"])
        (<Reach.EXACT: 'exactly these words'>, <Reach.NOTHING: 'no rule is narrow enough'>)
    """
    program = words[0]
    if " ".join(words[:2]) in _RUNNERS:
        return _behind_runner(words)
    if words[1:2] == ["-m"] and _is_python(program):
        named = len(words) > 2 and _MODULE.fullmatch(words[2])
        return (
            3 if named and words[2].partition(".")[0] not in _MODULES | {"http"} else Reach.NOTHING
        )
    if _begins_with(words, _NOTHING):
        return Reach.NOTHING
    if (length := verb_length(words)) and _listed_verb(words):
        return length
    if program in _LISTED:
        is_exact = len(words) > 1 and _begins_with(words, _EXACT)
        return Reach.EXACT if is_exact else Reach.NOTHING
    if program in _WHOLE:
        return 1
    return _unlisted(words)


def _unlisted(words: Sequence[str]) -> Reach:
    name = _name(words[0])
    if name in _INTERPRETERS:
        # A script by its name, and nothing before it that could be a program's text.
        return Reach.NOTHING if len(words) < 2 or words[1].startswith("-") else Reach.EXACT
    return Reach.NOTHING if name in _NEVER or name in _LISTED else Reach.EXACT


def _behind_runner(words: Sequence[str]) -> int | Reach:
    """Look at the program that runs in a project's environment; an unknown one is named, too."""
    inner = words[2:]
    if not inner or inner[0].startswith("-"):
        return Reach.NOTHING
    found = reach(inner)
    if isinstance(found, int):
        return 2 + found
    is_tool = _VERB.fullmatch(inner[0]) and _name(inner[0]) not in _INTERPRETERS | {"make"}
    return 3 if found is Reach.EXACT and is_tool else found


def verb_length(words: Sequence[str]) -> int:
    """Say how many words name the program and its verb, listed or not; 0 where none stands there."""
    length = _group_length(words)
    return length + 1 if length and _VERB.fullmatch("".join(words[length : length + 1])) else 0


def _listed_verb(words: Sequence[str]) -> bool:
    """Tell whether a rule may name the verb."""
    length = _group_length(words)
    patterns = [
        each
        for group, verbs in _VERBS.items()
        if len(group) == length and _is_of(words, group)
        for each in verbs
    ]
    return any(fnmatchcase(words[length], each) for each in patterns)


def _group_length(words: Sequence[str]) -> int:
    """Find the longest group that is listed; 0 for a program that is not."""
    fitting = (len(group) for group in _VERBS if len(group) <= len(words) and _is_of(words, group))
    return max(fitting, default=0)


def _is_of(words: Sequence[str], group: Sequence[str]) -> bool:
    return all(
        word == name or (name == "*" and _VERB.fullmatch(word))
        for word, name in zip(words, group, strict=False)
    )


def _begins_with(words: Sequence[str], groups: Sequence[Sequence[str]]) -> bool:
    return any(
        len(words) >= len(group)
        and all(each in (word, "*") for word, each in zip(words, group, strict=False))
        for group in groups
    )


def _is_python(program: str) -> bool:
    return bool(_PYTHON.fullmatch(program))


def _name(program: str) -> str:
    """Take the name of a program that may be named by its path, or with its version."""
    name = program.rpartition("/")[2]
    return name if name in SHELLS else _VERSION.sub("", name) or name
