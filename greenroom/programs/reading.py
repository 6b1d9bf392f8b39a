"""Commands that only read, and what they read.

The rows in the tables list the options that do nothing else, and what a program does with its
operands. An option that is not there, or that this system's program may read differently, makes it
a command of which nothing is known.
"""

import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from greenroom.programs.invocation import PROGRAMS, Invocation, Part
from greenroom.programs.languages import ps_only_lists
from greenroom.programs.risks import find_risks

_OPERANDS = ("files", "text", "any", "pattern", "none")
_OWN_READERS = frozenset({"words", "detached", "strict"})  # they do not use getopt
_MOST = {"none": 0, "one": 1, "two": 2}
_ABOUT_ITSELF = ("--version", "--help")
_CHECKS: dict[str, Callable[[Sequence[str]], bool]] = {
    "ps": ps_only_lists,
    "cd": lambda words: "-" not in words,  # the folder before
}


class ReadFile(NamedTuple):
    """A file or folder that a command reads.

    Attributes:
        at: the position of the word that names it, or 0 for the current folder.
        path: its path, as the program takes it.
        may_be_folder: whether the program follows no links in it if it is a folder.
    """

    at: int
    path: str
    may_be_folder: bool = True


class Reading(NamedTuple):
    """What a command reads that only reads.

    Attributes:
        files: the files and folders that its words name.
        deep: whether it reads the files that it finds in these folders.
        folder: the folder that their paths begin in, as `git -C` says; empty for the current one.
    """

    files: tuple[ReadFile, ...] = ()
    deep: bool = False
    folder: str = ""


def read_only_commands() -> tuple[str, ...]:
    """List the commands that need no rule as long as they only read inside the workspace.

    Example:
        >>> {"ls", "git status", "python --version"} <= set(read_only_commands())
        True
    """
    readers = [name for name, each in PROGRAMS.items() if each.is_kind(*_OPERANDS)]
    told = [f"{name} {each.only[0]}" for name, each in PROGRAMS.items() if each.only]
    return (*readers, "command -v", *told)


def find_reading(invocation: Invocation) -> Reading | None:
    """Find out what a command reads; None unless it surely only reads.

    Each option, value and operand has to be in the program's row. The files still have to be
    judged: only those of the workspace, with links followed, may be read unasked.

    Example:
        >>> from greenroom.programs.invocation import read_invocation
        >>> find_reading(read_invocation("grep -rn TODO src".split()))
        Reading(files=(ReadFile(at=3, path='src', may_be_folder=True),), deep=True, folder='')
        >>> find_reading(read_invocation("sort -o out names".split()))
    """
    argv, program = invocation.argv, invocation.program
    if "/" in argv[0]:
        return None
    about_itself = _ABOUT_ITSELF if program.is_kind("files", "pattern") else program.only
    if len(argv) == 2 and argv[1] in about_itself:
        return Reading()
    check = _CHECKS.get(program.name)
    is_reader = program.is_kind(*_OPERANDS) and (check is None or check(argv[1:]))
    if not is_reader or find_risks(invocation):
        return None
    if program.is_kind("any"):
        return Reading()
    options = [part for part in invocation.parts if part.option or part.marks]
    if not all(_is_allowed(part, invocation) for part in options) or _is_unordered(invocation):
        return None
    return _find_operands(invocation, options)


def _is_allowed(part: Part, invocation: Invocation) -> bool:
    """Return whether an option is in the row and has its value where the row says."""
    is_attached = part.value is not None and part.value_at == part.at
    if not part.is_listed or (is_attached and "words" in invocation.program.kinds):
        return False
    if invocation.argv[0] == "git" and part.value_at > part.at:
        word = invocation.argv[part.at]
        # git looks for its options once more, one by one: so this may be no value to it.
        if part.value is None or part.value[:1] == "-" or (len(word) > 2 and word[1] != "-"):
            return False
    # For some programs `-f=file` is `-f file`.
    return "@" not in part.marks or (part.value or "")[:1] not in ("", "=")


def _is_unordered(invocation: Invocation) -> bool:
    """Return whether options stand behind operands, where not all take them for options."""
    last = max((part.at for part in invocation.parts if part.option), default=0)
    is_late = any(part.at < last for part in invocation.operands)
    program = invocation.program
    looks_itself = " " in program.name or not program.kinds.isdisjoint(_OWN_READERS)
    return is_late and sys.platform != "linux" and not looks_itself


def _is_selected(options: Sequence[Part]) -> bool:
    """Return whether an option surely picks the other mode, and is not the value of one before."""
    open_at = {part.at for part in options if "?" in part.marks and part.value is None}
    return any("$" in part.marks and part.at - 1 not in open_at for part in options)


def _find_operands(invocation: Invocation, options: Sequence[Part]) -> Reading | None:
    """Find the files among values and operands; None if the row does not allow the operands."""
    argv, program = invocation.argv, invocation.program
    selected = any("$" in part.marks for part in options)
    operands = [part for part in invocation.operands if not part.marks]
    most = min((_MOST[each] for each in _MOST if program.is_kind(each)), default=len(argv))
    is_missing = program.is_kind("some") and not operands
    is_barred = program.is_kind("select") and operands and not _is_selected(options)
    if len(operands) > most or is_missing or is_barred:
        return None
    if program.is_kind("pattern") and not selected:
        operands = operands[1:]
    named = operands if program.is_kind("files", "pattern") else []
    files = [ReadFile(part.at, argv[part.at], not program.is_kind("flat")) for part in named]
    if not named and program.is_kind("here"):
        files.append(ReadFile(0, "."))
    given = [part for part in options if "@" in part.marks]
    files += [ReadFile(p.value_at, p.value or "") for p in given if p.at > invocation.start]
    folders = [part.value or "" for part in given if part.at <= invocation.start]
    if len(folders) > 1 or not all(each.path for each in files):
        return None
    deep = program.is_kind("deep") or any("*" in part.marks for part in options)
    return Reading(tuple(files), deep, "".join(folders))
