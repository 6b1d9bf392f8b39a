"""Words out of pieces: braces written out, the home folder too, and the rest joined."""

import os
import re
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import TypeAlias

from greenroom.permissions.facts.word import Piece, Word
from greenroom.permissions.shell.grammar.known import FOLDER

ODD_TILDE = r"~(?:-|\+?[0-9])"
"""What begins with `~-` or `~2` lies in a folder that only the shell knows."""

UNSURE = Piece("", quoted=False, dynamic=True, split=True)
"""Stands for what a word may turn into that is not understood."""

Pieces: TypeAlias = list[Piece]
MAX_WORDS = 256
_GROUP = re.compile(r"(\{[^{}]*\})")
_SPECIAL = re.compile(r"[*?\[]")
_RANGE = re.compile(r"-?[0-9]+\.\.-?[0-9]+(?:\.\.-?[0-9]+)?")
_SIMPLE_RANGE = re.compile(r"(0|[1-9][0-9]{0,5})\.\.(0|[1-9][0-9]{0,5})")
_STAR = re.compile(r"[*?]")


def expand(pieces: Pieces) -> list[Pieces]:
    """Write out the braces of a word; where they are nested or hold quotes, it is left unknown.

    Example:
        >>> [piece.text for [piece] in expand([Piece("{rm,-rf}", quoted=False)])]
        ['rm', '-rf']
    """
    plain = "".join([piece.text for piece in pieces if _is_plain(piece)])
    if "{" not in plain or ("," not in plain and ".." not in plain):
        return [pieces]  # without these, braces stand for themselves
    parts = _GROUP.split(plain)
    choices = [_choices(part) for part in parts if part]
    is_clear = len(pieces) == 1 and not any("{" in part or "}" in part for part in parts[::2])
    if not is_clear or prod(map(len, choices)) > MAX_WORDS:
        return [[*pieces, UNSURE]]
    return [list(each) for each in product(*choices)]


def _choices(part: str) -> list[Piece]:
    """List what a group of braces may be, or the text between two groups."""
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
    """Tell whether pieces make a word at all: without quotes, nothing is none."""
    return any(piece.text or not _is_plain(piece) for piece in pieces)


def join(pieces: Sequence[Piece]) -> Word:
    """Make a word of its pieces; usually it is one."""
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
    """Write out the home folder before other pieces: quotes behind it don't make it a plain `~`."""
    first, rest = pieces[0], pieces[1:]
    if first.text[:1] != "~" or not _is_plain(first):
        return pieces
    if re.match(ODD_TILDE, first.text) or (rest and first.text.startswith("~+")):
        return [first._replace(dynamic=True), *rest]
    if rest and "/" in first.text:
        return [first._replace(text=os.path.expanduser(first.text)), *rest]
    return pieces


def _write_out_folder(pieces: Sequence[Piece]) -> Sequence[Piece]:
    """Write `.` for the current folder where a path begins with it, else leave it unknown."""
    first, *rest = [piece for piece in pieces if piece.text] or pieces
    is_path = not rest or (not rest[0].dynamic and rest[0].text[0] in "/:")
    return [Piece("."), *rest] if first.name == FOLDER and is_path else pieces


def _is_pattern(pieces: Sequence[Piece]) -> bool:
    """Tell whether the shell would look for file names; a bracket alone, as in `[ -f a ]`, is not."""
    shown = "".join([p.text if _is_plain(p) else _SPECIAL.sub("", p.text) for p in pieces])
    return _STAR.search(shown) is not None or "]" in shown.partition("[")[2]
