"""What may stand at the end of a command line, by what the parser of command lines knows."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One way to go on; `note` tells people what it is."""

    word: str
    note: str = ""


@dataclass(frozen=True)
class Place:
    """The end of a line.

    Attributes:
        typed: what stands there already.
        before: what of the word stands before that, such as `--model=`.
        takes: the kind of value that belongs there, as help names it, such as "ID"; or empty.
        fixed: the words that may stand there whatever there is on this machine.
        sessions: the place of the sessions that the line names, or None.
        archived: whether archived sessions are meant, and no others.
    """

    typed: str
    before: str = ""
    takes: str = ""
    fixed: tuple[Candidate, ...] = ()
    sessions: str | None = None
    archived: bool = False


def find_place(parser: argparse.ArgumentParser, words: Sequence[str]) -> Place:
    """Find out what may stand in the place of the last of these words.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> _ = parser.add_argument("--log", metavar="FILE")
        >>> find_place(parser, ["--log", "a"]).takes
        'FILE'
    """
    *past, typed = words
    reader = _Reader(parser)
    for word in past:
        reader.read(word)
    return reader.place(typed)


class _Reader:
    """Follows a line word by word, as far as it must be understood to go on."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self._option: argparse.Action | None = None  # whose value comes next
        self._position = 0
        self._sessions: str | None = None
        self._archived = False

    def read(self, word: str) -> None:
        option, self._option = self._option, None
        if option is not None and not (option.nargs == "?" and word.startswith("-")):
            self._keep(option, word)
        elif word.startswith("-"):
            name, has_value, value = word.partition("=")
            found = self._parser._option_string_actions.get(name)
            if found is not None and has_value:
                self._keep(found, value)
            elif found is not None and found.nargs != 0:
                self._option = found
            elif found is not None and found.dest == "undo":
                self._archived = True
        elif (commands := self._commands) is not None:
            self._parser = commands.get(word, argparse.ArgumentParser(add_help=False))
            self._position = 0
        else:
            self._position += 1

    def _keep(self, option: argparse.Action, value: str) -> None:
        if option.dest == "sessions":
            self._sessions = value

    def place(self, typed: str) -> Place:
        name, has_value, value = typed.partition("=")
        named = self._parser._option_string_actions.get(name)
        if self._option is not None and not (self._option.nargs == "?" and typed.startswith("-")):
            return self._value(self._option, typed)
        if named is not None and has_value:
            return self._value(named, value, before=f"{name}=")
        if typed.startswith("-"):
            return Place(typed, fixed=self._options(typed))
        if self._commands is not None:
            return Place(typed, fixed=self._told_commands())
        positional = self._positional()
        return Place(typed) if positional is None else self._value(positional, typed)

    def _value(self, action: argparse.Action, typed: str, before: str = "") -> Place:
        fixed = tuple(Candidate(str(each)) for each in action.choices or ())
        takes = "" if fixed else str(action.metavar or "")
        return Place(typed, before, takes, fixed, self._sessions, self._archived)

    def _options(self, typed: str) -> tuple[Candidate, ...]:
        """Return the options, by their long names unless a short one is being typed."""
        return tuple(
            Candidate(name, (action.help or "").partition("\n")[0])
            for action in self._parser._actions
            for name in action.option_strings
            if name.startswith("--") or typed == name
        )

    @property
    def _commands(self) -> dict[str, argparse.ArgumentParser] | None:
        for action in self._parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                return action.choices
        return None

    def _told_commands(self) -> tuple[Candidate, ...]:
        """Return the commands that help tells of."""
        return tuple(
            Candidate(told.dest, told.help or "")
            for action in self._parser._actions
            if isinstance(action, argparse._SubParsersAction)
            for told in action._get_subactions()
        )

    def _positional(self) -> argparse.Action | None:
        positionals = [each for each in self._parser._actions if not each.option_strings]
        if self._position < len(positionals):
            return positionals[self._position]
        is_open = bool(positionals) and positionals[-1].nargs in ("+", "*")
        return positionals[-1] if is_open else None
