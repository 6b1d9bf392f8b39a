"""Words out of pieces: braces written out, the home folder too, and the rest joined."""

import os
import re
from collections.abc import Sequence
from itertools import product
from typing import TypeAlias

from greenroom.permissions.facts.word import Piece, Word
from greenroom.permissions.shell.grammar.known import FOLDER

__all__ = ["ODD_TILDE", "UNSURE", "expand", "holds_word", "join"]

ODD_TILDE = r"~(?:-|\+?[0-9])"
"""What begins with `~-` or `~2` lies in a folder that only the shell knows."""

UNSURE = Piece("", quoted=False, dynamic=True, split=True)
"""Stands for what a word may turn into that is not understood."""

Pieces: TypeAlias = list[Piece]
MAX_WORDS = 256
MAX_ATOMS = 1024
MAX_NESTING = 20
_MARKS = re.compile(r"([{},])")
_SPECIAL = re.compile(r"[*?\[]")
_RANGE = re.compile(r"-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?")
_STAR = re.compile(r"[*?]")


def expand(pieces: Pieces) -> list[Pieces] | None:
    """Write out the braces of a word; None if they stand for too many words.

    `{1..9}` is left unknown, and so is a word in which a brace has no partner: it is not sure what the
    shell makes of the others.

    Example:
        >>> [piece.text for [piece] in expand([Piece("{rm,-rf}", quoted=False)]) or []]
        ['rm', '-rf']
    """
    if not any("{" in piece.text for piece in pieces if _is_plain(piece)):
        return [pieces]
    words: list[Pieces] = [[]]
    choices: list[Pieces] = []  # of the innermost brace, up to its last comma
    around: list[tuple[list[Pieces], list[Pieces]]] = []  # the same of the braces around it
    atoms = _split_at_marks(pieces)
    if len(atoms) > MAX_ATOMS:
        return None
    for atom in atoms:
        mark = atom.text if _is_plain(atom) else ""
        if mark == "{":
            around.append((words, choices))
            words, choices = [[]], []
        elif mark == "," and around:
            words, choices = [[]], choices + words
        elif mark == "}":
            if not around:
                return [[*pieces, UNSURE]]
            group = choices + words if choices else _keep_braces(words)
            before, choices = around.pop()
            words = [[*first, *second] for first, second in product(before, group)]
        else:
            words = [[*word, atom] for word in words]
        if len(words) + len(choices) > MAX_WORDS or len(around) > MAX_NESTING:
            return None
    return [[*pieces, UNSURE]] if around else words


def _split_at_marks(pieces: Pieces) -> Pieces:
    """Make each brace and comma outside quotes a piece of its own."""
    atoms: Pieces = []
    for piece in pieces:
        parts = _MARKS.split(piece.text) if _is_plain(piece) else ()
        atoms += [Piece(part, quoted=False) for part in parts if part] or [piece]
    return atoms


def _keep_braces(words: list[Pieces]) -> list[Pieces]:
    """Put back braces without a comma: they stand for themselves, or for a range."""
    texts = ["".join([piece.text for piece in word]) for word in words]
    if any(".." in text for text in texts):
        number = _RANGE.fullmatch(texts[0]) is not None
        return [[UNSURE._replace(text=f"{{{texts[0]}}}", number=number)]]
    brace = Piece("{", quoted=False), Piece("}", quoted=False)
    return [[brace[0], *word, brace[1]] for word in words]


def _is_plain(piece: Piece) -> bool:
    return not (piece.quoted or piece.dynamic)


def holds_word(pieces: Sequence[Piece]) -> bool:
    """Tell whether pieces make a word at all: without quotes, nothing is none."""
    return any(piece.text or not _is_plain(piece) for piece in pieces)


def join(pieces: Sequence[Piece]) -> Word:
    """Make a word of its pieces; usually it is one."""
    pieces = _write_out_home(pieces)
    dynamic = any(piece.dynamic for piece in pieces)
    if dynamic:
        pieces = [_write_out_folder(pieces, at) for at in range(len(pieces))]
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
    """Write out the home folder before other pieces: quotes behind it don't make it a plain `~`."""
    first, rest = pieces[0], pieces[1:]
    if first.text[:1] != "~" or not _is_plain(first):
        return pieces
    if re.match(ODD_TILDE, first.text) or (rest and first.text.startswith("~+")):
        return [first._replace(dynamic=True), *rest]
    if rest and "/" in first.text:
        return [first._replace(text=os.path.expanduser(first.text)), *rest]
    return pieces


def _write_out_folder(pieces: Sequence[Piece], at: int) -> Piece:
    """Write `.` for the current folder where a path begins with it, else leave it unknown."""
    before, piece = "".join([each.text for each in pieces[:at]]), pieces[at]
    behind = [each for each in pieces[at + 1 :] if each.text]
    begins = not before or before.endswith("=")
    ends = not behind or (not behind[0].dynamic and behind[0].text[0] in "/:")
    return Piece(".") if piece.name == FOLDER and begins and ends else piece


def _is_pattern(pieces: Sequence[Piece]) -> bool:
    """Tell whether the shell would look for file names; a bracket alone, as in `[ -f a ]`, is not."""
    shown = "".join([p.text if _is_plain(p) else _SPECIAL.sub("", p.text) for p in pieces])
    return _STAR.search(shown) is not None or "]" in shown.partition("[")[2]
