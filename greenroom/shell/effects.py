"""A shell command, taken apart into facts.

A word is known if the text alone says what it will be. Nothing follows the others: what they may turn
out to be is not guessed, and a command is asked about wherever that matters.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from math import prod
from typing import Literal, TypeAlias

from greenroom.core import lookalikes, visible
from greenroom.shell.cautions import (
    cautions,
    changes_programs,
    computes,
    concerns_variables,
    is_display_setting,
    may_hold_code,
    redefines,
    run_values,
    sets,
)
from greenroom.shell.facts import Change, Command, Extent, Place, ShellFact, Unknown
from greenroom.shell.parser import parse
from greenroom.shell.programs import (
    RUNNERS,
    SHELLS,
    WRAPPERS,
    Usage,
    evaluated,
    extent,
    is_known,
    usage_of,
)
from greenroom.shell.words import (
    Assignment,
    Piece,
    Redirection,
    Script,
    SimpleCommand,
    Word,
    basename,
    join,
)

# Simple commands as facts: the program itself, and what it runs in turn.

MAX_LEVEL = 12
MAX_INNER_WORDS = 50_000  # of all commands inside commands together
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_FOLDER_CHANGES = frozenset({"cd", "pushd", "popd", "chdir"})
_FOLDER_OPTION = re.compile(r"-[LPe@]+|--")
_PLAIN_FOLDER = re.compile(r"[^-+~]|~/|~$")

TextReader: TypeAlias = Callable[[str, int, bool], Iterator[ShellFact]]

FROM_INPUT = Word("…", dynamic=True, split=True)
"""Words of whatever the standard input will bring."""

_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_FILLED = Piece("{}", dynamic=True)
_DESCRIPTOR = re.compile(r"\d+-?|-")
_SOCKET = re.compile(r"/dev/(?:tcp|udp)/")


class CommandReader:
    """Reads one simple command after the other, keeping track of the folder that they run in."""

    def __init__(self, place: Place, read_text: TextReader) -> None:
        """Begin in a place; `read_text` takes apart a text that a command runs."""
        self.place = place
        self.settings: tuple[str, ...] = ()  # the variables that are set for the command
        self.fed = False  # whether the standard input is a pipe, a file or a text
        self._read_text = read_text
        self._budget = MAX_INNER_WORDS

    def command(
        self,
        words: Sequence[Word],
        *,
        level: int = 0,
        guard: bool = False,
        outer: Command | None = None,
        start: int = 0,
    ) -> Iterator[ShellFact]:
        """Take one command apart: itself first, then what it runs."""
        if not words:
            return
        program = words[0]
        if not program.static:
            yield from self._unknown_program(words, level)
            return
        self._budget -= level and len(words)
        if level >= MAX_LEVEL or self._budget < 0:
            yield Unknown(reason="too many commands inside commands")
            return
        usage = usage_of(words)
        reach = extent(usage)
        found = _doubts(usage, reach)
        command = Command(
            argv=tuple(words),
            guard=guard or _is_transparent(usage),
            outer=outer,
            start=start,
            cautions=found,
            loose=bool(found) or not is_known(usage),
            place=self.place,
            settings=self.settings,
            extent="any" if found else reach,
            parts=usage.parts,
            inner=usage.inner,
        )
        yield command
        if basename(program.text) in _FOLDER_CHANGES:
            self.place = _moved(self.place, words)
        yield from self._inner(command, usage, level, guard)

    def _unknown_program(self, words: Sequence[Word], level: int) -> Iterator[ShellFact]:
        name = words[0].text
        yield Unknown(reason=f"the name of the command is only known at run time: {name}")
        # Such words may turn out to be nothing, and then the next word is the command.
        gone = next((at for at, word in enumerate(words) if not word.split), len(words))
        if gone:
            yield from self.command(words[gone:], level=level + 1, guard=True)

    def _inner(
        self, command: Command, usage: Usage, level: int, guard: bool
    ) -> Iterator[ShellFact]:
        """Take apart what a command runs: a text, or the program that its own words name."""
        name = basename(command.argv[0].text)
        text = evaluated(command.argv)
        if text is not None:
            yield from self._text(text, command, level, guard)
        elif name in WRAPPERS:
            yield from self._wrapped(command, usage, level, guard)
        elif name in RUNNERS and self.fed:
            yield Unknown(reason=f"{name} may run what its standard input brings")
        elif name == "find":
            if any(command.argv[at].may_be_option for at, _ in command.cautions):
                yield Unknown(reason="a word that is only known at run time may let find run it")
            for start, end in find_actions(command.argv):
                inner = tuple(with_input(each) for each in command.argv[start:end])
                yield from self.command(
                    inner, level=level + 1, guard=guard, outer=command, start=start
                )

    def _wrapped(
        self, command: Command, usage: Usage, level: int, guard: bool
    ) -> Iterator[ShellFact]:
        argv, kinds, start = command.argv, usage.program.kinds, command.inner
        if start is None:
            if usage.program.name != "command":
                yield Unknown(reason=f"an option of {argv[0].text} that is not understood")
            return
        while start < len(argv) and _ASSIGNMENT.match(argv[start].text):
            name, _, value = argv[start].text.partition("=")
            yield Change(reason=f"sets the variable {name}")
            yield from run_values(Assignment(name, argv[start]._replace(text=value)))
            start += 1
        inner = argv[start:]
        if inner and "fills" in kinds:
            inner = (*map(with_input, inner), FROM_INPUT)
        if "joins" in kinds:
            yield from self._text(inner, command, level, guard)
        yield from self.command(inner, level=level + 1, guard=guard, outer=command, start=start)

    def _text(
        self, text: Sequence[Word], command: Command, level: int, guard: bool
    ) -> Iterator[ShellFact]:
        """Take apart the text that a command runs."""
        name = command.argv[0].text
        if not text:
            yield Unknown(reason=f"{name} runs a text that can't be seen here")
            return
        known = not any(word.dynamic for word in text)
        if not known:
            yield Unknown(reason=f"{name} runs a text that is only known at run time")
        joined = " ".join(word.text for word in text)
        yield from self._read_text(joined, level + 1, guard or not known)


def _doubts(usage: Usage, reach: Extent) -> tuple[tuple[int, str], ...]:
    """Find the words that let a command do more than its name says, and why.

    What a program writes depends on every word that it is given, so each has to be known, unless
    it only reads or prints.
    """
    found, words = cautions(usage), usage.argv
    unknown = [at for at, word in enumerate(words) if word.unknown and not _is_message(words, at)]
    if reach in ("prints", "reads") or not unknown:
        return found
    why = {at: f"{words[at].text[:40]} is only known at run time" for at in unknown}
    return tuple(sorted({**why, **dict(found)}.items()))


def _is_message(words: Sequence[Word], at: int) -> bool:
    """Tell whether a word is the message of a commit, in which nothing matters."""
    return (
        words[0].text == "git" and words[at - 1].text in ("-m", "--message") and not words[at].split
    )


def _is_transparent(usage: Usage) -> bool:
    """Tell whether a command only runs another one, which alone has to be allowed."""
    argv, start = usage.argv, usage.inner
    if start is None or start >= len(argv) or "/" in argv[0].text:
        return False
    plain_env = argv[0].text == "env" and start == 1 and not _ASSIGNMENT.match(argv[1].text)
    return usage.program.is_("transparent") or plain_env


def _moved(place: Place, words: Sequence[Word]) -> Place:
    """Return the place after a change of folder, which may or may not take effect."""
    operands = [word for word in words[1:] if not _FOLDER_OPTION.fullmatch(word.text)]
    target = operands[0] if len(operands) == 1 else None
    if target is not None and target.static and _PLAIN_FOLDER.match(target.text):
        return place.moved(target.text)
    if basename(words[0].text) == "cd" and not operands:
        return place.moved("~")
    return place.lose()


def with_input(word: Word) -> Word:
    """Mark a word into which a placeholder will be put."""
    if "{}" not in word.text:
        return word
    known = (Piece(each) for each in word.text.split("{}"))
    pieces = [part for each in known for part in (each, _FILLED)][:-1]
    return Word(word.text, dynamic=True, quoted=True, pieces=tuple(pieces))


def find_actions(argv: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Say where the commands of find begin, and where each of them ends.

    Example:
        >>> list(find_actions([Word(each) for each in "find . -exec rm {} ; -exec ls +".split()]))
        [(3, 5), (7, 9)]
    """
    at = 1
    while at < len(argv):
        if argv[at].text in _ACTIONS:
            begin = at + 1
            at = next((i for i in range(begin, len(argv)) if _ends_action(argv, i)), len(argv))
            yield begin, at
        at += 1


