"""What commands are made of: words, with what is known about them beforehand, and simple commands.

A word is read as pieces (`Piece`). Known are literals, patterns of files, loops over literals,
`$HOME`, `$PWD` and `$(pwd)`; every other expansion is `dynamic`. `join` makes a `Word` from pieces,
and `expand` several where there are braces.

The parser builds no tree. No one can know beforehand which of two branches runs, so it lists every
`SimpleCommand` that could run, in the order of the text. Between them are the variables of loops
(`Assignment`) and what was not understood (`Unclear`).
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple, TypeAlias

UNKNOWN = "\0"
"""Replaces the unknown parts in a `shape`; no word can hold it."""

FOLDER = "PWD"
"""The variable that holds the current folder."""

HOME = "HOME"
"""The variable that holds the user's own folder."""

_QUOTES = re.compile(r"[\"'\\]")
_ATTACHED = re.compile(r"(?<!\S)-c([\w./]+)")  # as in `su -c'rm x'`
_BETWEEN = re.compile(r"[\s;&|()<>`$={},!]+")


class Piece(NamedTuple):
    """Part of a word, as it was read.

    Attributes:
        text: its text; if it is dynamic, as it was written.
        quoted: it was quoted.
        dynamic: it is only known at run time.
        split: it is dynamic outside of quotes, so it may become several words or none.
        number: it is dynamic, but surely a number, or a descriptor as from `<(ls)`.
        name: the variable whose value it is, if it is nothing else.
        choices: the values that a loop over literals gives to the variable.
    """

    text: str
    quoted: bool = True
    dynamic: bool = False
    split: bool = False
    number: bool = False
    name: str = ""
    choices: tuple["Piece", ...] = ()


class Word(NamedTuple):
    """One word of a command, after quote removal.

    Attributes:
        text: its text, with dynamic parts as they were written.
        dynamic: part of it is only known at run time.
        pattern: it holds unquoted characters that match file names.
        split: it is dynamic outside of quotes, so it may become several words or none.
        quoted: part of it was quoted, so it is neither a keyword nor a tilde path.
        pieces: the parts of a dynamic word.
    """

    text: str
    dynamic: bool = False
    pattern: bool = False
    split: bool = False
    quoted: bool = False
    pieces: tuple[Piece, ...] = ()

    @property
    def static(self) -> bool:
        """Whether the program gets exactly this text."""
        return not (self.dynamic or self.pattern)

    @property
    def number(self) -> bool:
        """Whether every dynamic part is surely a number or a descriptor."""
        return bool(self.pieces) and all(not each.dynamic or each.number for each in self.pieces)

    @property
    def unknown(self) -> bool:
        """Whether part of it may be any text, or a number that changes which name it is."""
        if not self.dynamic:
            return False
        known = self.shape.replace(UNKNOWN, "")
        return not self.number or (known != "" and not known.startswith("-"))

    @property
    def shape(self) -> str:
        """The text, with `UNKNOWN` in place of each dynamic part."""
        if not self.dynamic:
            return self.text
        parts = (UNKNOWN if each.dynamic else each.text for each in self.pieces)
        return "".join(parts) or UNKNOWN

    @property
    def may_be_option(self) -> bool:
        """Whether the word may turn out to be an option that its text does not show.

        Example:
            >>> text = Piece("$x", dynamic=True)
            >>> Word("--out=$x", dynamic=True, pieces=(Piece("--out="), text)).may_be_option
            False
            >>> Word("--o$x", dynamic=True, pieces=(Piece("--o"), text)).may_be_option
            True
        """
        if not self.dynamic:
            return False
        begins = self.shape.partition(UNKNOWN)[0]
        if self.number:  # it may be part of a name, as in `-fprint$((0))`
            return begins.startswith("-") and len(begins) > 2 and "=" not in begins
        return self.split or not begins or (begins.startswith("-") and "=" not in begins)


class Part(NamedTuple):
    """An option or an operand of a command.

    Attributes:
        at: the position of its word.
        option: the option, without its value; empty for an operand.
        value: its value, or None.
        value_at: the position of the word that holds the value.
        ended: whether it comes after the end of all options.
        marks: its marks in the table of programs.
    """

    at: int
    option: str = ""
    value: str | None = None
    value_at: int = 0
    ended: bool = False
    marks: str = ""


def basename(program: str) -> str:
    """Name a program without its folder."""
    return program.rpartition("/")[2]


def extract_words(text: str) -> tuple[str, ...]:
    """Split a text that may be run into words, whatever separates them.

    Example:
        >>> extract_words("ls;$(r'm' -rf x)")
        ('ls', 'rm', '-rf', 'x')
    """
    text = _ATTACHED.sub(r"-c\1 \1", _QUOTES.sub("", text))
    return tuple(word for word in _BETWEEN.split(text) if word)


