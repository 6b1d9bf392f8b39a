"""What is told of a decision: why it was made, what exactly was judged, and what the call does.

The last is what it does beyond the workspace and beyond itself, in words for the person who is
asked.
"""

import hashlib
import os
import posixpath
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain

from greenroom.core import (
    CONFIGURATION_FOLDERS,
    PermissionEffects,
    PermissionPart,
    RuleDecision,
    clip,
    visible,
)
from greenroom.fs import read_beginning
from greenroom.permissions.call import Call, HostUse, find_files, find_hosts
from greenroom.permissions.evaluator import Judgement
from greenroom.permissions.rule import PermissionRule
from greenroom.permissions.suggestions import forbid, suggest
from greenroom.shell import Change, Command, PathUse, basename

MAX_NAMES = 10_000  # of files that are looked up
MAX_FILES = 100
MAX_BYTES = 16 << 20  # that are read of all together
MAX_READ = 1 << 20  # of one file
_MADE_UP = ("/proc/", "/sys/")  # what is in there differs at each look
_DATED = (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK)
_MOST_TOLD = 20  # of each kind; the parts of the call have them all
_MOST_TEXT = 300  # characters of each
_MOST_NAMES = 256  # of files, in the words of one command
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_PRIVILEGED = frozenset({"doas", "gosu", "pkexec", "run0", "runuser", "su", "sudo", "sudoedit"})


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A decision with everything that a prompt, a log and the model need to know of it.

    Attributes:
        decision: allow, deny or ask.
        reason: why, in words for people and models.
        rule: the rule that decided, or None.
        parts: the ruling on each part of the call.
        digest: SHA-256 over the tool, the input, the folder, and every byte of what the tool
            states and what follows from it, such as the words of a command and resolved paths;
            where a person is asked, over the files that commands name and the programs that they
            run as well. If it differs when the call runs, what was approved is not what runs.
        call: what was judged.
        remembers: the rules that an "always" would add, each for one part of the call; a part for
            which no narrow rule exists is asked about again. Empty if there is none at all.
        unremembered: why there is none, where that is not for want of a narrow rule.
        forbids: the rule that a "never" would add, or none if it can't be told what was meant.
        message: what the model is told when the call is denied.
        effects: what it would do beyond the workspace and itself, where a person is asked.
    """

    decision: RuleDecision
    reason: str
    rule: PermissionRule | None
    parts: tuple[PermissionPart, ...]
    digest: str
    call: Call = field(repr=False, compare=False)
    remembers: tuple[PermissionRule, ...] = ()
    forbids: tuple[PermissionRule, ...] = ()
    unremembered: str = ""
    message: str = ""
    effects: PermissionEffects = field(default_factory=PermissionEffects)

    @property
    def runs_commands(self) -> bool:
        """Whether the call runs commands, which may name files."""
        return self.call.runs_commands

    def with_files(self) -> "Explanation":
        """Let the digest cover the files of commands as they are now; it reads them, in a thread.

        Where they are too many or too long to look at all of them, nothing is to be remembered.
        """
        if not self.runs_commands:
            return self
        files, excess = fingerprint(self.call)
        digest = hashlib.sha256(f"{self.digest} {files}".encode()).hexdigest()
        if not excess:
            return replace(self, digest=digest)
        why = f"it names {excess}, too much to tell whether they stay as they are"
        return replace(self, digest=digest, remembers=(), unremembered=why)


def explain(judgement: Judgement, *, files: bool = True) -> Explanation:
    """Say why a call is allowed, denied or asked about, and what an answer to a question would add.

    Args:
        judgement: what was decided.
        files: whether to read the files of commands that are asked about, for the digest. Without,
            `Explanation.with_files` does so, which may take a while.
    """
    call, rulings = judgement.call, judgement.rulings
    found = Explanation(
        decision=judgement.decision,
        reason=judgement.reason,
        rule=judgement.rule,
        parts=judgement.parts,
        digest=judgement.digest,
        message=judgement.message,
        call=call,
    )
    if judgement.decision is not RuleDecision.ASK:
        return found
    found = replace(
        found,
        remembers=suggest(call, rulings),
        forbids=forbid(call, rulings),
        effects=_find_consequences(call),
    )
    return found.with_files() if files else found


def fingerprint(call: Call) -> tuple[str, str]:
    """Look at the files that the commands of a call name, and at the programs that they run.

    Of each file the inode, the size, the time and the first 1 MiB count, of a folder and of a link
    the inode and the time, of the workspace itself the names in it. Nothing but a regular file is
    ever opened.

    Returns:
        A digest, and what there is too much of to look at all of it: empty if there is nothing.
    """
    paths = [path for path in dict.fromkeys(_list_paths(call)) if not path.startswith(_MADE_UP)]
    excess = f"more than {MAX_NAMES:,} names" if len(paths) > MAX_NAMES else ""
    roots = (call.place.root, os.path.realpath(call.place.root))
    digest, seen, left = hashlib.sha256(), set[tuple[int, int]](), MAX_BYTES
    for path in paths[:MAX_NAMES]:
        try:
            status = os.lstat(path)
            # In the workspace itself we make names: a folder of rules, placeholders of a sandbox.
            names = sorted(set(os.listdir(path)) - CONFIGURATION_FOLDERS) if path in roots else []
        except OSError:
            continue
        identity = _identify(status, dated=path not in roots)
        digest.update(repr((path, *identity, *names)).encode())
        if stat.S_ISLNK(status.st_mode) or (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        if stat.S_ISREG(status.st_mode):
            left -= min(status.st_size, MAX_READ)
            # One that can't be read, or is something else by now, is told by the rest alone.
            with suppress(OSError):
                beginning = read_beginning(path, MAX_READ, follow=False) if left >= 0 else b""
                digest.update(hashlib.sha256(beginning).digest())
        if len(seen) > MAX_FILES:
            return digest.hexdigest(), f"more than {MAX_FILES} files"
    too_long = f"more than {MAX_BYTES >> 20} MiB of files" if left < 0 else ""
    return digest.hexdigest(), excess or too_long


def _find_outermost(commands: Sequence[Command]) -> Iterator[Command]:
    """Leave out what other commands run, which have its words among their own."""
    known = set(map(id, commands))
    return (each for each in commands if id(each.outer) not in known)


def _list_paths(call: Call) -> Iterator[str]:
    """Name every place where something may lie that a command reads, writes or runs."""
    commands = [fact for fact in call.facts if isinstance(fact, Command)]
    programs = ((each.argv[0].text, each.place or call.place) for each in commands)
    for name, place in dict.fromkeys(programs):
        folders = (posixpath.join(place.folder, folder) for folder in os.get_exec_path())
        # One with a slash is named like any other file.
        found = "/" not in name and shutil.which(name, path=os.pathsep.join(folders))
        yield from (found, os.path.realpath(found)) if found else ()
    uses = [fact for fact in call.facts if isinstance(fact, PathUse)]
    for each in _find_outermost(commands):
        uses += (use for word in each.argv for use in find_files(word, each.place, call))
    for use in uses:
        yield from (*use.lexical, *use.real)


def _identify(status: os.stat_result, *, dated: bool) -> tuple[int, ...]:
    """Say what tells a file from another one in its place."""
    identity = (status.st_mode, status.st_dev, status.st_ino)
    if not dated or stat.S_IFMT(status.st_mode) not in _DATED:
        return identity
    # Where not all of it is read, the time counts that no program can set.
    unread = status.st_ctime_ns if status.st_size > MAX_READ else 0
    return (*identity, status.st_size, status.st_mtime_ns, unread)


def _find_consequences(call: Call) -> PermissionEffects:
    """Gather what a call would do, as far as it can be told; what can't be is a part of its own."""
    found = [fact for fact in call.facts if isinstance(fact, Command)]
    commands = [each for each in found if each.extent != "prints"]  # whose words are only text
    paths = [fact for fact in call.facts if isinstance(fact, PathUse) and _is_outside(fact, call)]
    changes = (fact.reason for fact in call.facts if isinstance(fact, Change))
    privileged = (each.text for each in commands if basename(each.argv[0].text) in _PRIVILEGED)
    return PermissionEffects(
        reads=_list_distinct(_name_path(fact) for fact in paths if fact.kind == "read"),
        writes=_list_distinct(_name_path(fact) for fact in paths if fact.kind == "write"),
        names=_list_distinct(
            name for each in _find_outermost(commands) for name in _list_named_files(each, call)
        ),
        hosts=_list_distinct(_list_hosts(call, commands)),
        changes=_list_distinct(changes),
        privileges=_list_distinct(privileged),
    )


