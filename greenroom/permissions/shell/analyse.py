"""A shell command, taken apart into facts.

A word is known if the text alone says what it will be. Nothing follows the others: what they may turn
out to be is not guessed, and a command is asked about wherever that matters.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

from greenroom.permissions.facts.fact import Change, Command, Fact, Unknown
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Piece, Word, basename
from greenroom.permissions.shell.commands import CommandReader, redirection_facts
from greenroom.permissions.shell.grammar.nodes import Assignment, Redirection, Script, SimpleCommand
from greenroom.permissions.shell.grammar.parser import parse
from greenroom.permissions.shell.grammar.pieces import join
from greenroom.permissions.shell.hidden import hidden_characters, posing_words
from greenroom.permissions.shell.programs.table import SHELLS
from greenroom.permissions.shell.variables import (
    changes_programs,
    computes,
    concerns_variables,
    is_display_setting,
    may_hold_code,
    redefines,
    run_values,
    sets,
)

MAX_LENGTH = 1 << 20  # no person can read more, and Linux takes no longer argument list
MAX_COMMANDS = 256  # that one command in a loop stands for
_STEERS = re.compile(r"(?:break|continue)(?: \d+)?")  # loops; no program runs
_MOVES = re.compile("cd|pushd|popd")
_SEVERAL_WORDS = re.compile(r"[\s*?\[]")  # or a pattern
_FOLDERS = frozenset({"CDPATH", "GLOBIGNORE", "HOME", "OLDPWD", "PWD"})


def analyse(command: str, place: Place) -> Sequence[Fact]:
    """Say what a command would do; what can't be told is an unknown fact. It never raises.

    Example:
        >>> facts = analyse("cd src && FOO=1 make > out", Place("/w", "/w"))
        >>> [str(fact) for fact in facts]
        ['cd src', 'sets the variable FOO', 'make', 'write out']
    """
    if len(command) > MAX_LENGTH:
        return (Unknown(reason=f"a command of {len(command)} characters", refused=True),)
    facts = _gather(_Analyser(place, len(command)).facts(command))
    if hidden := hidden_characters(command):
        why = f"the command holds characters that can't be seen: {hidden}"
        facts.insert(0, Unknown(reason=why))
    return facts or (Unknown(reason="the command holds nothing to run"),)


def execute(
    argv: Sequence[str], environment: Iterable[tuple[str, str]], place: Place
) -> Sequence[Fact]:
    """Say what a program with these words would do; no shell reads them.

    Example:
        >>> facts = execute(["timeout", "5", "ls"], [("DEBUG", "1")], Place("/w", "/w"))
        >>> [str(fact) for fact in facts]
        ['sets the variable DEBUG', 'timeout 5 ls', 'ls']
    """
    if not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        return (Unknown(reason="no usable command"),)
    words = tuple(Word(word, quoted=True) for word in argv)
    assignments = tuple(Assignment(name, Word(value)) for name, value in environment)
    node = SimpleCommand(words, assignments)
    length = sum(len(word) for word in argv)
    return _gather(_Analyser(place, length).simple(node))


def _gather(found: Iterator[Fact]) -> list[Fact]:
    facts: list[Fact] = []
    try:
        facts += found
    except RecursionError:  # the caller stands deep in its own stack
        facts.append(Unknown(reason="the command is nested too deeply to be told"))
    return [*facts, *dict.fromkeys(posing_words(facts))]


class _Analyser:
    """Turns what the parser found into facts, in order."""

    def __init__(self, place: Place, length: int) -> None:
        """Begin in a place; `length` bounds how much text inside texts is read."""
        self._commands = CommandReader(place, self.facts)
        self._budget = 4 * length + 4096
        self._scripts: dict[str, Script] = {}  # texts inside texts are often the same
        self._computes = False
        self._written: set[str] = set()  # names of the files that the command writes
        self._holds_code = False
        self._said: set[tuple[Place, SimpleCommand, int, bool]] = set()

    def facts(self, text: str, level: int = 0, guard: bool = False) -> Iterator[Fact]:
        """Take a text apart; texts that its commands run come back here, one level deeper."""
        self._budget -= len(text)
        if self._budget < 0:
            yield Unknown(reason="too much text inside texts")
            return
        script = self._scripts.get(text)
        if script is None:
            script = self._scripts[text] = self._parse(text)
        for node in script.found:
            if isinstance(node, SimpleCommand):
                self._written.update(_written(node))
        concerned = list(filter(concerns_variables, script.found))
        # A text that a command runs sees the variables of the text around it.
        self._computes |= script.computes or any(map(computes, concerned))
        self._holds_code |= any(map(may_hold_code, concerned))
        if any(sets(node, _FOLDERS) for node in concerned):
            yield Unknown(reason="sets a variable that says where paths begin")
        for node in script.found:
            if isinstance(node, SimpleCommand):
                yield from self._once(node, level, guard)
            elif isinstance(node, Assignment):
                if changes_programs(node.name):
                    yield Change(reason=f"sets the variable {node.name}")
                    yield from run_values(node)
            elif node.change:
                yield Change(reason=node.reason)
            else:
                yield Unknown(reason=node.reason)
        if self._computes and self._holds_code:
            yield Unknown(reason="computes with a variable whose value may run a command")

    def _parse(self, text: str) -> Script:
        place = self._commands.place
        splits = _MOVES.search(text) or _SEVERAL_WORDS.search(place.folder)
        return parse(text, home=place.home, folder_splits=bool(splits))

    def _once(self, node: SimpleCommand, level: int, guard: bool) -> Iterator[Fact]:
        """Say what a command does, if the same was not said of it in this place."""
        said = (self._commands.place, node, level, guard)  # a guard was not judged
        if said not in self._said:
            self._said.add(said)
            for each in _in_loops(node):
                yield from self.simple(each, level, guard)

    def simple(self, node: SimpleCommand, level: int = 0, guard: bool = False) -> Iterator[Fact]:
        """Say what one simple command does."""
        if concerns_variables(node):
            if redefines(node):
                yield Unknown(
                    reason="changes what later words mean, or may run a command in a name"
                )
            yield from run_values(node)
        if self._written and self._runs_written(node):
            yield Unknown(reason="runs a file that the same command writes")
        # A redirection is opened before the command can change the folder.
        place = self._commands.place
        guard = guard or _STEERS.fullmatch(" ".join(word.text for word in node.words)) is not None
        self._commands.fed = node.fed or (level > 0 and self._commands.fed)
        settings, around = _settings(node.assignments), self._commands.settings
        self._commands.settings = tuple(filter(None, settings.values()))
        facts = list(self._commands.command(node.words, level=level, guard=guard))
        command = _main(facts)
        for name, setting in settings.items():
            yield Change(reason=f"sets the variable {name}", command=command, setting=setting)
        yield from facts
        for redirection in node.redirections:
            yield from redirection_facts(redirection, command, place)
        self._commands.settings = around

    def _runs_written(self, node: SimpleCommand) -> bool:
        names = [basename(word.text) for word in node.words]
        runs = names[1:] if names[:1] and names[0] in SHELLS | {".", "source"} else names[:1]
        return not self._written.isdisjoint(runs)


def _written(node: SimpleCommand) -> Iterator[str]:
    """Name the files, without their folders, that a command writes as far as it says."""
    for each in node.redirections:
        if ">" in each.operator and not each.target.text.isdecimal():
            yield basename(each.target.text)
    if node.words and basename(node.words[0].text) == "tee":
        yield from (basename(word.text) for word in node.words[1:])


def _settings(assignments: Sequence[Assignment]) -> dict[str, str]:
    """Find the variables that are set, and to which plain value; empty if that can't be told."""
    found: dict[str, str] = {}
    for each in assignments:
        if not is_display_setting(each.setting):
            found[each.name] = "" if each.name in found else each.setting
    return found


def _main(facts: Sequence[Fact]) -> Command | None:
    """Find the command that others only lead to, as `timeout` does."""
    commands = [fact for fact in facts if isinstance(fact, Command)]
    return next((each for each in commands if not each.guard), next(iter(commands), None))


def _in_loops(node: SimpleCommand) -> Iterator[SimpleCommand]:
    """Write a command out for each value of the loops that it stands in, if these are known."""
    words = (*node.words, *(each.target for each in node.redirections))
    choices = {p.name: p.choices for word in words for p in word.pieces if p.choices}
    if not choices or prod(map(len, choices.values())) > MAX_COMMANDS:
        yield node
        return
    for chosen in product(*choices.values()):
        values = dict(zip(choices, chosen, strict=True))
        redirections = (
            Redirection(each.operator, _filled(each.target, values)) for each in node.redirections
        )
        yield SimpleCommand(
            tuple(_filled(word, values) for word in node.words),
            node.assignments,
            tuple(redirections),
            node.fed,
        )


def _filled(word: Word, values: dict[str, Piece]) -> Word:
    """Put the values of loops into a word."""
    if not any(piece.name in values for piece in word.pieces):
        return word
    return join([values.get(piece.name, piece) for piece in word.pieces])
