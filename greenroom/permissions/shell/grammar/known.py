"""What is known of a value before the command runs.

These are the values of loops over literals, `$HOME`, `$PWD` and `$(pwd)`, and a text that stands in
the command itself. Everything else that a word is filled with is unknown.
"""

import os
import re
from collections.abc import Mapping, Sequence

from greenroom.permissions.facts.word import Piece, Word
from greenroom.permissions.shell.grammar.nodes import Finding, SimpleCommand

FOLDER = "PWD"
"""The variable that holds the current folder."""

HOME = "HOME"
"""The variable that holds the user's own folder."""

MAX_VALUES = 64  # of a loop's variable that are looked at one by one
_TAKEN_APART = re.compile(r"\A\Z|[\s*?\[\\]")  # what the shell does to a value outside quotes
_BLANK = re.compile(r"[\s\\]")
_PRINTS_NUMBERS = re.compile(
    r"nproc|seq(?: -?[0-9.]+)+|wc(?: -[clmw]+)+|date \+(?:%[sYmdHMS])+|id -[gu]"
)
_SETTERS = re.compile(
    r"\b(?:IFS|read|mapfile|readarray|printf\s+-v|getopts|declare|typeset|local|export|readonly|let"
    r"|unset|eval|source|alias|set)\b|(?:^|[\s;&|({])\.\s|\(\(|\$\[|%n"
)
_SET = re.compile(r"\b(\w+)(?:\+?=|\[)")


def find_assigned(command: str) -> frozenset[str] | None:
    """Name the variables that a command may set, to be on the safe side; None for any.

    Example:
        >>> sorted(find_assigned("x=1; for f in a; do cp $f y=2; done") or ())
        ['x', 'y']
        >>> find_assigned("for f in a; do read f; done") is None
        True
    """
    return None if _SETTERS.search(command) else frozenset(_SET.findall(command))


def list_values(words: Sequence[Word]) -> tuple[Piece, ...]:
    """List the values of a variable that goes through these words; none if they are not known."""
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
    """Put the value of a variable in the place of its name; outside of quotes it is taken apart."""
    if name == FOLDER:
        return _current_folder(piece, folder_splits)
    choices = values.get(name, ())
    if not piece.quoted and any(map(_is_taken_apart, choices)):
        return piece
    return choices[0] if choices and name == HOME else piece._replace(name=name, choices=choices)


def _is_taken_apart(value: Piece) -> bool:
    """Tell whether the shell makes something else of a value outside of quotes.

    The names that a pattern stands for are taken at their word.
    """
    return (_TAKEN_APART if value.quoted else _BLANK).search(value.text) is not None


def find_printed(nodes: Sequence[Finding], piece: Piece, folder_splits: bool) -> Piece:
    """Put what the commands of a substitution print in its place, if that is known."""
    first = nodes[0] if nodes else None
    if not isinstance(first, SimpleCommand) or not all(word.static for word in first.words):
        return piece
    command = " ".join(word.text for word in first.words)
    if len(nodes) == 1:
        if first == SimpleCommand(first.words) and command == "pwd":
            return _current_folder(piece, folder_splits)
        return piece._replace(number=_PRINTS_NUMBERS.fullmatch(command) is not None)
    # "$(cat <<'END' …)" is how a long message is written.
    last = nodes[-1]
    if command == "cat" and len(nodes) == 2 and piece.quoted and isinstance(last, SimpleCommand):
        one = [each.operator for each in first.redirections] in (["<<"], ["<<-"])
        text = last.redirections[0].target
        plain = first.redirections[0].target.quoted or "\\" not in text.text
        if one and not last.words and text.static and plain:
            return Piece(text.text.rstrip("\n"))
    return piece


def _current_folder(piece: Piece, splits: bool) -> Piece:
    return piece if splits and not piece.quoted else piece._replace(name=FOLDER)
