"""Explanations of decisions: the reason, what exactly was judged, and what the call would do.

What it would do outside of the workspace is put into words for the person who is asked.
"""

import hashlib
import os
import posixpath
import shutil
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain

from msgspec.structs import replace

from greenroom.core import RuleDecision
from greenroom.core._internal import CONFIGURATION_FOLDERS, PermissionEffects, clip, visible
from greenroom.fs import file_digest
from greenroom.permissions.call import Call
from greenroom.permissions.judgement import Judgement
from greenroom.permissions.operands import HostUse, find_hosts, list_files
from greenroom.permissions.rule import PermissionRule
from greenroom.permissions.suggestions import forbid, suggest
from greenroom.programs._internal import list_default_names
from greenroom.shell._internal import Change, Command, PathUse

MAX_ABOVE = 8  # folders above the current one
_MADE_UP = ("/proc/", "/sys/")  # the contents differ at every look
_MOST_LISTED = 20  # effects of each kind; the parts of the call list them all
_MOST_TEXT = 300  # characters of one effect
_MOST_NAMES = 256  # files that the words of one command name
_NOWHERE = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty"})
_WRITE_OUT = "The command is not plain: write its words out, or use two calls."
_PRIVILEGED = frozenset({"doas", "gosu", "pkexec", "run0", "runuser", "su", "sudo", "sudoedit"})


class Explanation(Judgement, frozen=True, eq=False, dict=True):
    """A judgement with everything that a person who is asked about the call needs to know.

    Attributes:
        remembers: the rules that an "always" would add, each for one part of the call; of a
            command they name all words. A part without a narrow enough rule is asked about again.
            Empty if no part has one.
        prefixes: the same, but with the first words of commands where these say what is done, as
            in `npm run build`; a person has to choose them. Empty if no part has such a rule.
        forbids: the rule that a "never" would add; empty if it is unclear which part was meant.
        unremembered: why `remembers` is empty, if not for want of a narrow rule.
        effects: what the call would do outside of the workspace.
        advice: what the model can do about the call; empty for most.
        files_digest: a SHA-256 of the files that its commands name; empty if they were not read.
    """

    remembers: tuple[PermissionRule, ...] = ()
    prefixes: tuple[PermissionRule, ...] = ()
    forbids: tuple[PermissionRule, ...] = ()
    unremembered: str = ""
    effects: PermissionEffects = PermissionEffects()
    advice: str = ""
    files_digest: str = ""

    @cached_property
    def digest(self) -> str:
        """A SHA-256 that identifies the call as `Judgement.digest` does.

        If a person is asked, it also covers the files that commands name and the programs that
        they run. If it differs when the call runs, what runs is not what was approved.
        """
        stated = super().digest
        if not self.files_digest:
            return stated
        return hashlib.sha256(f"{stated} {self.files_digest}".encode()).hexdigest()

    def with_files(self) -> "Explanation":
        """Include the files of commands, as they are now, in the digest.

        It reads them: call it in a thread. If they are too many or too long to read, the result
        offers no rules to remember.
        """
        if not self.call.commands:
            return self
        files, excess = fingerprint(self.call)
        if not excess:
            return replace(self, files_digest=files)
        why = f"it names {excess}, too much to tell whether they stay as they are"
        return replace(self, files_digest=files, remembers=(), prefixes=(), unremembered=why)


def explain(judgement: Judgement) -> Explanation:
    """Explain why a call is allowed, denied or asked about, and what rules an answer would add.

    `Explanation.with_files` completes its digest.
    """
    call, rulings = judgement.call, judgement.rulings
    if judgement.decision is not RuleDecision.ASK:
        return Explanation(call, judgement.decision, rulings)
    exact, prefixes = suggest(call, rulings)
    return Explanation(
        call,
        judgement.decision,
        rulings,
        remembers=exact,
        prefixes=prefixes,
        forbids=forbid(call, rulings),
        effects=_find_consequences(call),
        advice=_WRITE_OUT if call.commands and call.script is None else "",
    )


def fingerprint(call: Call) -> tuple[str, str]:
    """Digest the files that the commands of a call name or read by default, and their programs.

    The workspace itself counts with the names in it.

    Returns:
        A digest, and what there was too much of to read, such as "more than 100 files", or "".
    """
    paths = (path for path in _list_paths(call) if not path.startswith(_MADE_UP))
    roots = (call.place.root, os.path.realpath(call.place.root))
    # Greenroom itself makes some: a folder of rules, and the placeholders of a sandbox.
    return file_digest.digest_files(paths, listed=roots, unlisted=CONFIGURATION_FOLDERS)


