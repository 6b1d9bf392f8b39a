"""How calls are settled that no rule decides: by the mode, by the sandbox, or by only reading.

The rules are applied first (`greenroom.permissions.evaluator`). What they deny stays denied in
every mode. A part that no rule is about is open, and the first of these settles it:

- the tool needs no permission;
- the part is a command that only reads inside the workspace;
- the mode plan denies everything but reading, even if a rule allows it;
- the command runs in a sandbox that holds files and network, if the user accepts that;
- the modes accept-edits and bypass allow, the mode deny denies.

Otherwise, it is asked about. A part is not open if a rule asks about it, or may deny it but that
can't be determined. Then only the modes plan and deny settle it, and bypass unless there is such
a doubt.
"""

import os
import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from greenroom.core import ConfigurationError, Execute, RuleDecision, ShellCommand, visible
from greenroom.fs import read_beginning
from greenroom.permissions.call import (
    MAX_LENGTH,
    Call,
    Fact,
    find_files,
    find_protected,
    writes_inside,
    writes_own_rules,
)
from greenroom.permissions.evaluator import Ruling
from greenroom.shell import (
    Command,
    Part,
    PathUse,
    Place,
    Word,
    abbreviates,
    read_invocation,
)

PermissionMode: TypeAlias = Literal["default", "accept-edits", "plan", "deny", "bypass"]
"""How open questions are settled.

- default: the person is asked.
- accept-edits: tools of the category write may write what is not protected in the workspace.
- plan: only tools and commands that read are allowed.
- deny: what would be asked is denied.
- bypass: what no rule denies is allowed. The person is still asked if it is unclear whether a rule
  denies it, and before Greenroom's own rules are written.
"""

Sandboxed: TypeAlias = Literal["ask", "allow"]
"""How open questions are settled about a command whose sandbox holds files and network.

- ask: like those about any other command.
- allow: it is allowed, unless it names something protected or it is unclear whether a rule denies
  it.
"""


def check_mode(mode: str, sandboxed: str = "ask") -> None:
    """Check the name of a mode, and the value of `sandboxed`.

    Raises:
        ConfigurationError: a value is unknown; the error names the known ones.
    """
    modes, ways = get_args(PermissionMode), get_args(Sandboxed)
    for what, value, known in (("permission mode", mode, modes), ("sandboxed", sandboxed, ways)):
        if value not in known:
            raise ConfigurationError(
                f"unknown {what}: {value!r}", hint=f"one of {', '.join(known)}"
            )


def apply_mode(
    rulings: Sequence[Ruling],
    call: Call,
    mode: PermissionMode,
    *,
    sandboxed: Sandboxed = "ask",
    read_only: bool = True,
    careful: bool = False,
) -> tuple[Ruling, ...]:
    """Settle what the rules left open.

    Args:
        rulings: what the rules decided.
        call: the call.
        mode: how the rest is settled.
        sandboxed: whether commands that a sandbox holds are allowed.
        read_only: whether commands that only read inside the workspace are allowed.
        careful: whether a rule denies or asks about files.
    """
    confined = sandboxed == "allow" and _is_confined(call)
    inputs = (each for each in call.facts if isinstance(each, PathUse) and each.kind == "read")
    read_only = read_only and all(map(call.is_inside, inputs))

    def reads(fact: Fact) -> bool:
        return read_only and isinstance(fact, Command) and reads_only(fact, call, careful=careful)

    settled = [_settle(each, call, mode, confined=confined, reads=reads) for each in rulings]
    return tuple(
        replace(ruling, decision=new[0], why=new[1]) if new else ruling
        for ruling, new in zip(rulings, settled, strict=True)
    )


