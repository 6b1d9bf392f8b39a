"""Completion of command lines in the shell.

A shell loads its script, `completion.bash`, `.zsh` or `.fish`. When Tab is pressed the script runs
the hidden `greenroom complete` with the line up to the cursor; everything else is Python. It splits
the line (`split_line`), finds what may complete it (`find_completion_point`), and prints that. The
first line it prints is "files"; or "words", which follow; or "open", if words follow that continue,
so that the shell adds no blank to them.
"""

import argparse
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from typing import TYPE_CHECKING

from greenroom.cli.arguments import command_parser
from greenroom.cli.command_options import CompletionOptions

if TYPE_CHECKING:
    from greenroom.session import SessionMetadata


_CURSOR = "\x00"  # is in no command line, so it marks the end of the last word


def split_line(line: str) -> list[str]:
    r"""Take a line apart as a shell does; the last word is the one being typed, perhaps empty.

    Example:
        >>> split_line("greenroom sessions sh"), split_line("greenroom 'a b")
        (['greenroom', 'sessions', 'sh'], ['greenroom', 'a b'])
        >>> split_line("greenroom ")
        ['greenroom', '']
    """
    lexer = shlex.shlex(line.replace(_CURSOR, "") + _CURSOR, posix=True, punctuation_chars=False)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        words.extend(lexer)
    except ValueError:  # a quote is still open
        words.append(lexer.token)
    return [word.replace(_CURSOR, "") for word in words]


@dataclass(frozen=True)
class Candidate:
    """A completion; `note` says what it is."""

    word: str
    note: str = ""


@dataclass(frozen=True)
class CompletionPoint:
    """The end of a line, where a word is completed.

    Attributes:
        prefix: what the completions begin with: the part of the word that is typed already.
        head: the part of the word before that, such as `--model=`.
        takes: the kind of value that belongs there, as help names it, such as "ID"; or empty.
        candidates: the words that are possible on any machine.
        sessions: the sessions' folder or database that the line names, or None.
        only_archived: whether only archived sessions are meant.
    """

    prefix: str
    head: str = ""
    takes: str = ""
    candidates: tuple[Candidate, ...] = ()
    sessions: str | None = None
    only_archived: bool = False


def find_completion_point(parser: argparse.ArgumentParser, words: Sequence[str]) -> CompletionPoint:
    """Find what may replace the last of these words.

    Example:
        >>> parser = argparse.ArgumentParser()
        >>> _ = parser.add_argument("--log", metavar="FILE")
        >>> find_completion_point(parser, ["--log", "a"]).takes
        'FILE'
    """
    *past, prefix = words
    reader = _LineReader(parser)
    for word in past:
        reader.read(word)
    return reader.find_point(prefix)