def _list_distinct(found: Iterable[str]) -> tuple[str, ...]:
    """Return each once, nothing in them hidden, and whether there are more."""
    each = dict[str, None]()
    for text in (clip(visible(text), _MOST_TEXT) for text in found):
        if len(each) == _MOST_TOLD and text not in each:
            return (*each, "and more")
        each[text] = None
    return tuple(each)


def _is_outside(fact: PathUse, call: Call) -> bool:
    """Whether it may lie outside of the workspace, as it is written or with links followed."""
    return fact.text not in _NOWHERE and not call.is_inside(fact)


def _name_path(fact: PathUse) -> str:
    """Name a file, and where a link leads."""
    real = fact.real[0] if fact.real else ""
    is_same = not real or real in fact.lexical
    return fact.text if is_same else f"{fact.text} (which is {real})"


def _list_named_files(command: Command, call: Call) -> Iterator[str]:
    words = dict.fromkeys(command.argv[1:])
    uses = (use for word in words for use in find_files(word, command.place, call))
    for at, use in enumerate(uses):
        if at == _MOST_NAMES:  # each takes a look at the disk
            yield "more, which were not looked at"
            return
        if _is_outside(use, call):
            yield _name_path(use)


def _list_hosts(call: Call, commands: Iterable[Command]) -> Iterator[str]:
    """Name the hosts that URLs lead to; all of a URL where readers may differ on that."""
    used = (fact for fact in call.facts if isinstance(fact, HostUse))
    named = (use for command in commands for use in find_hosts(command.text))
    yield from (use.host.exact or use.url for use in chain(used, named))