def _ends_action(argv: Sequence[Word], at: int) -> bool:
    """Tell whether an action of find ends here: at `;`, or at a `+` behind `{}`."""
    text = argv[at].text
    return text == ";" or (text == "+" and argv[at - 1].text == "{}")


def redirection_facts(
    redirection: Redirection, command: Command | None, place: Place
) -> Iterator[ShellFact]:
    """Say which file a redirection opens; copies of descriptors and here-documents open none."""
    operator, target = redirection.operator, redirection.target
    if operator in ("<<", "<<-", "<<<"):
        return
    if operator in ("<&", ">&") and target.static and _DESCRIPTOR.fullmatch(target.text):
        return
    if target.static and target.text == "/dev/null":
        return
    reads = operator in ("<", "<&")
    if _SOCKET.match(target.text):
        yield Unknown(reason=f"opens a network connection through {target.text}")
    elif target.static and (target.quoted or not re.match(r"~(?![/+])", target.text)):
        yield place.use(
            "read" if reads else "write",
            target.text,
            tilde=not target.quoted,
            guard=reads,
            command=command,
        )
    else:
        yield from _pattern(target, "read" if reads else "write", place)


def _pattern(target: Word, kind: Literal["read", "write"], place: Place) -> Iterator[ShellFact]:
    """Look for denials of the files that the target may stand for; others are asked about."""
    if target.number and target.text.startswith("<("):
        return
    if target.pattern and not target.dynamic:
        yield place.use(kind, target.text, tilde=not target.quoted, guard=True, stars="files")
    if kind == "write" or target.dynamic:
        yield Unknown(reason=f"{kind}s a file only known at run time: {target.text}")