class _LineReader:
    """Reads a line word by word, as far as completion needs."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parser = parser
        self._option: argparse.Action | None = None  # whose value comes next
        self._position = 0
        self._sessions: str | None = None
        self._only_archived = False

    def read(self, word: str) -> None:
        option, self._option = self._option, None
        if option is not None and not (option.nargs == "?" and word.startswith("-")):
            self._note_value(option, word)
        elif word.startswith("-"):
            name, has_value, value = word.partition("=")
            found = self._parser._option_string_actions.get(name)
            if found is not None and has_value:
                self._note_value(found, value)
            elif found is not None and found.nargs != 0:
                self._option = found
            elif found is not None and found.dest == "undo":
                self._only_archived = True
        elif (commands := self._commands) is not None:
            self._parser = commands.get(word, argparse.ArgumentParser(add_help=False))
            self._position = 0
        else:
            self._position += 1

    def _note_value(self, option: argparse.Action, value: str) -> None:
        if option.dest == "sessions":
            self._sessions = value

    def find_point(self, typed: str) -> CompletionPoint:
        name, has_value, value = typed.partition("=")
        named = self._parser._option_string_actions.get(name)
        if self._option is not None and not (self._option.nargs == "?" and typed.startswith("-")):
            return self._point_at(self._option, typed)
        if named is not None and has_value:
            return self._point_at(named, value, head=f"{name}=")
        if typed.startswith("-"):
            return CompletionPoint(typed, candidates=self._options(typed))
        if self._commands is not None:
            return CompletionPoint(typed, candidates=self._listed_commands())
        positional = self._positional()
        if positional is None:
            return CompletionPoint(typed)
        return self._point_at(positional, typed)

    def _point_at(self, action: argparse.Action, prefix: str, head: str = "") -> CompletionPoint:
        choices = tuple(Candidate(str(each)) for each in action.choices or ())
        takes = "" if choices else str(action.metavar or "")
        return CompletionPoint(prefix, head, takes, choices, self._sessions, self._only_archived)

    def _options(self, typed: str) -> tuple[Candidate, ...]:
        """Return the options by their long names, unless a short one is typed."""
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

    def _listed_commands(self) -> tuple[Candidate, ...]:
        """Return the commands that help lists."""
        return tuple(
            Candidate(each.dest, each.help or "")
            for action in self._parser._actions
            if isinstance(action, argparse._SubParsersAction)
            for each in action._get_subactions()
        )

    def _positional(self) -> argparse.Action | None:
        positionals = [each for each in self._parser._actions if not each.option_strings]
        if self._position < len(positionals):
            return positionals[self._position]
        is_open = bool(positionals) and positionals[-1].nargs in ("+", "*")
        return positionals[-1] if is_open else None


_FILES = ("FILE", "DIR")


def run_completion(options: CompletionOptions) -> int:
    """Print the script of a shell, or the completions of a line; return the exit code."""
    if options.command == "completion":
        script = resources.files(__package__).joinpath(f"completion.{options.shell}")
        print(script.read_text(encoding="utf-8"), end="")
        return 0
    point = find_completion_point(command_parser(), split_line(options.line)[1:] or [""])
    print(*_answer(point, options), sep="\n")
    return 0


def _answer(point: CompletionPoint, options: CompletionOptions) -> Iterator[str]:
    if point.takes in _FILES:
        yield "files"
        return
    candidates = [each for each in _candidates(point) if each.word.startswith(point.prefix)]
    yield "open" if candidates and all(each.word.endswith(":") for each in candidates) else "words"
    # Bash ends a word at some signs, such as ":", and replaces only what follows them.
    whole = point.head + point.prefix
    is_part = options.word is not None and whole.endswith(options.word)
    done = len(whole) - len(options.word or "") if is_part else 0
    for each in candidates:
        word = f"{point.head}{each.word}"[done:]
        if word:
            yield f"{word}\t{each.note}" if each.note and options.shell != "bash" else word


def _candidates(point: CompletionPoint) -> Iterable[Candidate]:
    match point.takes:
        case "ID":
            return _ids(_sessions(point), point.prefix)
        case "NAME":
            return _models(_sessions(point), point.prefix)
        case _:
            return point.candidates


def _sessions(point: CompletionPoint) -> "list[SessionMetadata]":
    """List the sessions, the last changed first; empty if the store can't be read."""
    # Only now: to complete a command or an option, none of this is needed.
    import trio

    from greenroom.cli.options import Options
    from greenroom.cli.stored_sessions import open_configured_store
    from greenroom.core import GreenroomError
    from greenroom.session import AgentSession

    folder = None if point.sessions is None else os.path.expanduser(point.sessions)
    try:
        store = open_configured_store(Options(sessions=folder))
        sessions = trio.run(
            partial(AgentSession.list_all, store=store, archived=point.only_archived)
        )
    except GreenroomError:
        return []
    return [
        each
        for each in sessions
        if each.parent_session_id is None and (each.is_archived or not point.only_archived)
    ]


def _ids(sessions: "Iterable[SessionMetadata]", typed: str) -> Iterator[Candidate]:
    from greenroom.cli.formatting import age, title_of

    for each in sessions:
        if each.session_id.startswith(typed):
            yield Candidate(each.session_id, f"{title_of(each)}, {age(each.updated_at)}")


def _models(sessions: "Iterable[SessionMetadata]", typed: str) -> Iterator[Candidate]:
    """List the providers, the models used before, and the known models of a provider."""
    from greenroom.cli.formatting import model_of
    from greenroom.llm._internal import MODELS, VENDORS

    used = {model_of(each) for each in sessions if each.provider}
    known = {name for name in MODELS if ":" in typed}
    for name in (*sorted(f"{each}:" for each in VENDORS), *sorted(used | known)):
        yield Candidate(name)
