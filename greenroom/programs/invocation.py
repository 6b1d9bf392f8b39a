"""A command as its program understands it: its options, its operands, and the command inside it.

The tables `programs.txt` and `git.txt` say what is known about each program; the first explains
their format. A program that is not in them may do whatever its words say.

Two questions are asked about a command, and doubts count against both. May a rule that allows its
program cover it (`find_risks`)? Then a word that may be a risky option is one. Does it only read
(`find_reading`)? Then each option, value and operand has to be in the row.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import msgspec

from greenroom.programs.tables import read_rows
from greenroom.programs.words import basename, extract_words

SHELLS = frozenset(
    ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash")
)
"""Programs that read a script of commands."""

_BUILTIN_NAMES = """
. : [ alias bg bind break builtin caller cd command compgen complete compopt continue declare
dirs disown echo enable eval exec exit export false fc fg getopts hash help history jobs kill
let local logout mapfile popd printf pushd pwd read readarray readonly return set shift shopt
source suspend test times trap true type typeset ulimit umask unalias unset wait
"""
BUILTINS = frozenset(_BUILTIN_NAMES.split())
"""What bash itself does under a name, whatever programs there are."""

# What runs the program behind it, in the environment of the project.
_LEADS = frozenset(
    {("npx",), ("python", "-m")}
    | {(name, "exec") for name in ("bundle", "npm", "pnpm", "yarn")}
    | {(name, "run") for name in ("pdm", "pipenv", "poetry", "rye", "uv")}
)
_ENTRY = re.compile(r"([!~%*$]*)([-.]@?[^=@?>&]*)(==|=@|&&|[=@?>&]?)")
_TYPES = {"==": "2=", "=@": "2@"}
_VALUED = re.compile("[=@>&]")  # these may take the next word
_FORBIDDEN = re.compile("[!~%a>&]")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_INPUTS = frozenset({"input", "input1", "input2"})
MAX_PLACES = 16  # where programs are looked for among the words of another
_SHELL_VALUED = frozenset({"--rcfile", "--init-file", "--command-fd"})


class Program(msgspec.Struct):
    """What the tables say about a program, or about a verb of it such as `git log`.

    Attributes:
        name: its name, or those of the program and the verb.
        options: the marks of each option and of other words in its row: a dot, what stands before
            and behind it, with "2" for two words, and "g" if it is read so on Linux only.
        kinds: the words in its row, such as "files", behind "gnu " if they are so on Linux only.
        only: the words with which it only tells about itself.
        stop: how many operands end the options; 0 if none do.
    """

    name: str
    options: dict[str, str] = msgspec.field(default_factory=dict)
    kinds: set[str] = msgspec.field(default_factory=set)
    only: tuple[str, ...] = ()
    stop: int = 0

    def find(self, option: str) -> str:
        """Return the marks of an option, with an "a" if it is not certain what it takes.

        A long one may be an abbreviation, and then it has the marks of all that it may stand for.
        """
        known = self.options.get(option)
        if known is not None:
            return f"{known}a" if "g" in known and sys.platform != "linux" else known
        if len(option) < 3 or not option.startswith("--"):
            return ""
        found = [marks for each, marks in self.options.items() if each.startswith(option)]
        return "".join((*found, "a")) if found else ""

    def is_kind(self, *kinds: str) -> bool:
        """Return whether it is of one of these kinds, on this system."""
        on_linux = [f"gnu {kind}" for kind in kinds if sys.platform == "linux"]
        return not self.kinds.isdisjoint((*kinds, *on_linux))

    def read_row(self, entries: Sequence[str]) -> None:
        """Add the entries of a row."""
        linux = ""
        for entry in entries:
            match = _ENTRY.fullmatch(entry)
            if entry == "gnu":
                linux = "g"
            elif entry[0] == "^":
                self.stop = int(entry[1:])
            elif entry.startswith("only="):
                self.only = tuple(entry[5:].split(","))
            elif match is None:
                self.kinds.add(f"gnu {entry}" if linux else entry)
            else:
                marks = f".{match[1]}{_TYPES.get(match[3], match[3])}{linux}"
                self.options.update(dict.fromkeys(self._list_names(match[2]), marks))

    def _list_names(self, names: str) -> Sequence[str]:
        if names[0] == ".":
            return [names]
        is_cluster = names[:2] not in ("-", "--") and "words" not in self.kinds
        return [f"-{letter}" for letter in names[1:]] if is_cluster else names.split(",")


def _read_tables() -> dict[str, Program]:
    """Parse the tables; what is in `git *` is in all verbs of git."""
    rows = {**read_rows("programs.txt"), **read_rows("git.txt")}
    programs = {name: Program(name) for name in rows}
    for name, program in programs.items():
        program.read_row(rows[name])
    for name, program in programs.items():
        for each in ("*", *(kind for kind in program.kinds if kind[0] == "+")) * (" " in name):
            common = programs.get(f"{name.partition(' ')[0]} {each}", program)
            program.options = {**common.options, **program.options}
    return programs


PROGRAMS = _read_tables()
"""All programs, and verbs such as `git log`, by name."""

_GROUPS = frozenset(name.partition(" ")[0] for name in PROGRAMS if " " in name)

_INPUT_READERS = SHELLS | {n for n, each in PROGRAMS.items() if each.kinds & _INPUTS}

RUNNERS = frozenset(name for name, each in PROGRAMS.items() if "runs" in each.kinds)
"""Programs that run their words elsewhere or later, so that they need a rule of their own."""


class Part(NamedTuple):
    """An option or an operand of a command.

    Attributes:
        at: the position of its word.
        option: the option, without its value; empty for an operand.
        value: its value, or the last of two, or None.
        value_at: the position of the word that holds the value; 0 without one.
        marks: its marks; see `Program.find`.
        ended: whether it comes after the end of all options.
    """

    at: int
    option: str = ""
    value: str | None = None
    value_at: int = 0
    marks: str = ""
    ended: bool = False

    @property
    def takes_value(self) -> bool:
        """Whether it surely takes one; an abbreviation may, so the next word is looked at, too."""
        return _VALUED.search(self.marks) is not None and "a" not in self.marks

    @property
    def may_take_next(self) -> bool:
        """Whether the next word may be its value all the same, though it was not read so."""
        is_flag = "." in self.marks and "a" not in self.marks and not _VALUED.search(self.marks)
        return self.option != "" and self.value is None and not is_flag

    @property
    def is_listed(self) -> bool:
        """Whether it is in the row, without a mark that forbids it, and with the value it takes."""
        has_value = self.value is not None
        is_whole = "?" in self.marks or has_value == (_VALUED.search(self.marks) is not None)
        return "." in self.marks and is_whole and not _FORBIDDEN.search(self.marks)


class Invocation(msgspec.Struct, frozen=True, dict=True):
    """A command as its program understands it.

    Attributes:
        argv: its words.
        program: what is known about the program, or its verb.
        start: the position of the last word before its options: the program, or the verb.
        parts: its options and operands, those before the verb included; empty for an unknown
            program.
    """

    argv: Sequence[str]
    program: Program = msgspec.field(default_factory=lambda: Program(""))
    start: int = 0
    parts: tuple[Part, ...] = ()

    @cached_property
    def name(self) -> str:
        """The name of its program, without the folder."""
        return basename(self.argv[0])

    @cached_property
    def operands(self) -> tuple[Part, ...]:
        """Its operands, without the verb."""
        return tuple(each for each in self.parts if not each.option and each.at > self.start)

    @property
    def is_known(self) -> bool:
        """Whether the tables say what the program does with its words."""
        name, kinds = self.program.name, self.program.kinds
        return self.name in SHELLS or (name != "" and name[-1] != "*" and "runs" not in kinds)

    @property
    def wraps(self) -> bool:
        """Whether the program runs the command that its own words name."""
        return not self.program.kinds.isdisjoint(("wraps", "wraps2"))

    @cached_property
    def inner(self) -> int | None:
        """The position of the command that a wrapper runs; None if it is unknown."""
        options = [part for part in self.parts if part.option]
        if not self.wraps or not all(p.is_listed and "$" not in p.marks for p in options):
            return None
        behind = self.operands["wraps2" in self.program.kinds :]
        return behind[0].at if behind else len(self.argv)

    @property
    def is_transparent(self) -> bool:
        """Whether it only runs another command, so that a rule for that one is enough."""
        argv, start = self.argv, self.inner
        if start is None or start >= len(argv) or "/" in argv[0]:
            return False
        plain_env = argv[0] == "env" and start == 1 and not _ASSIGNMENT.match(argv[1])
        return "transparent" in self.program.kinds or plain_env

    @property
    def takes_commands(self) -> bool:
        """Whether the program runs texts that its words or its input may hold."""
        return not self.program.kinds.isdisjoint(_INPUTS)

    @property
    def reads_commands(self) -> bool:
        """Whether it may run what comes from its standard input.

        Example:
            >>> [read_invocation(line.split()).reads_commands for line in (
            ...     "bash", "bash f.sh", "python -", "python -m json.tool", "ssh h sudo sh")]
            [True, False, True, False, True]
        """
        argv, kinds = self.argv, self.program.kinds
        if self.name in SHELLS:
            return _find_shell_text(argv) == ""
        if not self.is_known and _may_run_reader(argv):
            return True
        needed = next((n for n in range(3) if f"input{n or ''}" in kinds), None)
        if needed is None or any("$" in part.marks for part in self.parts):
            return "runs" in kinds
        given = self.operands[:needed]
        return not given or len(given) < needed or any(argv[part.at] in _STDIN for part in given)

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The texts that it runs as commands, other than what comes from its input.

        Example:
            >>> [read_invocation(words).texts for words in (
            ...     ["bash", "-xc", "ls; pwd", "a"], ["script", "-qcls", "log"], ["watch", "ls"])]
            [('ls; pwd',), ('ls',), ('ls',)]
        """
        argv, texts = self.argv, list[str | None]()
        for part in self.parts:
            if "&&" in part.marks:
                texts.append(" ".join((part.value or "", *argv[part.value_at + 1 :])))
                break
            if "&" in part.marks:
                texts.append(part.value)
        if self.name in ("eval", "trap"):
            rest = argv[1 + (list(argv[1:2]) == ["--"]) :]
            texts += [" ".join(rest)] if self.name == "eval" else rest[:1]
        elif self.name in SHELLS:
            texts.append(_find_shell_text(argv))
        elif "joins" in self.program.kinds:
            texts.append(" ".join(argv[self.inner :]) if self.inner else None)
        return tuple(filter(None, texts))


def read_invocation(argv: Sequence[str]) -> Invocation:
    """Tell options from operands as the program of a command does.

    Example:
        >>> for part in read_invocation("sort -nk 2 --reverse -- -o".split()).parts:
        ...     print(part.at, part.option, part.value)
        1 -n None
        1 -k 2
        3 --reverse None
        5  None
    """
    name = basename(argv[0])
    program = Program("") if " " in name else PROGRAMS.get(name, Program(""))
    parts = tuple(_list_parts(argv, program, 1)) if program.kinds or program.options else ()
    if name not in _GROUPS:
        return Invocation(argv, program, parts=parts)
    at = next((part.at for part in parts if not part.option), len(argv))
    if at == len(argv):
        return Invocation(argv, program, at, parts)
    before = tuple(part for part in parts if part.at < at)
    start, program = next(
        (start, PROGRAMS.get(verb, Program(verb)))
        for start, verb in (
            (at + 1, f"{name} {argv[at]} {''.join(argv[at + 1 : at + 2])}"),
            (at, f"{name} {argv[at]}"),
            (at, f"{name} *"),
        )
        if verb in PROGRAMS or verb[-1] == "*"
    )
    return Invocation(argv, program, start, (*before, *_list_parts(argv, program, start + 1)))


def _list_parts(argv: Sequence[str], program: Program, at: int) -> Iterator[Part]:
    operands, ended, first = 0, False, at
    while at < len(argv):
        word = argv[at]
        is_old = "old" in program.kinds and at == first and word[:1] not in ("", "-")
        if not is_old and (ended or len(word) < 2 or word[0] != "-"):
            operands += 1
            yield Part(at, ended=ended, marks="" if ended else program.options.get(f".{word}", ""))
            ended = ended or operands == program.stop
        elif word == "--" and "--" not in program.options and "words" not in program.kinds:
            ended = True
        elif "number" in program.kinds and word[1:].isdigit():
            yield Part(at, word, marks=".")
        else:
            is_long = word.startswith("--") or "words" in program.kinds
            found = (_read_long_option if is_long else _read_cluster)(argv, at, program)
            yield from found
            at = max(at, *(part.value_at for part in found))
        at += 1


def _read_cluster(argv: Sequence[str], at: int, program: Program) -> list[Part]:
    """Read a cluster of short options, of which the last may take the rest or the next word."""
    found, word = list[Part](), argv[at]
    detached = "detached" in program.kinds or word[0] != "-"
    letters, value_at = word.removeprefix("-"), at
    for place, letter in enumerate(letters, 1):
        option, marks, rest = f"-{letter}", program.find(f"-{letter}"), letters[place:]
        part = Part(at, option, marks=marks)
        if rest and not detached and (part.takes_value or "?" in marks):
            return [*found, part._replace(value=rest, value_at=at)]
        found.append(_take_next(argv, value_at + 1, part, program))
        value_at = max(value_at, found[-1].value_at)
    return found


def _read_long_option(argv: Sequence[str], at: int, program: Program) -> list[Part]:
    """Read a word that is one option, perhaps with its value."""
    word = argv[at]
    name, attached, value = word.partition("=")
    marks = program.options.get(word[:2], "") if word[1] != "-" and len(word) > 2 else ""
    if name not in program.options and _VALUED.search(marks):  # such as `-Bfolder` of gcc
        return [Part(at, word[:2], word[2:], at, marks)]
    if attached and word not in program.options:
        return [Part(at, name, value, at, program.find(name))]
    return [_take_next(argv, at + 1, Part(at, word, marks=program.find(word)), program)]


def _take_next(argv: Sequence[str], value_at: int, part: Part, program: Program) -> Part:
    """Give an option the value that it takes, or the last of its two, from the words behind it."""
    if not part.takes_value:
        return part
    value_at += "2" in part.marks
    is_there = value_at < len(argv) and ("strict" not in program.kinds or argv[value_at][:1] != "-")
    return part._replace(value=argv[value_at], value_at=value_at) if is_there else part


def _may_run_reader(argv: Sequence[str]) -> bool:
    """Return whether the words of a program that may run them name one that runs its input."""
    words = extract_words(" ".join(argv[1:]))
    places = [at for at, word in enumerate(words) if basename(word) in _INPUT_READERS]
    return len(places) > MAX_PLACES or any(
        read_invocation(words[at:]).reads_commands for at in places
    )


def _find_shell_text(argv: Sequence[str]) -> str | None:
    """Find the text that a shell runs, after -c; "" if it is its input, None if a script file.

    Options may begin with a plus: `+c` is -c, and `+` alone is an option, too.
    """
    at, letters = 1, ""
    while at < len(argv) and argv[at][:1] in ("-", "+") and argv[at]:
        option = argv[at]
        at += 1
        if option in ("-", "--"):
            break
        if option in _SHELL_VALUED:
            at += 1
        elif not option.startswith("--"):
            letters += option[1:]
            at += sum(map(option.count, "oO"))
    if "c" in letters:
        return "".join(argv[at : at + 1])
    return "" if "s" in letters or at >= len(argv) or argv[at] in _STDIN else None


def find_actions(argv: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Locate the commands that find runs: where each begins and ends.

    Example:
        >>> list(find_actions("find . -exec rm {} ; -exec ls +".split()))
        [(3, 5), (7, 9)]
    """
    begin = 0
    for at, word in enumerate((*argv, ";")):
        if begin and (word == ";" or (word == "+" and argv[at - 1] == "{}")):
            yield begin, at
            begin = 0
        elif not begin and word in _ACTIONS:
            begin = at + 1


def find_lead(words: Sequence[str]) -> int:
    """Count the words before a program that is run in the project's environment; 0 without one.

    Example:
        >>> find_lead(["uv", "run", "pytest", "-q"]), find_lead(["python3", "-m", "mypy"])
        (2, 2)
        >>> find_lead(["pytest", "-q"]), find_lead(["uv", "run"])
        (0, 0)
    """
    name = basename(words[0])
    first = "python" if name.rstrip(".0123456789") == "python" else name
    for length in (1, 2):
        if len(words) > length and (first, *words[1:length]) in _LEADS:
            return length
    return 0