# Characters that would let a command look like another one.

# Picks the coloured form of an emoji; it shows as part of it and hides nothing.
_HARMLESS = "\N{VARIATION SELECTOR-16}"
MAX_NAMED = 5


def hidden_characters(text: str) -> str:
    r"""Name the control, invisible and direction-changing characters of a text; empty if none.

    Example:
        >>> hidden_characters("ls \u202e.txt")
        'U+202E (RIGHT-TO-LEFT OVERRIDE)'
    """
    if text.isascii() and text.isprintable():
        return ""
    return _named(sorted(ch for ch in set(text) if ch != _HARMLESS and visible(ch) != ch))


def posing_words(facts: Iterable[ShellFact]) -> Iterator[Unknown]:
    """Find the programs, options, paths and hosts of commands that look like others in ASCII.

    Text in quotes is left alone, unless it is a path or a host, and so are words of a language.
    """
    for fact in facts:
        if isinstance(fact, Command) and not fact.text.isascii():
            for at, word in enumerate(fact.argv):
                if at == 0 or word.text.startswith("-"):
                    yield from posing(word.text.partition("=")[0])
                elif not word.quoted or ("/" in word.text and " " not in word.text):
                    yield from posing(word.text, sure=True)


def posing(text: str, *, sure: bool = False) -> Iterator[Unknown]:
    """Say which letters of a text make it look like another one in ASCII, if there are any."""
    if letters := lookalikes(text, sure=sure):
        why = f"{text} holds letters that look like those of ASCII: {_named(letters)}"
        yield Unknown(reason=why)


def _named(characters: Iterable[str]) -> str:
    return ", ".join(
        f"U+{ord(ch):04X} ({unicodedata.name(ch, 'a control character')})"
        for ch in list(characters)[:MAX_NAMED]
    )


MAX_LENGTH = 1 << 20  # no person can read more, and Linux takes no longer argument list
MAX_COMMANDS = 256  # that one command in a loop stands for
_STEERS = re.compile(r"(?:break|continue)(?: \d+)?")  # loops; no program runs
_MOVES = re.compile("cd|pushd|popd")
_SEVERAL_WORDS = re.compile(r"[\s*?\[]")  # or a pattern
_FOLDERS = frozenset({"CDPATH", "GLOBIGNORE", "HOME", "OLDPWD", "PWD"})


def analyse(command: str, place: Place) -> Sequence[ShellFact]:
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
) -> Sequence[ShellFact]:
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


def _gather(found: Iterator[ShellFact]) -> list[ShellFact]:
    facts: list[ShellFact] = []
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

    def facts(self, text: str, level: int = 0, guard: bool = False) -> Iterator[ShellFact]:
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

    def _once(self, node: SimpleCommand, level: int, guard: bool) -> Iterator[ShellFact]:
        """Say what a command does, if the same was not said of it in this place."""
        said = (self._commands.place, node, level, guard)  # a guard was not judged
        if said not in self._said:
            self._said.add(said)
            for each in _in_loops(node):
                yield from self.simple(each, level, guard)

    def simple(
        self, node: SimpleCommand, level: int = 0, guard: bool = False
    ) -> Iterator[ShellFact]:
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


def _main(facts: Sequence[ShellFact]) -> Command | None:
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