def _settle(
    ruling: Ruling,
    call: Call,
    mode: PermissionMode,
    *,
    confined: bool,
    reads: Callable[[Fact], bool],
) -> tuple[RuleDecision, str] | None:
    """Return another decision than the rules', with its reason; None to leave theirs."""
    fact, decision = ruling.fact, ruling.decision
    is_open = decision is RuleDecision.ASK and ruling.rule is None
    is_sure = is_open and not ruling.doubt
    if decision is RuleDecision.DENY:
        return None
    if is_open and call.unless_denied:
        return RuleDecision.ALLOW, "this tool needs no permission"
    if is_sure and reads(fact):
        return RuleDecision.ALLOW, "it only reads, inside the workspace"
    if mode == "plan" and call.category != "read" and not call.unless_denied:
        return RuleDecision.DENY, "in the mode plan only reading is allowed"
    if decision is RuleDecision.ALLOW:
        return None
    if confined and is_sure and not find_protected(fact, call):
        return RuleDecision.ALLOW, "its sandbox holds files and network"
    is_edit = isinstance(fact, PathUse) and call.category == "write" and writes_inside(fact, call)
    if mode == "accept-edits" and is_open and is_edit:
        return RuleDecision.ALLOW, "the mode accept-edits allows this"
    if mode == "bypass" and not (ruling.doubt or writes_own_rules(fact, call)):
        return RuleDecision.ALLOW, "the mode bypass allows what no rule denies"
    if mode == "deny":
        return RuleDecision.DENY, f"{ruling.reason}; the mode deny does not ask"
    return None


def _is_confined(call: Call) -> bool:
    """Return whether the call only runs commands, in a sandbox that surely holds them."""
    is_command = all(isinstance(effect, ShellCommand | Execute) for effect in call.effects)
    confined = call.sandbox.enforced if call.sandbox else {}
    is_whole = "files" in confined and "network" in confined
    return is_whole and is_command and bool(call.effects) and call.category == "execute"


# Commands that need no rule, since they only read, and only inside the workspace. The table in
# `greenroom.shell.programs` says which programs those are.

_GIT_HARMLESS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_GIT_ELSEWHERE = frozenset({"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"})
# Options that give the pattern, which makes the first operand a file.
_PATTERNS = ("-e", "-f", "--regexp", "--file", "--files", "--from-file", "--expression")
_READ_FOLDERS = frozenset({"diff", "git diff", "git grep", "git log", "git show", "rg"})
_DEEP = re.compile(r"-[rRd]|--[rd]")  # of grep


def reads_only(fact: Command, call: Call, *, careful: bool = False) -> bool:
    """Return whether a command only reads, and only inside the workspace, so that it needs no rule.

    The program must be one that only reads, whatever its words are, and each word that may name a
    file must be known and lead into the workspace, both as written and with links followed. If
    some rule is about files (`careful`), it must not read the files that it finds in folders.
    """
    argv, place = fact.argv, fact.place or call.place
    name = argv[0].text
    if fact.risks or place.is_lost or fact.extent not in ("prints", "reads"):
        return False
    if not os.path.isdir(call.place.root):
        return False
    if "/" in name or visible(fact.text) != fact.text or _is_shadowed(name, place):
        return False  # a person should look at it, since it hides something
    if fact.extent == "prints":
        return all(_is_inside(word, place, call) for word in argv[1:] if word.pattern)
    return not (careful and _reads_folders(argv)) and _reads_inside(fact, place, call)


def _reads_folders(argv: Sequence[Word]) -> bool:
    """Return whether a program reads files that it finds in folders or a repository's history."""
    _, program, _, parts = read_invocation(argv)
    is_deep = any(_DEEP.match(part.option) for part in parts)
    return program.name in _READ_FOLDERS or (program.name == "grep" and is_deep)


def _is_shadowed(name: str, place: Place) -> bool:
    """Return whether the search path may lead to a program of this name in the workspace.

    The shims of version managers count as well, since a project's files say what they run.
    """
    root = posixpath.join(place.root, "")
    for folder in map(posixpath.normpath, os.environ.get("PATH", "").split(":")):
        is_near = folder.endswith("/shims") or f"{folder}/".startswith(root)
        if folder[0] != "/" or (is_near and os.path.lexists(f"{folder}/{name}")):
            return True
    return False