def _find_outermost(commands: Sequence[Command]) -> Iterator[Command]:
    """Leave out commands that others run, since their words are among those of the others."""
    known = set(map(id, commands))
    return (each for each in commands if id(each.outer) not in known)


def _list_paths(call: Call) -> Iterator[str]:
    """List every path at which a command may read, write or run something."""
    programs = ((each.argv[0], each.place) for each in call.commands)
    for name, place in dict.fromkeys(programs):
        folders = (posixpath.join(place.folder, folder) for folder in os.get_exec_path())
        # A name with a slash is looked up like any other file.
        found = "/" not in name and shutil.which(name, path=os.pathsep.join(folders))
        yield from (found, os.path.realpath(found)) if found else ()
    uses = list(call.paths)
    for each in _find_outermost(call.commands):
        uses += (use for word in each.argv for use in list_files(word, each.place))
    for use in uses:
        yield from (*use.lexical, *use.real)
    for each in call.commands:
        yield from find_default_files(each.argv, each.place.folder)


def find_default_files(argv: Sequence[str], folder: str) -> tuple[str, ...]:
    """List the files that a command reads without being told, whether they exist or not.

    Example:
        >>> find_default_files(["go", "vet"], "/w")
        ('/go.mod', '/go.sum', '/go.work', '/w/go.mod', '/w/go.sum', '/w/go.work')
    """
    names = list_default_names(argv)
    named = (posixpath.join(folder, word) for word in argv[1:])
    folders = {folder, *filter(os.path.isdir, named)} if names else set[str]()
    for each in tuple(folders):
        parents = accumulate(range(MAX_ABOVE), lambda at, _: posixpath.dirname(at), initial=each)
        folders.update(parents)
    return tuple(sorted(posixpath.join(each, name) for each in folders for name in names or ()))


def _find_consequences(call: Call) -> PermissionEffects:
    """Gather what a call would do, as far as it is known; the unknown has parts of its own."""
    commands = [each for each in call.commands if each.extent != "prints"]  # which only show text
    paths = [each for each in call.paths if _is_outside(each, call)]
    hosts = [fact for fact in call.facts if isinstance(fact, HostUse)]
    hosts += chain.from_iterable(find_hosts(each.text) for each in commands)
    changes = (each.reason for each in call.facts if isinstance(each, Change) and not each.guard)
    privileged = (each.text for each in commands if each.invocation.name in _PRIVILEGED)
    return PermissionEffects(
        reads=_list_distinct(_name_path(fact) for fact in paths if fact.kind == "read"),
        writes=_list_distinct(_name_path(fact) for fact in paths if fact.kind == "write"),
        names=_list_distinct(_list_operands(call, commands)),
        # A whole URL, if clients may disagree about its host.
        hosts=_list_distinct(use.host.exact or use.url for use in hosts),
        changes=_list_distinct(changes),
        privileges=_list_distinct(privileged),
        unchecked=_list_distinct(
            each.invocation.name
            for each in commands
            if not each.perhaps and list_default_names(each.argv) is None
        ),
    )


def _list_distinct(found: Iterable[str]) -> tuple[str, ...]:
    """Return each text once, with hidden characters made visible, and note if there are more."""
    each = dict[str, None]()
    for text in (clip(visible(text), _MOST_TEXT) for text in found):
        if len(each) == _MOST_LISTED and text not in each:
            return (*each, "and more")
        each[text] = None
    return tuple(each)


def _is_outside(fact: PathUse, call: Call) -> bool:
    """Return whether a file may lie outside of the workspace, as written or with links followed."""
    return fact.text not in _NOWHERE and not call.is_inside(fact)


def _name_path(fact: PathUse) -> str:
    """Name a file, and the target if it is a link."""
    real = fact.real[0] if fact.real else ""
    is_same = not real or real in fact.lexical
    return fact.text if is_same else f"{fact.text} (which is {real})"


def _list_operands(call: Call, commands: Sequence[Command]) -> Iterator[str]:
    for command in _find_outermost(commands):
        words = dict.fromkeys(command.argv[1:])
        uses = (use for word in words for use in list_files(word, command.place))
        for at, use in enumerate(uses):
            if at == _MOST_NAMES:  # each takes a look at the disk
                yield "more, which were not looked at"
                break
            if _is_outside(use, call):
                yield _name_path(use)
