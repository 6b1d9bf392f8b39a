"""A command as its program understands it: its options, its operands, and the command inside it.

The table `programs.txt` says what is known about each program. A program that is not in the table
may run whatever its words say.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from greenroom.shell.effects import Extent
from greenroom.shell.words import Part, Word, basename

SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash")
)


@dataclass(frozen=True, slots=True)
class Program:
    """What the table says about a program, or about a verb of git.

    Attributes:
        name: the first name in its row.
        options: the marks of each option, and of other words that have marks.
        kinds: every mark in its row, and words such as "reads".
    """

    name: str
    options: dict[str, str] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)

    def marks(self, option: str) -> str:
        """Return the marks of an option or word; long options may be abbreviated."""
        known = self.options.get(option)
        if known is None and option.startswith("--") and option not in _NO_ABBREVIATIONS:
            known = "".join(m for each, m in self.options.items() if abbreviates(option, each))
        return known or ""

    def add(self, entry: str) -> None:
        """Add an entry of a row: options with a mark, or a kind."""
        mark, rest = entry[0], entry[1:]
        if _KINDS.fullmatch(entry):
            self.kinds.add(entry)
        elif mark == "+":
            self._mark("=", *(f"-{each}" for each in rest.split(",")))
        elif mark == "^":
            self.options["^"] = rest
        elif mark == "$":
            self._mark("$", *rest.split(","))
        elif mark in "!?~=@%&":
            self._mark(mark, *([rest] if rest[0] == "-" else (f"-{each}" for each in rest)))
        elif mark == "-" and entry[-1] == "?":
            self._mark("?", entry[:-1])
        else:
            self._mark("!", entry)

    def _mark(self, mark: str, *options: str) -> None:
        self.kinds.update(mark)
        self.options.update((each, self.options.get(each, "") + mark) for each in options)

    def include(self, other: "Program") -> None:
        """Add the options of another program."""
        for option, marks in other.options.items():
            self._mark(marks, option)


def abbreviates(option: str, wanted: str) -> bool:
    """Return whether an option is the wanted one, or an abbreviation of it if it is long."""
    return option == wanted or (
        len(option) > 2 and option.startswith("--") and wanted.startswith(option)
    )


_NO_ABBREVIATIONS = frozenset({"--text"})  # not of `--textconv`, but an option itself
_KINDS = re.compile("always|pattern|plain|prints|reads|stores|wraps2?|transparent|joins|fills|runs")


def _read_table(text: str) -> dict[str, Program]:
    """Parse the table; rows of one name are merged, and git's options apply to its verbs."""
    programs: dict[str, Program] = {}
    for line in filter(None, (line.partition("#")[0].strip() for line in text.splitlines())):
        names, _, entries = line.rpartition(":")
        first, *others = names.split(", ")
        program = programs.setdefault(first, Program(first))
        programs.update((each, program if entries else Program(each)) for each in others)
        for entry in entries.split():
            program.add(entry)
    for verb in {id(each): each for each in programs.values() if " " in each.name}.values():
        verb.include(programs["git"])
    return programs


PROGRAMS = _read_table(Path(__file__).with_name("programs.txt").read_text(encoding="utf-8"))
"""All programs, and verbs of git such as `git log`, by name; the file explains its format."""


def _list_programs(*kinds: str) -> tuple[str, ...]:
    return tuple(name for name, each in PROGRAMS.items() if not each.kinds.isdisjoint(kinds))


WRAPPERS = frozenset(_list_programs("wraps", "wraps2"))
"""Programs that run the command that their own words name."""

RUNNERS = frozenset(_list_programs("runs"))
"""Programs that run their words elsewhere or later, so that they need a rule of their own."""

_UNKNOWN = Program("")
_TAKES_VALUE = re.compile("[=@?]")
_UNDERSTOOD = re.compile("[=&]")
# Options of git before its verb with a value in the next word.
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})

# Developers' programs, and the options with which they only print their version. Programs that a
# project's file may replace by another version of themselves are left out.
_VERSIONS = {
    **dict.fromkeys(("python", "python3", "pip", "pip3"), ("--version", "-V")),
    **dict.fromkeys(("node", "npm"), ("--version", "-v")),
    **dict.fromkeys(
        ("bash", "clang", "cmake", "docker", "gcc", "git", "java", "make", "perl", "rg", "ruby"),
        ("--version",),
    ),
}

