"""Pieces of words, as they are read."""

from typing import NamedTuple

__all__ = ["Piece"]


class Piece(NamedTuple):
    """Part of a word: its text, whether it was quoted, whether it is known, whether it splits.

    One that is not known begins with the value of one of these variables, or with printed text
    of any kind, or is a number.
    """

    text: str
    quoted: bool = True
    dynamic: bool = False
    split: bool = False
    names: tuple[str, ...] = ()
    printed: bool = False
    number: bool = False
