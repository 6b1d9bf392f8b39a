"""What words that are only known at run time begin with: an option, or surely none."""

import re
from collections.abc import Sequence

from greenroom.permissions.facts.word import Opening, Word
from greenroom.permissions.shell.grammar.piece import Piece

__all__ = ["added", "beginning", "opening"]

_VARIABLE = re.compile(r"\$(?P<bare>[A-Za-z_]\w*|[0-9@*])|\$\{(?P<name>[A-Za-z_]\w*|[0-9]+|[@*])")
_SAME = re.compile(r"\}|%|\^|,|##\*/\}")  # what leaves the beginning of a path as it is
_DEFAULT = re.compile(r":?[-+?][\w./~][\w./~:@%+,-]*\}")
_NUMBER = re.compile(r"\$(?:[?#$!]|\{#\w+\})")
_HIDDEN = re.compile(r"\s-|/-|\s\Z")  # where an option may begin once the word is split
_SHRINKS = re.compile(r"\$\{\w+[%#]")
_WHOLE = re.compile(r"\$\w+|\$\{\w+\}")
_TEXT = re.compile(r"\$?[\"'][\w./]")
# Variables that the shell fills with words of the command itself, or with blanks.
_FILLED = re.compile(r"_|BASH_\w+|DIRSTACK|FUNCNAME|OPTARG|REPLY|MAPFILE|IFS|PS\d")


def beginning(raw: str) -> tuple[tuple[str, ...], bool]:
    """Say what an expansion begins with: a variable's value, or text that can't be told.

    Example:
        >>> beginning("$x"), beginning("${x:-y}"), beginning("${x:--y}"), beginning("$?")
        ((('x',), False), (('x',), False), (('x',), True), ((), False))
    """
    if _NUMBER.match(raw) or _TEXT.match(raw):
        return (), False
    found = _VARIABLE.match(raw)
    if found is None:
        return (), True
    name = found["bare"] or found["name"]
    if _FILLED.fullmatch(name):
        return (), True
    rest = raw[found.end() :]
    plain = found["bare"] is not None or _SAME.match(rest) or _DEFAULT.fullmatch(rest)
    return ("@" if name.isdigit() or name == "*" else name,), not plain


def opening(pieces: Sequence[Piece]) -> Opening | None:
    """Say what a word of these pieces begins with; None if all of it is known."""
    if not any(piece.dynamic for piece in pieces):
        return None
    if len(pieces) == 1:
        (one,) = pieces
        whole = _WHOLE.fullmatch(one.text) is not None
        return Opening(
            "", one.names, one.printed, False, one.names, one.printed, whole, one.number, "*"
        )
    text, names, printed, dash = "", dict[str, None](), False, False
    # Whether an option may begin here, and whether what came before may be cut to nothing.
    certain, begun, loose, shrunk = True, False, False, False
    for piece in pieces:
        if piece.dynamic:
            certain, shrunk = False, shrunk or _SHRINKS.match(piece.text) is not None
            if not begun or piece.split:
                names |= dict.fromkeys(piece.names)
                printed, loose = printed | piece.printed, True
        elif piece.text:
            text += piece.text if certain else ""
            if loose and piece.text.startswith("-"):
                dash, printed = True, printed or shrunk
            begun, loose = True, False
    parts = tuple(dict.fromkeys(name for piece in pieces for name in piece.names))
    unsure = any(
        piece.printed if piece.dynamic else _HIDDEN.search(piece.text) is not None
        for piece in pieces
    ) or any(piece.text.startswith("-") for piece in pieces[1:])
    known = [piece for piece in pieces if piece.text]
    whole = len(known) == 1 and _WHOLE.fullmatch(known[0].text) is not None
    glob = "".join("*" if piece.dynamic else piece.text for piece in pieces)
    number = len(known) == 1 and known[0].number
    return Opening(text, tuple(names), printed, dash, parts, unsure, whole, number, glob)


def added(name: str, value: Word) -> Word:
    """Put the value that a variable has before what is added to it."""
    opening = Opening(names=(name,), parts=(name,), unsure=True)
    return Word(f"${{{name}}}{value.text}", dynamic=True, opening=opening)
