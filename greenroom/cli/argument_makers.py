"""What adds an argument to a parser, in one line each."""

import argparse
from collections.abc import Callable, Sequence
from typing import TypeAlias

from greenroom.cli.argument_values import positive

Argument: TypeAlias = Callable[[argparse.ArgumentParser], object]
"""Adds an option or a positional argument to a parser."""


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
