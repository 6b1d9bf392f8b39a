"""The parsers of the command line, and what adds an argument to one, in one line each."""

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from greenroom.cli.argument_values import positive

Argument: TypeAlias = Callable[[argparse.ArgumentParser], object]
"""Adds an option or a positional argument to a parser."""


class CommandParser(argparse.ArgumentParser):
    """Reads a command line, or the part of one that belongs to a command.

    Options that are not given are left out: the class of options has the defaults.
    """

    def __init__(self, **settings: object) -> None:
        super().__init__(
            formatter_class=argparse.RawDescriptionHelpFormatter,
            argument_default=argparse.SUPPRESS,
            **settings,  # type: ignore[arg-type]
        )

    def _check_value(self, action: argparse.Action, value: object) -> None:
        if not isinstance(action, CommandOrPrompt):
            super()._check_value(action, value)


if TYPE_CHECKING:
    SubParsers: TypeAlias = argparse._SubParsersAction[CommandParser]
else:
    SubParsers = argparse._SubParsersAction


class CommandOrPrompt(SubParsers):
    """The first word: a command, or else the prompt that an interactive run begins with."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        """Read the words behind a command with its own parser, those behind a prompt as options."""
        first, *rest = map(str, values or ())
        if first in self.choices:
            super().__call__(parser, namespace, values, option_string)
            return
        from difflib import get_close_matches

        near = get_close_matches(first, [each for each in self.choices if each != "complete"], 1)
        if near or hasattr(namespace, "opening"):
            hint = f"did you mean {near[0]}? " if near else ""
            parser.error(
                f"{first!r} is not a command; {hint}a prompt of several words needs quotes"
            )
        namespace.opening = first
        parser.parse_args(rest, namespace)


def make_parser(*, stand_in: CommandParser | None = None, **settings: object) -> CommandParser:
    """Make the parser of a command; one that is only listed in the help has that of another."""
    return CommandParser(**settings) if stand_in is None else stand_in


def argument(*names: str, **settings: object) -> Argument:
    """Return what adds this argument; the settings are those of `add_argument`."""
    return lambda parser: parser.add_argument(*names, **settings)  # type: ignore[arg-type]


def flag(name: str, text: str, *others: str, **settings: object) -> Argument:
    """Return what adds an option that is there or not."""
    return argument(name, *others, action="store_true", help=text, **settings)


def number(name: str, text: str, *others: str, **settings: object) -> Argument:
    """Return what adds an option with a number, from 1 unless its type is another."""
    given = {"metavar": "N", "type": positive, **settings}
    return argument(name, *others, help=text, **given)


def more(name: str, to: str, metavar: str, text: str) -> Argument:
    """Return what adds an option that may be given several times."""
    return argument(name, metavar=metavar, action="append", dest=to, help=text)


def choice(name: str, choices: Sequence[str], text: str, **settings: object) -> Argument:
    """Return what adds an option that is one of some words."""
    return argument(name, choices=choices, help=text, **settings)


def add_call(parser: argparse.ArgumentParser) -> None:
    """Add the call that `permissions explain` is about: a command, or the input of another tool."""
    call = parser.add_mutually_exclusive_group(required=True)
    call.add_argument("text", metavar="CMD", nargs="?", help="a command of Bash")
    call.add_argument("--input", metavar="JSON", help='such as \'{"file_path": "a.py"}\'')