_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_VALUED = frozenset({"--rcfile", "--init-file", "--command-fd"})


class Invocation(NamedTuple):
    """A command as its program understands it.

    Attributes:
        argv: its words.
        program: what is known about the program.
        start: the position of the word before its options: the program, or the verb of git.
        parts: its options and operands; empty for an unknown program.
    """

    argv: Sequence[Word]
    program: Program
    start: int
    parts: tuple[Part, ...]

    @property
    def inner(self) -> int | None:
        """The position of the command that a wrapper runs; None if it is unknown."""
        kinds = self.program.kinds
        before = 0 if "wraps" in kinds else 1 if "wraps2" in kinds else None
        options = [part for part in self.parts if part.option]
        if before is None or not all(_UNDERSTOOD.search(part.marks) for part in options):
            return None
        operands = [part.at for part in self.parts if not part.option]
        start = operands[before] if len(operands) > before else len(self.argv)
        return start if all(word.static for word in self.argv[:start]) else None


def read_invocation(argv: Sequence[Word]) -> Invocation:
    """Tell options from operands as the program of a command does.

    Example:
        >>> words = [Word(each) for each in "sort -nk 2 --reverse -- -o".split()]
        >>> for part in read_invocation(words).parts:
        ...     print(part.at, part.option, part.value)
        1 -n None
        1 -k 2
        3 --reverse None
        5  None
    """
    program, start = _find_program(argv)
    parts = tuple(_list_parts(argv, program, start)) if program.kinds else ()
    return Invocation(argv, program, start, parts)


def _find_program(argv: Sequence[Word]) -> tuple[Program, int]:
    program = PROGRAMS.get(basename(argv[0].text), _UNKNOWN)
    if program.name != "git":
        return program, 0
    for at in range(1, len(argv)):
        if argv[at].text[:1] != "-" and argv[at - 1].text not in _GIT_VALUED:
            return PROGRAMS.get(f"git {argv[at].text}", program), at
    return program, len(argv)


def is_known(invocation: Invocation) -> bool:
    """Return whether the table says what the program does with its words."""
    known, has_verb = invocation.program, invocation.start < len(invocation.argv)
    is_listed = known.name not in ("", "git") or (known.name == "git" and not has_verb)
    return basename(invocation.argv[0].text) in SHELLS or (is_listed and "runs" not in known.kinds)


def _list_parts(argv: Sequence[Word], program: Program, start: int) -> Iterator[Part]:
    at, operands, ended = start + 1, 0, False
    stop = int(program.options.get("^", 0))  # this many operands end the options
    while at < len(argv):
        text = argv[at].text
        if ended or len(text) < 2 or text[0] != "-":
            operands += 1
            yield Part(at, ended=ended, marks="" if ended else program.options.get(text, ""))
            ended = ended or operands == stop
        elif text == "--" and program.name != "find":  # it takes actions after it
            ended = True
        else:
            following = argv[at + 1].text if at + 1 < len(argv) else None
            found = tuple(_list_options(at, text, following, program))
            yield from found
            at += any(part.value_at > at for part in found)
        at += 1


def _list_options(at: int, text: str, following: str | None, program: Program) -> Iterator[Part]:
    """Find the options in a word: a long one, or a cluster of short ones."""
    name, attached, value = text.partition("=")
    if text.startswith("--") or (len(name) > 2 and name in program.options):
        marks = program.marks(name)
        if attached:
            yield Part(at, name, value, at, marks=marks)
        elif following is not None and _TAKES_VALUE.search(marks):
            yield Part(at, name, following, at + 1, marks=marks)
        else:
            yield Part(at, name, marks=marks)
        return
    for place in range(1, len(text)):
        option, rest = f"-{text[place]}", text[place + 1 :]
        marks = program.marks(option)
        if _TAKES_VALUE.search(marks):
            apart = not rest and following is not None
            yield Part(at, option, following if apart else rest, at + apart, marks=marks)
            return
        yield Part(at, option, marks=marks)
        if "!" in marks or "%" in marks:
            return


def read_only_commands() -> tuple[str, ...]:
    """List the commands that need no rule as long as they only read inside the workspace.

    Example:
        >>> {"ls", "git status", "python --version"} <= set(read_only_commands())
        True
    """
    versions = (f"{name} {options[0]}" for name, options in _VERSIONS.items())
    return (*_list_programs("reads", "prints"), "command -v", *versions)