def _reads_inside(fact: Command, place: Place, call: Call) -> bool:
    argv = fact.argv
    _, program, start, seen = read_invocation(argv)
    if argv[0].text == "git":
        where = _find_git_place(argv[1:start], place, call)
        if where is None:
            return False
        place = where
    if argv[0].text == "cd" and (
        len(argv) != 2 or argv[1].text[:1] in ("", "-") or "CDPATH" in os.environ
    ):
        return False
    if any("~" in part.marks for part in seen):
        return False
    # Values that are only text name no file, nor does the pattern that is searched for.
    texts = {part.value_at for part in seen if part.value is not None and "=" in part.marks}
    apart = {part.value_at for part in seen if part.value_at > part.at}
    texts = {at for at in texts if not argv[at].unknown or (at in apart and not argv[at].split)}
    texts.add(_find_pattern(argv, seen) if "pattern" in program.kinds else 0)
    return all(
        at in texts or _is_inside(word, place, call)
        for at, word in enumerate(argv[start + 1 :], start + 1)
    )


def _find_git_place(words: Sequence[Word], place: Place, call: Call) -> Place | None:
    """Find the folder that git runs in, by its first options; None if it may do more than read."""
    words = [word for word in words if word.text not in _GIT_HARMLESS]
    if len(words) == 2 and words[0].text == "-C" and _is_inside(words[1], place, call):
        words, place = [], place.move(words[1].text)
    if words or place.is_lost or not _GIT_ELSEWHERE.isdisjoint(os.environ):
        return None
    folders = map(place.lookup.resolve, dict.fromkeys((place.folder, *place.others)))
    return None if any(map(describe_git_risk, folders)) else place


def _find_pattern(argv: Sequence[Word], seen: Sequence[Part]) -> int:
    """Find the operand that is the pattern; 0 if an option gives it, or if it is unclear."""
    if any(abbreviates(part.option, each) for part in seen for each in _PATTERNS):
        return 0
    at = next((part.at for part in seen if not part.option), 0)
    before = argv[at - 1].text  # a long option, whose value it may be
    is_value = before.startswith("--") and before != "--" and "=" not in before
    return 0 if is_value or argv[at].may_be_option else at


def _is_inside(word: Word, place: Place, call: Call) -> bool:
    """Return whether all that a word may name lies in the workspace."""
    if word.dynamic:
        return False
    if word.text in ("-", "/dev/null", ""):
        return True
    if word.text.startswith("~") and not (word.quoted or word.text == "~" or word.text[1] == "/"):
        return False  # such as `~-`, the folder before
    uses = find_files(word, place, call)
    if len(word.text) > MAX_LENGTH or not all(map(call.is_inside, uses)):
        return False
    # A pattern may stand for a name that looks like an option.
    names = (path.rpartition("/")[2] for use in uses for path in use.lexical)
    return not word.pattern or not any(name.startswith("-") for name in names)


# Whether git, when it only reads, runs programs that a repository names in its own files.
#
# Programs that the user's configuration names are the user's choice; those that the repository
# names may come from the project's author. A key that is not known to be harmless counts as naming
# a program, and so does a file that can't be read.

MAX_CACHED = 64
MAX_CONFIG = 1 << 20
MAX_INDEX = 1 << 26

_SECTIONS = """
    advice alias author blame branch checkout color column commit core credential diff extensions
    fetch gc help http i18n index init lfs log maintenance merge pack pull push rebase remote rerere
    stash status submodule tag transfer url user
"""
_PROGRAMS = """
    alternaterefscommand askpass attributesfile clean cmd command driver editor external fsmonitor
    gitproxy helper hookspath objectformat pager partialclone partialclonefilter process promisor
    proxy receivepack showsignature smudge sshcommand textconv update uploadpack vcs worktree
"""
_HARMLESS = frozenset(_SECTIONS.split()), frozenset(_PROGRAMS.split())
_LINE = re.compile(
    r'[ \t]*(?:\[(?P<section>[A-Za-z0-9-]+)(?:\.[^\]\n"\\]*|[ \t]+"(?:[^"\\\n]|\\.)*")?\][ \t]*)?'
    r"(?:(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(?P<value>[^\n]*[^\\\n]|))?)?(?:[#;][^\n]*)?"
)
_OFF = frozenset({"false", "no", "off", "0"})
_GITLINK = b"\0\0\xe0\0"  # the mode of an entry of the index that is another repository


