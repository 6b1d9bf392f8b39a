"""Brace expansion: `{a,b}` written out, `{1..9}` left unknown, anything odd left unknown."""

import re
from collections.abc import Sequence
from itertools import product
from typing import TypeAlias

from greenroom.permissions.facts.word import Piece

__all__ = ["expand"]

Pieces: TypeAlias = list[Piece]
MAX_WORDS = 256
MAX_ATOMS = 1024
MAX_NESTING = 20
_MARKS = re.compile(r"([{},])")
_RANGE = re.compile(r"-?\w+\.\.-?\w+(\.\.-?\w+)?")


class _TooManyError(Exception):
    """More words than `MAX_WORDS`, or braces too deeply nested."""


def expand(pieces: Pieces) -> list[Pieces] | None:
    """Write out the braces of a word; None if they stand for too many words.

    Words that come out empty without having been quoted vanish, as they do in the shell.

    Example:
        >>> [piece.text for [piece] in expand([Piece("{rm,-rf}", quoted=False)]) or []]
        ['rm', '-rf']
    """
    if not any("{" in piece.text for piece in pieces if _plain(piece)):
        return [pieces] if pieces else []
    try:
        words = _words(_atoms(pieces), 0)
    except _TooManyError:
        return None
    return [word for word in words if any(each.text or not _plain(each) for each in word)]


def _plain(piece: Piece) -> bool:
    return not (piece.quoted or piece.dynamic)


def _atoms(pieces: Pieces) -> Pieces:
    atoms: Pieces = []
    for piece in pieces:
        if _plain(piece):
            atoms += [Piece(part, quoted=False) for part in _MARKS.split(piece.text) if part]
        else:
            atoms.append(piece)
    if len(atoms) > MAX_ATOMS:
        raise _TooManyError
    return atoms


def _is(atom: Piece, mark: str) -> bool:
    return atom.text == mark and _plain(atom)


def _words(atoms: Sequence[Piece], depth: int) -> list[Pieces]:
    """Expand from left to right, building the product of the groups."""
    if depth > MAX_NESTING:
        raise _TooManyError
    words: list[Pieces] = [[]]
    at = 0
    while at < len(atoms):
        if not _is(atoms[at], "{"):
            words = [[*word, atoms[at]] for word in words]
            at += 1
            continue
        end = _closing(atoms, at)
        choices = _group(atoms[at : end + 1], depth)
        words = [[*first, *second] for first, second in product(words, choices)]
        if len(words) > MAX_WORDS:
            raise _TooManyError
        at = end + 1
    return words


def _closing(atoms: Sequence[Piece], start: int) -> int:
    """Find the brace that closes this one, else the last atom."""
    nesting = 0
    for at in range(start, len(atoms)):
        nesting += _is(atoms[at], "{") - _is(atoms[at], "}")
        if not nesting:
            return at
    return len(atoms) - 1


def _group(group: Sequence[Piece], depth: int) -> list[Pieces]:
    inside = group[1:-1]
    if not _is(group[-1], "}") or len(group) == 1:
        return [[*group, _UNSURE]]
    choices = _split(inside)
    if len(choices) > 1:
        return [word for choice in choices for word in _words(choice, depth + 1)]
    if len(inside) == 1 and _plain(inside[0]) and _RANGE.fullmatch(inside[0].text):
        return [[Piece(f"{{{inside[0].text}}}", quoted=False, dynamic=True, split=True)]]
    kept = _words(inside, depth + 1)
    return [[group[0], *word, group[-1]] for word in kept]


# Braces without a partner: shells differ in what they make of them.
_UNSURE = Piece("", quoted=False, dynamic=True, split=True)


def _split(inside: Sequence[Piece]) -> list[Pieces]:
    """Split at the commas that are not inside a further group."""
    choices: list[Pieces] = [[]]
    nesting = 0
    for atom in inside:
        nesting += _is(atom, "{") - _is(atom, "}")
        if _is(atom, ",") and not nesting:
            choices.append([])
        else:
            choices[-1].append(atom)
    return choices