def find_extent(invocation: Invocation) -> Extent:
    """Find out what a command without risks does with the things that its words name.

    Example:
        >>> [find_extent(read_invocation([Word(each) for each in line.split()])) for line in (
        ...     "echo a", "git log a", "git branch --list", "git branch a", "git add a", "touch a")]
        ['prints', 'reads', 'reads', 'stores', 'stores', 'any']
    """
    argv, program = invocation.argv, invocation.program
    name, first = argv[0].text, argv[1].text if len(argv) > 1 else ""
    if "prints" in program.kinds or (len(argv) == 2 and first in _VERSIONS.get(name, ())):
        return "prints"
    if name == "command" and first in ("-v", "-V"):
        return "reads"
    if "reads" in program.kinds and _is_listing(invocation):
        return "reads"
    return "stores" if "stores" in program.kinds else "any"


def _is_listing(invocation: Invocation) -> bool:
    """Return whether a command only lists; true for programs that can do nothing else."""
    if "$" not in invocation.program.kinds:
        return True
    options = [part for part in invocation.parts if part.option]
    if "&" in invocation.program.kinds and not all("&" in part.marks for part in options):
        return False
    operand = next((part for part in invocation.parts if not part.option), None)
    marks = invocation.program.marks("-") if operand is None else operand.marks
    if operand is not None and operand.at != invocation.start + 1:
        marks = ""
    return any("$" in each for each in (marks, *(part.marks for part in options)))


def find_inner_text(argv: Sequence[Word]) -> tuple[Word, ...] | None:
    """Find the words of the text that a command runs as commands; None if it runs none.

    The result is empty if the text comes from the standard input.
    """
    name = basename(argv[0].text)
    if name == "eval":
        return tuple(argv[1 + (len(argv) > 1 and argv[1].text == "--") :])
    if name in SHELLS:
        return _find_shell_text(argv)
    if name in (".", "source") and len(argv) > 1:
        return _find_file_text(argv, 1)
    if name == "trap" and len(argv) > 2:
        return (argv[1 + (argv[1].text == "--")],)
    return None


def _find_shell_text(argv: Sequence[Word]) -> tuple[Word, ...] | None:
    """Find the text that a shell runs: after -c, else a script file, else the standard input.

    Options may begin with a plus: `+c` is -c, and `+` alone is an option, too.
    """
    at, letters = 1, ""
    while at < len(argv) and argv[at].text[:1] in ("-", "+") and argv[at].text:
        option = argv[at].text
        at += 1
        if argv[at - 1].dynamic:
            return ()
        if option in ("-", "--"):
            break
        if option in _VALUED:
            at += 1
        elif not option.startswith("--"):
            letters += option[1:]
            at += sum(map(option.count, "oO"))
    if "O" in letters:  # it changes what patterns match
        return ()
    if "c" in letters:
        return tuple(argv[at : at + 1])
    return () if "s" in letters else _find_file_text(argv, at)


def _find_file_text(argv: Sequence[Word], at: int) -> tuple[Word, ...] | None:
    """Look at the word that names a script; without one, the standard input is read.

    A name that is only known at run time may be that of the standard input.
    """
    is_stdin = at >= len(argv) or argv[at].text in _STDIN or argv[at].dynamic
    return () if is_stdin else None


def is_transparent(invocation: Invocation) -> bool:
    """Return whether a command only runs another one, so that a rule for that one is enough."""
    argv, start = invocation.argv, invocation.inner
    if start is None or start >= len(argv) or "/" in argv[0].text:
        return False
    plain_env = argv[0].text == "env" and start == 1 and not _ASSIGNMENT.match(argv[1].text)
    return "transparent" in invocation.program.kinds or plain_env


def find_actions(argv: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Locate the commands that find runs: where each begins and ends.

    Example:
        >>> list(find_actions([Word(each) for each in "find . -exec rm {} ; -exec ls +".split()]))
        [(3, 5), (7, 9)]
    """
    at = 1
    while at < len(argv):
        if argv[at].text in _ACTIONS:
            begin = at + 1
            at = next((i for i in range(begin, len(argv)) if _ends_action(argv, i)), len(argv))
            yield begin, at
        at += 1


def _ends_action(argv: Sequence[Word], at: int) -> bool:
    """Return whether an action of find ends here: at `;`, or at a `+` after `{}`."""
    text = argv[at].text
    return text == ";" or (text == "+" and argv[at - 1].text == "{}")