ODD_TILDE = r"~(?:-|\+?[0-9])"
"""Matches `~-` and `~2`, which stand for folders that only the shell knows."""

UNSURE = Piece("", quoted=False, dynamic=True, split=True)
"""Marks a word that may turn into something that is not understood."""

Pieces: TypeAlias = list[Piece]
MAX_WORDS = 256
_GROUP = re.compile(r"(\{[^{}]*\})")
_SPECIAL = re.compile(r"[*?\[]")
_RANGE = re.compile(r"-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?")
_SIMPLE_RANGE = re.compile(r"(0|[1-9][0-9]{0,5})\.\.(0|[1-9][0-9]{0,5})")
_STAR = re.compile(r"[*?]")


def expand(pieces: Pieces) -> list[Pieces]:
    """Expand the braces of a word; if they are nested or hold quotes, the word is unknown.

    Example:
        >>> [piece.text for [piece] in expand([Piece("{rm,-rf}", quoted=False)])]
        ['rm', '-rf']
    """
    plain = "".join([piece.text for piece in pieces if _is_plain(piece)])
    if "{" not in plain or ("," not in plain and ".." not in plain):
        return [pieces]  # without these, braces stand for themselves
    parts = _GROUP.split(plain)
    choices = [_list_choices(part) for part in parts if part]
    is_clear = len(pieces) == 1 and not any("{" in part or "}" in part for part in parts[::2])
    if not is_clear or prod(map(len, choices)) > MAX_WORDS:
        return [[*pieces, UNSURE]]
    return [list(each) for each in product(*choices)]


def _list_choices(part: str) -> list[Piece]:
    """List what a group of braces may expand to; other text is its only choice."""
    inside = part[1:-1] if part[0] == "{" else ""
    if found := _SIMPLE_RANGE.fullmatch(inside):
        numbers = range(int(found[1]), int(found[2]) + 1)[: MAX_WORDS + 1]
        return [Piece(str(number), quoted=False) for number in numbers]
    if ".." in inside and "," not in inside:
        return [UNSURE._replace(text=part, number=_RANGE.fullmatch(inside) is not None)]
    return [Piece(each, quoted=False) for each in (inside.split(",") if "," in inside else [part])]


def _is_plain(piece: Piece) -> bool:
    return not (piece.quoted or piece.dynamic)


def holds_word(pieces: Sequence[Piece]) -> bool:
    """Return whether pieces make a word at all, which an empty unquoted text does not."""
    return any(piece.text or not _is_plain(piece) for piece in pieces)


def join(pieces: Sequence[Piece]) -> Word:
    """Make a word from pieces; most words have only one."""
    pieces = _write_out_home(pieces)
    dynamic = any(piece.dynamic for piece in pieces)
    if dynamic:
        pieces = _write_out_folder(pieces)
        dynamic = any(piece.dynamic for piece in pieces)
    return Word(
        "".join([piece.text for piece in pieces]),
        dynamic=dynamic,
        pattern=_is_pattern(pieces),
        split=dynamic and any(piece.split for piece in pieces),
        quoted=any(piece.quoted for piece in pieces),
        pieces=tuple(pieces) if dynamic else (),
    )


