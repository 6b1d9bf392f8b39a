"""Simple commands as facts: the program itself, and what it runs in turn."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from greenroom.permissions.facts.fact import Change, Command, Fact, Unknown, Unread
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.folder_changes import FOLDER_CHANGES, moved
from greenroom.permissions.shell.grammar.arithmetic import is_plain_value
from greenroom.permissions.shell.grammar.output import Output
from greenroom.permissions.shell.programs.cautions import cautions
from greenroom.permissions.shell.programs.evaluated import TIMERS, Evaluated, evaluated
from greenroom.permissions.shell.programs.inputs import (
    FROM_INPUT,
    NAME_FROM_INPUT,
    filled,
    find_actions,
    template,
    with_input,
)
from greenroom.permissions.shell.programs.scripts import texts_in
from greenroom.permissions.shell.programs.table import is_known
from greenroom.permissions.shell.programs.wrappers import (
    ELSEWHERE,
    SHELLS,
    WRAPPERS,
    Wrapper,
    inner_start,
)
from greenroom.permissions.shell.texts import READERS, Texts
from greenroom.permissions.shell.unread import words_of
from greenroom.permissions.shell.variables.bindings import Bindings
from greenroom.permissions.shell.variables.run_values import declared, run_values

__all__ = ["CommandReader"]

MAX_LEVEL = 12
MAX_INNER_WORDS = 50_000  # of all commands inside commands together
MAX_SUFFIXES = 8
MAX_RUN_VALUES = 1_000  # of variables, that are taken apart; of others only the words are looked at
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_RUNS_FILES = SHELLS | {".", "source"}
_SETS_GLOBS = SHELLS | {"shopt"}

TextReader: TypeAlias = Callable[[str, int, bool], Iterator[Fact]]


class CommandReader:
    """Reads one simple command after the other, keeping track of the folder that they run in."""

    def __init__(self, place: Place, read_text: TextReader) -> None:
        """Begin in a place; `read_text` takes apart a text that a command runs."""
        self.place = place
        self.source = Output.TEXT  # what the standard input brings
        self.captured = False  # whether what is printed goes to another command
        self.fed = False  # whether the standard input is a pipe or a text
        self.bindings = Bindings()
        self.texts = Texts()
        self.gives_code = False  # whether a shell is given arguments that arithmetic may run
        self._run = self._passed = 0  # how many of them were looked at, and of those passed on
        self._run_values: set[tuple[str, Place]] = set()  # values of variables looked at
        self._read_text = read_text
        self._budget = MAX_INNER_WORDS
        self._outermost: Sequence[Word] = ()  # of the command in hand, until it is given up
        self._guessing = False  # whether the command in hand is only guessed to be one

    @property
    def state(self) -> tuple[object, ...]:
        """What the facts of a command depend on besides the command."""
        return self.place, len(self.texts.all), self.bindings.version

    def command(
        self,
        words: Sequence[Word],
        *,
        level: int = 0,
        guard: bool = False,
        outer: Command | None = None,
        start: int = 0,
    ) -> Iterator[Fact]:
        """Take one command apart: itself first, then what it runs."""
        if not words:
            return
        program = words[0]
        if not program.static:
            yield Unknown(
                reason=f"the name of the command is only known at run time: {program.text}"
            )
            # Such words may turn out to be nothing, and then the next word is the command.
            gone = next((at for at, word in enumerate(words) if not word.split), len(words))
            if gone:
                yield from self.command(words[gone:], level=level + 1, guard=True)
            return
        if not level:
            self._outermost = words
        self._budget -= level and len(words)
        if level >= MAX_LEVEL or self._budget < 0:
            yield from self._far_inside()
            return
        command = self._described(words, guard, outer, start)
        yield command
        if basename(program.text) in FOLDER_CHANGES:
            self.place = moved(self.place, words, self.bindings)
        yield from self._inner(command, level, guard)

    def _described(
        self, words: Sequence[Word], guard: bool, outer: Command | None, start: int
    ) -> Command:
        wrapper = WRAPPERS.get(basename(words[0].text))
        return Command(
            argv=tuple(words),
            guard=guard or self._transparent(words, wrapper),
            outer=outer,
            start=start,
            cautions=cautions(words),
            loose=not is_known(words[0]),
            captured=self.captured,
            place=self.place,
        )

    def _transparent(self, words: Sequence[Word], wrapper: Wrapper | None) -> bool:
        if wrapper is None or words[0].text != basename(words[0].text):
            return False
        start = inner_start(words, wrapper)
        if start is None or start >= len(words):
            return False
        plain_env = words[0].text == "env" and start == 1 and not _ASSIGNMENT.match(words[1].text)
        return wrapper.transparent or plain_env

    def _inner(self, command: Command, level: int, guard: bool) -> Iterator[Fact]:
        name = basename(command.argv[0].text)
        wrapper = WRAPPERS.get(name)
        text = evaluated(command.argv)
        if name in _SETS_GLOBS and any(map(_may_name_dotglob, command.argv)):
            self.place.doubt_patterns()
        if text is not None:
            yield from self._text(text, command, level, guard)
        elif wrapper is not None:
            yield from self._wrapped(command, name, wrapper, level, guard)
        elif name in ELSEWHERE:
            yield from self._suffixes(command, 1, level)
        elif name == "find":
            yield from self._find(command, level, guard)
        for variable, value in declared(command.argv):
            yield from self.setting(variable, value, level)
        if self._runs_written(command.argv):
            yield from self._given_texts(name, level)
        if name in READERS | ELSEWHERE and (self.fed or _reads_descriptor(command.argv)):
            yield from self._passed_texts(command, level)
        for at, _ in command.cautions[:MAX_SUFFIXES]:  # an option may run what stands behind it
            yield from self._suffixes(command, at + 1, level)
            for word in command.argv[at : at + 1]:  # `.` alone lacks the word that it would run
                yield from self._texts(word, level)

    def _wrapped(
        self, command: Command, name: str, wrapper: Wrapper, level: int, guard: bool
    ) -> Iterator[Fact]:
        argv = command.argv
        start = inner_start(argv, wrapper)
        if start is None:
            if name != "command":
                yield Unknown(reason=f"an option of {name} that is not understood")
            yield from self._suffixes(command, 1, level)
            return
        while start < len(argv) and _ASSIGNMENT.match(argv[start].text):
            name, _, value = argv[start].text.partition("=")
            yield Change(reason=f"sets the variable {name}")
            yield from self.setting(name, Word(value, argv[start].dynamic, quoted=True), level)
            start += 1
        inner = argv[start:]
        if name == "parallel":
            yield from self._parallel(inner, level)
            inner = (*template(inner), FROM_INPUT)
        if name == "xargs" and inner:
            given = FROM_INPUT if self.source is Output.TEXT else NAME_FROM_INPUT
            inner = (*tuple(with_input(word) for word in inner), given)
        if wrapper.text and any(" " in word.text for word in inner):
            yield from self._text(Evaluated(inner, start), command, level, guard)
        yield from self.command(inner, level=level + 1, guard=guard, outer=command, start=start)

    def setting(self, name: str, value: Word, level: int) -> Iterator[Fact]:
        """Look for denials in the value of a variable that programs run, such as `PAGER`."""
        if level >= MAX_LEVEL or len(self._run_values) > MAX_RUN_VALUES:
            yield Unread(words=words_of(value.text))
            return
        for text in run_values(name, value, self.bindings):
            if (text, self.place) in self._run_values:
                continue
            self._run_values.add((text, self.place))
            if len(self._run_values) > MAX_RUN_VALUES:
                yield Unread(words=tuple(self.bindings.texts()))
                return
            yield from _denials(self._read_text(text, level + 4, True))
            yield Unread(words=words_of(text))

    def _suffixes(self, command: Command, start: int, level: int) -> Iterator[Fact]:
        """Look for denials at each of the next words, where the inner command can't be found."""
        argv, end = command.argv, start + MAX_SUFFIXES
        guessing, self._guessing = self._guessing, True
        for at in range(start, min(len(argv), end)):
            if argv[at].static and not argv[at].text.startswith("-"):
                yield from _denials(self.command(argv[at:], level=level + 4, guard=True))
        if not guessing:
            yield Unread(words=tuple(word.text for word in argv[end:]))
        for word in argv[start : end if guessing else None]:
            yield from self._texts(word, level)
        self._guessing = guessing

    def _texts(self, word: Word, level: int) -> Iterator[Fact]:
        """Look for denials in a word that some program may read as a command."""
        for text in texts_in(word.text):
            if level < MAX_LEVEL:
                yield from _denials(self._read_text(text, level + 4, True))

    def _far_inside(self) -> Iterator[Fact]:
        """Give up taking apart what lies inside too many other commands."""
        yield Unknown(reason="too many commands inside commands")
        if self._outermost:
            yield Unread(words=words_of(" ".join(word.text for word in self._outermost)))
            self._outermost = ()

    def _find(self, command: Command, level: int, guard: bool) -> Iterator[Fact]:
        """Take the actions of find apart, each of which ends where find says it does."""
        for start, end in find_actions(command.argv):
            inner = tuple(with_input(each) for each in command.argv[start:end])
            yield from self.command(inner, level=level + 1, guard=guard, outer=command, start=start)

    def _parallel(self, words: Sequence[Word], level: int) -> Iterator[Fact]:
        """Look for denials in what parallel runs with the words that it is given behind `:::`."""
        commands = filled(words)
        if commands is None:
            yield Unread(words=tuple(word.text for word in (*words, *words)))
            return
        for inner in commands:
            self._budget -= len(inner)
            yield from _denials(self.command(inner, level=level + 1, guard=True))
            text = " ".join(word.text for word in inner)
            yield from _denials(self._read_text(text, level + 1, True))

    def _text(self, text: Evaluated, command: Command, level: int, guard: bool) -> Iterator[Fact]:
        """Take apart the text that a command runs."""
        name = command.argv[0].text
        if text.stdin:
            yield Unknown(reason=f"{name} runs a text that can't be seen here")
            yield from self._given_texts(name, level)
            return
        known = not any(word.dynamic for word in text.words)
        if not known:
            yield Unknown(reason=f"{name} runs a text that is only known at run time")
            yield from self._given_texts(name, level)
        joined = " ".join(word.text for word in text.words)
        arguments = command.argv[text.start + 1 :] if text.arguments else ()
        self.gives_code |= not all(is_plain_value(word.text) for word in arguments)
        self.bindings.arguments(arguments)
        yield from self._read_text(joined, level + 1, guard or not known)

    def _given_texts(self, name: str, level: int) -> Iterator[Fact]:
        """Take apart the texts that may be the one which is run."""
        texts, self._run = self.texts.all[self._run :], len(self.texts.all)
        for text in texts:
            yield from self._read_text(text, level + 1, True)
            if basename(name) in TIMERS:
                yield Unread(words=words_of(text))  # their lines begin with a time

    def _runs_written(self, argv: Sequence[Word]) -> bool:
        """Tell whether a file is run that the same command writes."""
        runs = argv if basename(argv[0].text) in _RUNS_FILES else argv[:1]
        return any(basename(word.text) in self.texts.written for word in runs)

    def _passed_texts(self, command: Command, level: int) -> Iterator[Fact]:
        """Look for denials in what the standard input brings: commands, or names of files."""
        texts, self._passed = self.texts.passed[self._passed :], len(self.texts.passed)
        for text in texts:
            yield from _denials(self._read_text(text, level + 1, True))
            words = tuple(Word(word, quoted=True) for word in text.split())
            yield replace(command, argv=(command.argv[0], *words), guard=True, cautions=())
            wrapper = WRAPPERS.get(basename(command.argv[0].text))
            start = inner_start(command.argv, wrapper) if wrapper else None
            if start is not None and start < len(command.argv):
                inner = (*command.argv[start:], *words)
                yield from _denials(self.command(inner, level=level + 1, guard=True))


def _denials(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Leave out what would be asked about if it were certain that it runs."""
    return (fact for fact in facts if isinstance(fact, Command | Unread))


def _reads_descriptor(argv: Sequence[Word]) -> bool:
    return any(word.text.startswith("-u") for word in argv)


def _may_name_dotglob(word: Word) -> bool:
    """Tell whether a word may be the setting with which stars stand for a first dot as well."""
    return word.dynamic or "dotglob" in word.text
