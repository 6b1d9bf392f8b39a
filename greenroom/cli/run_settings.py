"""The options of a run that are settings as well, as the parser of the command line declares them.

What one run is about is not a setting: its prompt, and the session that it continues.
"""

import argparse
from collections.abc import Mapping
from functools import cache
from typing import Literal, TypeAlias

import msgspec

from greenroom.cli.argument_makers import CommandParser
from greenroom.cli.argument_values import PASSFILE, holds_password
from greenroom.cli.arguments import add_run
from greenroom.core import ConfigurationError

SettingKind: TypeAlias = Literal["text", "choice", "switch", "count", "amount", "rules"]
"""What the value of a setting is."""

_NOT_SETTINGS = frozenset({"help", "version", "prompt", "resume", "continue_last"})
_SWITCH = {"1": True, "true": True, "yes": True, "on": True}
_SWITCH |= {"0": False, "false": False, "no": False, "off": False}


class RunSetting(msgspec.Struct, frozen=True):
    """One option of a run, as a setting.

    Attributes:
        name: the setting, such as "max_steps".
        option: the option, such as "--max-steps".
        field: the name in `Options`.
        kind: what its value is.
        choices: the possible values, where there are few.
        text: what it is for.
    """

    name: str
    option: str
    field: str
    kind: SettingKind
    choices: tuple[str, ...]
    text: str

    @property
    def variable(self) -> str:
        """The variable of the environment that sets it."""
        return f"GREENROOM_{self.name.upper()}"

    def read(self, text: str) -> object:
        """Read a value from a variable of the environment; rules stand there one a line.

        Raises:
            ConfigurationError: it can't be used.
        """
        text = text.strip()
        match self.kind:
            case "rules":
                return tuple(line.strip() for line in text.splitlines() if line.strip())
            case "switch" if text.lower() in _SWITCH:
                return _SWITCH[text.lower()]
            case "choice" if text in self.choices:
                return text
            case "count" if text.isdecimal() and int(text) > 0:
                return int(text)
            case "amount" if (number := _read_amount(text)) is not None:
                return number
            case "text" if self.name == "sessions" and holds_password(text):
                raise ConfigurationError(f"{self.variable} holds a password", hint=PASSFILE)
            case "text":
                return text
            case _:
                pass
        hints = {"switch": "write 1 or 0", "choice": f"write one of {', '.join(self.choices)}"}
        hint = hints.get(self.kind, "write a number above 0")
        raise ConfigurationError(f"{self.variable}: {text!r} can't be used", hint=hint)


def _read_amount(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if 0 < number < float("inf") else None


@cache
def list_run_settings() -> Mapping[str, RunSetting]:
    """List the settings of a run by their names, in the order of the help.

    Example:
        >>> list_run_settings()["max_steps"].option
        '--max-steps'
    """
    parser = CommandParser(prog="greenroom")
    add_run(parser)
    found = [_read_action(each) for each in parser._actions if each.dest not in _NOT_SETTINGS]
    return {each.name: each for each in found}


def _read_action(action: argparse.Action) -> RunSetting:
    option = next(each for each in action.option_strings if each.startswith("--"))
    name = option.removeprefix("--").removeprefix("no-").replace("-", "_")
    kind: SettingKind = "text"
    if isinstance(action, argparse._AppendAction):
        kind = "rules"
    elif action.choices:
        kind = "choice"
    elif action.nargs == 0:
        kind = "switch"
    elif action.type is not None:
        kind = "amount" if action.metavar == "X" else "count"
    choices = tuple(map(str, action.choices or ()))
    return RunSetting(name, option, action.dest, kind, choices, action.help or "")
