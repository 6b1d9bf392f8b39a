"""A shell command, taken apart into facts."""

from collections.abc import Iterable, Iterator, Sequence

from greenroom.permissions.facts.fact import Change, Command, Fact, Unknown, Unread
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.commands import CommandReader
from greenroom.permissions.shell.grammar.nodes import Assignment, Script, SimpleCommand
from greenroom.permissions.shell.grammar.parser import parse
from greenroom.permissions.shell.hidden import hidden_characters, posing_words
from greenroom.permissions.shell.redirections import redirection_facts
from greenroom.permissions.shell.unread import words_of
from greenroom.permissions.shell.variables.assignments import (
    changes_programs,
    computes,
    is_display,
    may_hold_code,
    renames,
    runs_in_subscript,
)
from greenroom.permissions.shell.variables.substituted import TooManyValuesError, substituted

__all__ = ["MAX_LENGTH", "analyse", "execute"]

MAX_VALUES = 1 << 16  # characters of commands with the values of their variables
MAX_LENGTH = 1 << 20  # no person can read more, and Linux takes no longer argument list


def analyse(command: str, place: Place) -> Sequence[Fact]:
    """Say what a command would do; what can't be told is an unknown fact. It never raises.

    Example:
        >>> facts = analyse("cd src && FOO=1 make > out", Place("/w", "/w"))
        >>> [str(fact) for fact in facts]
        ['cd src', 'sets the variable FOO', 'make', 'write out']
    """
    if len(command) > MAX_LENGTH:
        return (Unknown(reason=f"a command of {len(command)} characters", refused=True),)
    facts: list[Fact] = []
    hidden = hidden_characters(command)
    if hidden:
        facts.append(Unknown(reason=f"the command holds characters that can't be seen: {hidden}"))
    try:
        facts += _Analyser(place, len(command)).facts(command)
    except RecursionError:  # the caller stands deep in its own stack
        facts.append(Unread(words=words_of(command)))
        facts.append(Unknown(reason="the command is nested too deeply to be told"))
    facts += dict.fromkeys(posing_words(facts))
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
    try:
        facts = tuple(_Analyser(place, length).simple(node))
        return (*facts, *dict.fromkeys(posing_words(facts)))
    except RecursionError:  # the caller stands deep in its own stack
        unread = Unread(words=tuple(argv))
        return (Unknown(reason="the command is nested too deeply to be told"), unread)


class _Analyser:
    """Turns what the parser found into facts, in order."""

    def __init__(self, place: Place, length: int) -> None:
        """Begin in a place; `length` bounds how much text inside texts is read."""
        self._commands = CommandReader(place, self.facts)
        self._budget = 4 * length + 4096
        self._room = 4 * length + MAX_VALUES
        self._scripts: dict[str, Script] = {}  # texts inside texts are often the same
        self._crowded = False  # whether there were more values than could be written out
        self._computes = False
        self._holds_code = False
        self._said: set[tuple[SimpleCommand, int, bool]] = set()
        self._state = self._commands.state

    def facts(self, text: str, level: int = 0, guard: bool = False) -> Iterator[Fact]:
        """Take a text apart; texts that its commands run come back here, one level deeper."""
        self._budget -= len(text)
        if self._budget < 0:
            yield Unknown(reason="too much text inside texts")
            yield Unread(words=words_of(text))
            return
        script = self._scripts.get(text)
        if script is None:
            script = self._scripts[text] = parse(text)
        different = dict.fromkeys(script.found)
        self._commands.texts.note(different)
        self._commands.bindings.note(different)
        # A text that a command runs sees the variables of the text around it.
        self._computes |= script.computes or any(computes(node) for node in different)
        self._holds_code |= any(may_hold_code(node) for node in different)
        if "~" in text and any(map(self._commands.bindings.is_set, ("HOME", "PWD", "OLDPWD"))):
            yield Unknown(reason="~ stands for what the command sets a variable to")
        for node in script.found:
            if isinstance(node, SimpleCommand):
                yield from self._once(node, level, guard)
            elif isinstance(node, Assignment):
                if changes_programs(node.name):
                    yield Change(reason=f"sets the variable {node.name}")
                yield from self._commands.setting(node.name, node.value, level)
            elif node.change:
                yield Change(reason=node.reason)
            else:
                yield Unknown(reason=node.reason)
        for unread in script.unread:
            yield Unread(words=words_of(unread))
        if self._computes and (self._holds_code or self._commands.gives_code):
            yield Unknown(reason="computes with a variable whose value may run a command")

    def _once(self, node: SimpleCommand, level: int, guard: bool) -> Iterator[Fact]:
        """Say what a command does, if nothing has changed since the same was said of it."""
        if self._commands.state != self._state:
            self._state = self._commands.state
            self._said.clear()
        said = (node, level, guard)  # what is only looked at for denials was not judged
        if said not in self._said:
            self._said.add(said)
            yield from self.simple(node, level, guard)

    def simple(self, node: SimpleCommand, level: int = 0, guard: bool = False) -> Iterator[Fact]:
        """Say what one simple command does."""
        for assignment in node.assignments:
            if not is_display(assignment):
                yield Change(reason=f"sets the variable {assignment.name}")
            yield from self._commands.setting(assignment.name, assignment.value, level)
        if renames(node):
            yield Unknown(reason="makes a name stand for another one")
        if runs_in_subscript(node):
            yield Unknown(reason="evaluates a subscript that runs a command")
        command: Command | None = None
        # A redirection is opened before the command can change the folder.
        place = self._commands.place
        self._commands.source = node.source
        self._commands.captured = node.captured
        fed = self._commands.fed
        self._commands.fed = node.fed or (level > 0 and fed)
        guard = guard or _only_steers(node.words)
        for fact in self._commands.command(node.words, level=level, guard=guard):
            command = command or (fact if isinstance(fact, Command) else None)
            yield fact
        yield from self._substituted(node, level)
        for redirection in node.redirections:
            yield from redirection_facts(redirection, command, place)
        self._commands.fed = fed

    def _substituted(self, node: SimpleCommand, level: int) -> Iterator[Fact]:
        """Look for denials behind the variables that the text sets."""
        values = self._commands.bindings.values
        place = self._commands.place
        targets = tuple(each.target for each in node.redirections)
        try:
            for words in substituted((*node.words, *targets), values, self._spend):
                for fact in self._commands.command(words, level=level, guard=True):
                    if isinstance(fact, Command | Unread):
                        yield fact
                self._commands.place = place
        except TooManyValuesError:
            yield Unknown(reason="variables of more values than can be told apart")
            if not self._crowded:
                self._crowded = True
                yield Unread(words=tuple(self._commands.bindings.texts()))

    def _spend(self, characters: int) -> bool:
        """Take room for a command that is written out; False if there is none left."""
        self._room -= characters
        return self._room >= 0


def _only_steers(words: Sequence[Word]) -> bool:
    """Tell whether a command only leaves a loop, or begins its next turn: no program runs."""
    return (
        bool(words)
        and words[0].text in ("break", "continue")
        and all(word.static and word.text.isdecimal() for word in words[1:])
    )
