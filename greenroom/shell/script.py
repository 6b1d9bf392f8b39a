"""A plain command, as the reader makes it: its words are known, and nothing is left to expand.

A `Script` is a list of pipelines; a `Pipeline` is a list of simple commands joined by `|`; a
`SimpleCommand` is a program with its words, the variables set for it, and its redirections.
"""

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import msgspec

Operator: TypeAlias = Literal["", ";", "&&", "||"]
"""What joins a pipeline to the one before it; empty for the first."""

Clock: TypeAlias = Literal["", "time", "time -p"]
"""The keyword that times a pipeline, if any."""


class Redirection(NamedTuple):
    """A redirection of a standard descriptor.

    A here-document is the here-string of the same text, without its last line end.

    Attributes:
        descriptor: 0, 1 or 2.
        operator: what is done with it; `>&` makes it a copy of the descriptor `target`.
        target: the file, the text, or the number of the other descriptor.
    """

    descriptor: int
    operator: Literal["<", ">", ">>", "<<<", ">&"]
    target: str


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A program or builtin with its words; without words, only its redirections take place.

    Attributes:
        words: the program and its words.
        settings: the names and values of the variables that are set for it.
        redirections: its redirections, in order.
        line: the line it ends in, from 0, which bash names in its messages.
    """

    words: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    redirections: tuple[Redirection, ...] = ()
    line: int = field(default=0, compare=False)


class Pipeline(msgspec.Struct, frozen=True):
    """Simple commands joined by `|`.

    Attributes:
        operator: what joins it to the pipeline before it.
        commands: its simple commands.
        inverted: whether `!` inverts its exit status.
        clock: the keyword that times it, if any.
    """

    operator: Operator
    commands: tuple[SimpleCommand, ...]
    inverted: bool = False
    clock: Clock = ""


Script: TypeAlias = tuple[Pipeline, ...]
"""A whole command: its pipelines, in order."""


class NotPlainError(Exception):
    """The text is not plain: what it would run is not known before it runs.

    Attributes:
        reason: what is not plain, in words.
        at: where in the text it is.
    """

    def __init__(self, reason: str, at: int) -> None:
        """Say what is not plain, and where."""
        super().__init__(reason)
        self.reason = reason
        self.at = at