def _write_out_home(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Expand a leading `~` before other pieces, since quotes after it don't make it literal."""
    first, rest = pieces[0], pieces[1:]
    if first.text[:1] != "~" or not _is_plain(first):
        return pieces
    if re.match(ODD_TILDE, first.text) or (rest and first.text.startswith("~+")):
        return [first._replace(dynamic=True), *rest]
    if rest and "/" in first.text:
        return [first._replace(text=os.path.expanduser(first.text)), *rest]
    return pieces


def _write_out_folder(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Write `.` for the current folder if a path begins with it, else leave it unknown."""
    first, *rest = [piece for piece in pieces if piece.text] or pieces
    is_path = not rest or (not rest[0].dynamic and rest[0].text[0] in "/:")
    return [Piece("."), *rest] if first.name == FOLDER and is_path else pieces


def _is_pattern(pieces: Sequence[Piece]) -> bool:
    """Return whether the shell would match file names, which a lone bracket does not do."""
    shown = "".join([p.text if _is_plain(p) else _SPECIAL.sub("", p.text) for p in pieces])
    return _STAR.search(shown) is not None or "]" in shown.partition("[")[2]


class Assignment(NamedTuple):
    """A variable that is set: a statement of its own, a prefix of a command, or a loop's."""

    name: str
    value: Word

    @property
    def setting(self) -> str:
        """The assignment as "NAME=value"; empty if the value is unknown."""
        plain = self.value.static and "~" not in self.value.text
        return f"{self.name}={self.value.text}" if plain else ""


class Redirection(NamedTuple):
    """A redirection to a file; the `target` of a here-document is its delimiter or its body."""

    operator: str
    target: Word

    @property
    def is_input(self) -> bool:
        """Whether it redirects the input."""
        return self.operator.startswith("<")


class SimpleCommand(NamedTuple):
    """A program or builtin with its words, the variables set for it, and its redirections.

    A redirection of a compound command is a simple command without words.

    Attributes:
        words: the program and its words.
        assignments: the variables set for it.
        redirections: its redirections.
        has_input: its standard input is a pipe, a file or a text.
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    has_input: bool = False


class Unclear(NamedTuple):
    """Something other than a command, whose effect is not followed further.

    With `change` it is understood (a variable set, a function defined), and a rule for the whole
    tool may allow it. Anything else is never allowed without a question.
    """

    reason: str
    change: bool = False


Finding: TypeAlias = SimpleCommand | Assignment | Unclear
"""Anything that the parser finds; an assignment on its own is that of a loop."""


@dataclass(frozen=True, slots=True)
class Script:
    """Everything found in one text.

    Attributes:
        findings: what was found, in the order of the text.
        computes: whether arithmetic reads variables.
    """

    findings: tuple[Finding, ...]
    computes: bool = False


MAX_VALUES = 64  # values of a loop's variable that are looked at one by one
_TAKEN_APART = re.compile(r"\A\Z|[\s*?\[\\]")  # values that the shell changes outside of quotes
_BLANK = re.compile(r"[\s\\]")
_PRINTS_NUMBERS = re.compile(
    r"nproc|seq(?: -?[0-9.]+)+|wc(?: -[clmw]+)+|date \+(?:%[sYmdHMS])+|id -[gu]"
)
_SETTERS = re.compile(
    r"\b(?:IFS|read|mapfile|readarray|printf\s+-v|getopts|declare|typeset|local|export|readonly|let"
    r"|unset|eval|source|alias|set)\b|(?:^|[\s;&|({])\.\s|\(\(|\$\[|%n"
)
_SET = re.compile(r"\b(\w+)(?:\+?=|\[)")


def find_assigned_names(command: str) -> frozenset[str] | None:
    """Name all variables that a command might set; None for any.

    Example:
        >>> sorted(find_assigned_names("x=1; for f in a; do cp $f y=2; done") or ())
        ['x', 'y']
        >>> find_assigned_names("for f in a; do read f; done") is None
        True
    """
    return None if _SETTERS.search(command) else frozenset(_SET.findall(command))


def list_values(words: Sequence[Word]) -> tuple[Piece, ...]:
    """List the values of a variable that loops over words; empty if they are unknown."""
    is_known = [not word.dynamic or (word.number and len(word.pieces) == 1) for word in words]
    if len(words) > MAX_VALUES or not all(is_known):
        return ()
    texts = [word.text if word.quoted else os.path.expanduser(word.text) for word in words]
    if any(text[:1] == "~" and not word.quoted for text, word in zip(texts, words, strict=True)):
        return ()
    return tuple(
        Piece(text, word.static, word.dynamic, word.split, word.number)
        for text, word in zip(texts, words, strict=True)
    )


def find_value(
    name: str, piece: Piece, values: Mapping[str, tuple[Piece, ...]], folder_splits: bool
) -> Piece:
    """Replace a variable by its value, unless the shell would change the unquoted value."""
    if name == FOLDER:
        return _write_current_folder(piece, folder_splits)
    choices = values.get(name, ())
    if not piece.quoted and any(map(_is_taken_apart, choices)):
        return piece
    return choices[0] if choices and name == HOME else piece._replace(name=name, choices=choices)


def _is_taken_apart(value: Piece) -> bool:
    """Return whether the shell would change a value outside of quotes.

    The names that a pattern matches are not examined.
    """
    return (_TAKEN_APART if value.quoted else _BLANK).search(value.text) is not None


def find_output(nodes: Sequence[Finding], piece: Piece, folder_splits: bool) -> Piece:
    """Replace a substitution by what its commands print, if that is known."""
    first = nodes[0] if nodes else None
    if not isinstance(first, SimpleCommand) or not all(word.static for word in first.words):
        return piece
    command = " ".join(word.text for word in first.words)
    if len(nodes) == 1:
        if first == SimpleCommand(first.words) and command == "pwd":
            return _write_current_folder(piece, folder_splits)
        return piece._replace(number=_PRINTS_NUMBERS.fullmatch(command) is not None)
    # Long messages are written as "$(cat <<'END' …)".
    last = nodes[-1]
    if command == "cat" and len(nodes) == 2 and piece.quoted and isinstance(last, SimpleCommand):
        one = [each.operator for each in first.redirections] in (["<<"], ["<<-"])
        text = last.redirections[0].target
        plain = first.redirections[0].target.quoted or "\\" not in text.text
        if one and not last.words and text.static and plain:
            return Piece(text.text.rstrip("\n"))
    return piece


def _write_current_folder(piece: Piece, splits: bool) -> Piece:
    return piece if splits and not piece.quoted else piece._replace(name=FOLDER)
