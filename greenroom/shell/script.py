"""A plain command: its words are known, and nothing is left to expand.

A `Script` is a list of pipelines; a `Pipeline` is a list of simple commands joined by `|`; a
`SimpleCommand` is a program with its words, the variables set for it, and its redirections.

`render` writes it for bash. Each word is in single quotes, as it was judged, so it is the same
whatever bash would make of the original text. Programs are named by the files that were judged:
`hash -p` makes bash run that file under the usual name, without a further look at the search path.
"""

from collections.abc import Mapping
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


def quote(word: str) -> str:
    r"""Quote a word for a shell.

    Example:
        >>> print(quote("it's"))
        'it'\''s'
    """
    return "'" + word.replace("'", r"'\''") + "'"


def render(script: Script, pins: Mapping[str, str] = {}) -> str:
    """Write a plain command; reading the result gives the same command again.

    Each simple command ends in the line where it ended, as far as possible, since bash names lines
    in its messages.

    Args:
        script: the command.
        pins: the files of programs, by the names that the command uses.

    Example:
        >>> from greenroom.shell.reader import read
        >>> print(render(read("ls -l $HOME |& head", home="/home/ada"), {"ls": "/usr/bin/ls"}))
        hash -p '/usr/bin/ls' 'ls'; 'ls' '-l' '/home/ada' 2>&1 | 'head'
    """
    parts = [f"hash -p {quote(path)} {quote(name)}; " for name, path in pins.items()]
    lines = 0
    for pipeline in script:
        clock, inverted = pipeline.clock and f"{pipeline.clock} ", "! " * pipeline.inverted
        prefix = f"{clock}{inverted}"
        operator: str = pipeline.operator
        for command in pipeline.commands:
            text = _write(command)
            breaks = max(command.line - text.count("\n") - lines, 0) if operator else 0
            lines += breaks + text.count("\n")
            parts += (
                " " * (operator not in ("", ";")),
                operator,
                "\n" * breaks or " " * (operator != ""),
            )
            parts += (prefix, text)
            operator, prefix = "|", ""
    return "".join(parts)


def _write(command: SimpleCommand) -> str:
    settings = [f"{name}={quote(value)}" for name, value in command.settings]
    words = map(quote, command.words)
    return " ".join([*settings, *words, *map(_write_redirection, command.redirections)])


def _write_redirection(redirection: Redirection) -> str:
    descriptor, operator, target = redirection
    number = "" if descriptor == (not operator.startswith("<")) else descriptor
    return (
        f"{number}{operator}{target}" if operator == ">&" else f"{number}{operator} {quote(target)}"
    )
