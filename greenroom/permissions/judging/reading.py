"""Commands that need no rule: they only read, and nothing outside of the workspace.

The programs are those that the table says it of; see `greenroom.permissions.shell.programs.table`.
"""

import os
import posixpath
import re
from collections.abc import Sequence

from greenroom.core import visible
from greenroom.permissions.facts.fact import Command
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.repository import why_git_may_run
from greenroom.permissions.facts.word import Part, Word
from greenroom.permissions.judging.call import Call
from greenroom.permissions.judging.operands import MAX_LENGTH, named_files
from greenroom.permissions.shell.programs.table import abbreviates
from greenroom.permissions.shell.programs.usage import usage_of

_GIT_HARMLESS = frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs"})
_GIT_ELSEWHERE = frozenset({"GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"})
# Options that give the pattern, so that the first operand is a file.
_PATTERNS = ("-e", "-f", "--regexp", "--file", "--files", "--from-file", "--expression")
_READ_FOLDERS = frozenset({"diff", "git diff", "git grep", "git log", "git show", "rg"})
_DEEP = re.compile(r"-[rRd]|--[rd]")  # of grep


def reads_only(fact: Command, call: Call, *, careful: bool = False) -> bool:
    """Tell whether a command needs no rule.

    It needs none if the program only reads, whatever it is given, and each word that may name a file
    is known and leads, as it is written and with links followed, into the workspace. Where it is
    `careful`, since a rule is about files, it also needs one if it reads what it finds in folders.
    """
    argv, place = fact.argv, fact.place or call.place
    name = argv[0].text
    if fact.cautions or place.lost or fact.extent not in ("prints", "reads"):
        return False
    if not os.path.isdir(call.place.root):
        return False
    if "/" in name or visible(fact.text) != fact.text or _is_shadowed(name, place):
        return False  # a person should see what hides something
    if fact.extent == "prints":
        return all(_is_inside(word, place, call) for word in argv[1:] if word.pattern)
    return not (careful and _reads_folders(argv)) and _reads_inside(fact, place, call)


def _reads_folders(argv: Sequence[Word]) -> bool:
    """Tell whether a program reads files that it finds in folders, or in the past of a repository."""
    usage = usage_of(argv)
    is_deep = any(_DEEP.match(part.option) for part in usage.parts)
    return usage.program.name in _READ_FOLDERS or (usage.program.name == "grep" and is_deep)


def _is_shadowed(name: str, place: Place) -> bool:
    """Tell whether a program of this name may be one of the workspace, where programs are looked for.

    The shims of version managers count as well: files of a project say what they run.
    """
    root = posixpath.join(place.root, "")
    for folder in map(posixpath.normpath, os.environ.get("PATH", "").split(":")):
        is_near = folder.endswith("/shims") or f"{folder}/".startswith(root)
        if folder[0] != "/" or (is_near and os.path.lexists(f"{folder}/{name}")):
            return True
    return False


def _reads_inside(fact: Command, place: Place, call: Call) -> bool:
    argv = fact.argv
    _, program, start, seen = usage_of(argv)
    if argv[0].text == "git":
        where = _git_place(argv[1:start], place, call)
        if where is None:
            return False
        place = where
    if argv[0].text == "cd" and (
        len(argv) != 2 or argv[1].text[:1] in ("", "-") or "CDPATH" in os.environ
    ):
        return False
    if any("~" in part.marks for part in seen):
        return False
    # Values that are only text, and the pattern that is looked for, name no file.
    texts = {part.value_at for part in seen if part.value is not None and "=" in part.marks}
    apart = {part.value_at for part in seen if part.value_at > part.at}
    texts = {at for at in texts if not argv[at].unknown or (at in apart and not argv[at].split)}
    texts.add(_pattern_at(argv, seen) if program.is_("pattern") else 0)
    return all(
        at in texts or _is_inside(word, place, call)
        for at, word in enumerate(argv[start + 1 :], start + 1)
    )


def _git_place(words: Sequence[Word], place: Place, call: Call) -> Place | None:
    """Find where git runs, by the options before its verb; None if it may do more than read there."""
    words = [word for word in words if word.text not in _GIT_HARMLESS]
    if len(words) == 2 and words[0].text == "-C" and _is_inside(words[1], place, call):
        words, place = [], place.moved(words[1].text)
    if words or place.lost or not _GIT_ELSEWHERE.isdisjoint(os.environ):
        return None
    folders = map(place.disk.real, dict.fromkeys((place.folder, *place.others)))
    return None if any(map(why_git_may_run, folders)) else place


def _pattern_at(argv: Sequence[Word], seen: Sequence[Part]) -> int:
    """Find the operand that is a pattern; 0 if an option gives it, or if it may be something else."""
    if any(abbreviates(part.option, each) for part in seen for each in _PATTERNS):
        return 0
    at = next((part.at for part in seen if not part.option), 0)
    before = argv[at - 1].text  # a long option, whose value it may be
    is_value = before.startswith("--") and before != "--" and "=" not in before
    return 0 if is_value or argv[at].may_be_option else at


def _is_inside(word: Word, place: Place, call: Call) -> bool:
    """Tell whether all that a word may name lies in the workspace."""
    if word.dynamic:
        return False
    if word.text in ("-", "/dev/null", ""):
        return True
    if word.text.startswith("~") and not (word.quoted or word.text == "~" or word.text[1] == "/"):
        return False  # such as `~-`, the folder before
    uses = named_files(word, place, call)
    if len(word.text) > MAX_LENGTH or not all(map(call.has, uses)):
        return False
    # a name that would be taken for an option
    names = (path.rpartition("/")[2] for use in uses for path in use.lexical)
    return not word.pattern or not any(name.startswith("-") for name in names)