def describe_git_risk(folder: str) -> str:
    """Say what git may run because of a repository around a folder; empty if nothing.

    Git uses the nearest repository; here all of them count, since which one git accepts depends on
    more than we can see. A submodule counts as naming a program, without a look at its
    configuration. What was read is cached as long as the file stays the same.

    Args:
        folder: an absolute path without links.
    """
    try:
        folders = (each for place in _list_parents(folder) for each in _list_git_folders(place))
        return next((reason for each in folders for reason in _list_reasons(each)), "")
    except (OSError, ValueError) as error:
        return str(error)


def _list_parents(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def _list_git_folders(folder: str) -> Iterator[str]:
    """List the folders that git may use as the repository of a folder."""
    link = os.path.join(folder, ".git")
    if os.path.isdir(link):
        yield link
    elif os.path.lexists(link):
        text = _read_file(link, 4096).decode("utf-8", "surrogateescape").rstrip("\r\n")
        if not text.startswith("gitdir: "):
            raise ValueError(f"{link} is not understood")
        yield os.path.join(folder, text.removeprefix("gitdir: "))
    if os.path.lexists(os.path.join(folder, "HEAD")):
        yield folder  # it may be a bare repository


def _list_reasons(gitdir: str) -> Iterator[str]:
    """List what git may run because of a repository."""
    folders = [gitdir]
    if os.path.lexists(common := os.path.join(gitdir, "commondir")):
        folders.append(os.path.join(gitdir, os.fsdecode(_read_file(common, 4096)).rstrip("\r\n")))
    for each in folders:
        for name in ("config", "config.worktree"):
            for key in _read_cached(os.path.join(each, name), _find_keys):
                yield f"{os.path.join(each, name)} sets {key}, which may run a program"
        if os.path.lexists(hook := os.path.join(each, "hooks/post-index-change")):
            yield f"git may run {hook}"
    for submodule in _read_cached(os.path.join(gitdir, "index"), _find_submodules):
        yield f"git may run what a submodule of {submodule} names"


def _read_cached(path: str, find: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    """Return what is found in a file, looking again if it has changed; nothing if it is missing."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ()
    times = (found.st_mtime_ns, found.st_ctime_ns)  # no program can set the second one
    signature = (found.st_dev, found.st_ino, found.st_size, found.st_mode, *times)
    return _find_once(find, path, signature)


@lru_cache(MAX_CACHED)
def _find_once(
    find: Callable[[str], tuple[str, ...]], path: str, signature: tuple[int, ...]
) -> tuple[str, ...]:
    return find(path)


def _read_file(path: str, most: int) -> bytes:
    """Read a regular file of limited size; a pipe in its place does not block."""
    data = read_beginning(path, most + 1)
    if len(data) > most:
        raise ValueError(f"{path} is too large to look at")
    return data


def _find_keys(path: str) -> tuple[str, ...]:
    """Find the keys of a configuration file that are not known to be harmless."""
    found, section = dict[str, None](), ""
    sections, programs = _HARMLESS
    for line in _read_file(path, MAX_CONFIG).decode("latin-1").replace("\r\n", "\n").split("\n"):
        parts = _LINE.fullmatch(line)
        if parts is None or "\0" in line:
            raise ValueError(f"{path} is not understood: {line[:60]!r}")
        section = (parts["section"] or section).lower()
        key = (parts["key"] or "").lower()
        is_off = key == "fsmonitor" and (parts["value"] or "").strip().lower() in _OFF
        if key and not is_off and (section not in sections or key in programs):
            found[f"{section}.{key}"] = None
    return tuple(found)


def _find_submodules(path: str) -> tuple[str, ...]:
    """Return the index itself if it may list a submodule, where git would look for changes, too."""
    beside = os.listdir(os.path.dirname(path))
    has_others = any(name.startswith("sharedindex") for name in beside) or "modules" in beside
    return (path,) if has_others or _GITLINK in _read_file(path, MAX_INDEX) else ()
