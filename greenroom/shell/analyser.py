"""The analyser: takes a shell command apart into effects.

A word is known if the text alone says what it will be. What other words may turn out to be is not
guessed: wherever that matters, the command is asked about.

How it works
============

The parser finds every simple command that could run, wherever it is: after `&&` and `|`, in
branches, loops, functions and substitutions. Whether it really runs does not matter. Each is taken
apart in the order of the text (`Analyser.read_node`): the variables set for it, the command itself,
what it runs in turn, and its redirections.

What a command runs goes through the same steps, one level deeper: a text (`bash -c`, `eval`) in
`Analyser.read_text`, words (`timeout`, `xargs`, `find -exec`) in `Analyser.read_command`. Levels,
characters and words are bounded, so that the work is proportional to the length of the command;
what exceeds a bound is unknown.

Two things change on the way. The first is the place: after `cd src` a path may begin in src, or, if
the `cd` failed, where it began before. Either all of these are meant (`Place.move`), or the place
is unknown. The second is what words may do: once a variable is set, arithmetic that names it may
run what it holds.

Whatever is not understood becomes an `Unknown`, which only a person can allow. So a gap in here
costs a question, and lets nothing run without one.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

from greenroom.core import lookalikes, visible
from greenroom.shell.effects import (
    Change,
    Command,
    Place,
    ShellEffect,
    Unknown,
    list_redirection_effects,
)
from greenroom.shell.parser import parse
from greenroom.shell.programs import (
    RUNNERS,
    SHELLS,
    WRAPPERS,
    Invocation,
    find_actions,
    find_extent,
    find_inner_text,
    is_known,
    is_transparent,
    read_invocation,
)
from greenroom.shell.risks import (
    changes_programs,
    computes,
    concerns_variables,
    find_risks,
    is_display_setting,
    list_variable_effects,
    may_hold_code,
    redefines,
    sets,
)
from greenroom.shell.words import (
    Assignment,
    Piece,
    Script,
    SimpleCommand,
    Word,
    basename,
    join,
)

MAX_LENGTH = 1 << 20  # no person can read more, and Linux takes no longer argument list
MAX_COMMANDS = 256  # as many as one command in a loop may expand to
MAX_LEVEL = 12  # of commands inside commands
MAX_INNER_WORDS = 50_000  # words of all commands inside commands together
_STEERS = re.compile(r"(?:break|continue)(?: \d+)?")  # these steer loops and run no program
_MOVES = re.compile("cd|pushd|popd")
_SEVERAL_WORDS = re.compile(r"[\s*?\[]")  # or a pattern
# Variables that say where paths begin.
_FOLDER_VARIABLES = frozenset({"CDPATH", "GLOBIGNORE", "HOME", "OLDPWD", "PWD"})
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_FOLDER_CHANGES = frozenset({"cd", "pushd", "popd", "chdir"})
_FOLDER_OPTION = re.compile(r"-[LPe@]+|--")
_PLAIN_FOLDER = re.compile(r"[^-+~]|~/|~$")

_FROM_INPUT = Word("…", dynamic=True, split=True)
"""Stands for the words that come from the standard input."""

_PLACEHOLDER = Piece("{}", dynamic=True)


def list_effects(command: str, place: Place) -> Sequence[ShellEffect]:
    """List what a command would do, with an `Unknown` for what can't be determined; never raises.

    Example:
        >>> facts = list_effects("cd src && FOO=1 make > out", Place("/w", "/w"))
        >>> [str(fact) for fact in facts]
        ['cd src', 'sets the variable FOO', 'make', 'write out']
    """
    if len(command) > MAX_LENGTH:
        return (Unknown(reason=f"a command of {len(command)} characters", too_large=True),)
    facts = _gather(Analyser(place, len(command)).read_text(command))
    if hidden := name_hidden_characters(command):
        reason = f"the command holds characters that can't be seen: {hidden}"
        return [Unknown(reason=reason), *facts]
    return facts or (Unknown(reason="the command holds nothing to run"),)


def list_program_effects(
    argv: Sequence[str], environment: Iterable[tuple[str, str]], place: Place
) -> Sequence[ShellEffect]:
    """List what a program with these words would do, when no shell reads them.

    Example:
        >>> place = Place("/w", "/w")
        >>> facts = list_program_effects(["timeout", "5", "ls"], [("DEBUG", "1")], place)
        >>> [str(fact) for fact in facts]
        ['sets the variable DEBUG', 'timeout 5 ls', 'ls']
    """
    if not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        return (Unknown(reason="not a usable command"),)
    words = tuple(Word(word, quoted=True) for word in argv)
    assignments = tuple(Assignment(name, Word(value)) for name, value in environment)
    node = SimpleCommand(words, assignments)
    length = sum(len(word) for word in argv)
    return _gather(Analyser(place, length).read_node(node))


def _gather(found: Iterator[ShellEffect]) -> list[ShellEffect]:
    facts: list[ShellEffect] = []
    try:
        facts += found
    except RecursionError:  # the caller is deep in its own stack
        facts.append(Unknown(reason="the command is nested too deeply"))
    return [*facts, *dict.fromkeys(find_disguised_words(facts))]


class Analyser:
    """Lists the effects of what the parser found, in order; see "How it works" above."""

    def __init__(self, place: Place, length: int) -> None:
        """Start in a place; `length` limits how much text inside texts is read."""
        self.place = place  # it changes with each `cd`
        self._settings: tuple[str, ...] = ()  # the variables that are set for the command
        self._has_input = False  # whether the standard input is a pipe, a file or a text
        self._characters = 4 * length + 4096  # may still be read in texts inside texts
        self._inner_words = MAX_INNER_WORDS
        self._scripts: dict[str, Script] = {}  # texts inside texts are often the same
        self._computes = False
        self._holds_code = False
        self._written_names: set[str] = set()  # names of the files that the command writes
        self._seen_commands: set[tuple[Place, SimpleCommand, int, bool]] = set()

    def read_text(self, text: str, level: int = 0, guard: bool = False) -> Iterator[ShellEffect]:
        """Take a text apart; a text that its commands run comes back here, one level deeper."""
        self._characters -= len(text)
        if self._characters < 0:
            yield Unknown(reason="too much text inside texts")
            return
        script = self._scripts.get(text)
        if script is None:
            place = self.place
            splits = bool(_MOVES.search(text) or _SEVERAL_WORDS.search(place.folder))
            script = self._scripts[text] = parse(text, home=place.home, folder_splits=splits)
        for node in script.findings:
            if isinstance(node, SimpleCommand) and (node.redirections or len(node.words) > 1):
                self._written_names.update(_list_written_files(node))
        concerned = list(filter(concerns_variables, script.findings))
        # A text that a command runs sees the variables of the text around it.
        self._computes |= script.computes or any(map(computes, concerned))
        self._holds_code |= any(map(may_hold_code, concerned))
        if any(sets(node, _FOLDER_VARIABLES) for node in concerned):
            yield Unknown(reason="sets a variable that says where paths begin")
        for node in script.findings:
            if isinstance(node, SimpleCommand):
                yield from self._read_once(node, level, guard)
            elif isinstance(node, Assignment):
                if changes_programs(node.name):
                    yield Change(reason=f"sets the variable {node.name}")
                    yield from list_variable_effects(node)
            elif node.change:
                yield Change(reason=node.reason)
            else:
                yield Unknown(reason=node.reason)
        if self._computes and self._holds_code:
            yield Unknown(reason="computes with a variable whose value may run a command")

    def _read_once(self, node: SimpleCommand, level: int, guard: bool) -> Iterator[ShellEffect]:
        """List what a command does, unless the same one was listed before in the same place."""
        key = (self.place, node, level, guard)  # as a guard it would be judged differently
        if key not in self._seen_commands:
            self._seen_commands.add(key)
            for each in _expand_loops(node):
                yield from self.read_node(each, level, guard)

    def read_node(
        self, node: SimpleCommand, level: int = 0, guard: bool = False
    ) -> Iterator[ShellEffect]:
        """List what one simple command does."""
        if concerns_variables(node):
            if redefines(node):
                yield Unknown(
                    reason="changes what later words mean, or may run a command in a name"
                )
            yield from list_variable_effects(node)
        if self._written_names and self._may_run_written_file(node):
            yield Unknown(reason="runs a file that the same command writes")
        # Redirections are opened before the command can change the folder.
        place = self.place
        guard = guard or _STEERS.fullmatch(" ".join(word.text for word in node.words)) is not None
        self._has_input = node.has_input or (level > 0 and self._has_input)
        settings, around = _list_settings(node.assignments), self._settings
        self._settings = tuple(filter(None, settings.values()))
        facts = list(self.read_command(node.words, level=level, guard=guard))
        command = _find_main_command(facts)
        for name, setting in settings.items():
            yield Change(reason=f"sets the variable {name}", command=command, setting=setting)
        yield from facts
        for redirection in node.redirections:
            yield from list_redirection_effects(redirection, command, place)
        self._settings = around

    def _may_run_written_file(self, node: SimpleCommand) -> bool:
        names = [basename(word.text) for word in node.words]
        runs = names[1:] if names[:1] and names[0] in SHELLS | {".", "source"} else names[:1]
        return not self._written_names.isdisjoint(runs)

    def read_command(
        self,
        words: Sequence[Word],
        *,
        level: int = 0,
        guard: bool = False,
        outer: Command | None = None,
        start: int = 0,
    ) -> Iterator[ShellEffect]:
        """Take one command apart: itself first, then what it runs."""
        if not words:
            return
        program = words[0]
        if not program.static:
            yield from self._read_unknown_program(words, level)
            return
        self._inner_words -= level and len(words)
        if level >= MAX_LEVEL or self._inner_words < 0:
            yield Unknown(reason="too many commands inside commands")
            return
        invocation = read_invocation(words)
        found = find_risks(invocation)
        command = Command(
            argv=tuple(words),
            guard=guard or is_transparent(invocation),
            outer=outer,
            start=start,
            risks=found,
            loose=bool(found) or not is_known(invocation),
            place=self.place,
            settings=self._settings,
            extent="any" if found else find_extent(invocation),
            parts=invocation.parts,
            inner=invocation.inner,
        )
        yield command
        if basename(program.text) in _FOLDER_CHANGES:
            self.place = _change_folder(self.place, words)
        yield from self._read_inner(command, invocation, level, guard)

    def _read_unknown_program(self, words: Sequence[Word], level: int) -> Iterator[ShellEffect]:
        name = words[0].text
        yield Unknown(reason=f"the name of the command is only known at run time: {name}")
        # Such words may turn out to be empty, and then the next word is the command.
        gone = next((at for at, word in enumerate(words) if not word.split), len(words))
        if gone:
            yield from self.read_command(words[gone:], level=level + 1, guard=True)

    def _read_inner(
        self, command: Command, invocation: Invocation, level: int, guard: bool
    ) -> Iterator[ShellEffect]:
        """Take apart what a command runs: a text, or the program that its own words name."""
        name = basename(command.argv[0].text)
        text = find_inner_text(command.argv)
        if text is not None:
            yield from self._read_inner_text(text, command, level, guard)
        elif name in WRAPPERS:
            yield from self._read_wrapped_command(command, invocation, level, guard)
        elif name in RUNNERS and self._has_input:
            yield Unknown(reason=f"{name} may run what its standard input brings")
        elif name == "find":
            if any(command.argv[at].may_be_option for at, _ in command.risks):
                yield Unknown(reason="a word that is only known at run time may let find run it")
            for start, end in find_actions(command.argv):
                inner = tuple(_mark_placeholder(each) for each in command.argv[start:end])
                yield from self.read_command(
                    inner, level=level + 1, guard=guard, outer=command, start=start
                )

    def _read_wrapped_command(
        self, command: Command, invocation: Invocation, level: int, guard: bool
    ) -> Iterator[ShellEffect]:
        argv, kinds, start = command.argv, invocation.program.kinds, command.inner
        if start is None:
            if invocation.program.name != "command":
                yield Unknown(reason=f"an option of {argv[0].text} that is not understood")
            return
        while start < len(argv) and _ASSIGNMENT.match(argv[start].text):
            name, _, value = argv[start].text.partition("=")
            yield Change(reason=f"sets the variable {name}")
            yield from list_variable_effects(Assignment(name, argv[start]._replace(text=value)))
            start += 1
        inner = argv[start:]
        if inner and "fills" in kinds:
            inner = (*map(_mark_placeholder, inner), _FROM_INPUT)
        if "joins" in kinds:
            yield from self._read_inner_text(inner, command, level, guard)
        yield from self.read_command(
            inner, level=level + 1, guard=guard, outer=command, start=start
        )

    def _read_inner_text(
        self, text: Sequence[Word], command: Command, level: int, guard: bool
    ) -> Iterator[ShellEffect]:
        """Take apart the text that a command runs."""
        name = command.argv[0].text
        if not text:
            yield Unknown(reason=f"{name} runs a text that can't be seen here")
            return
        known = not any(word.dynamic for word in text)
        if not known:
            yield Unknown(reason=f"{name} runs a text that is only known at run time")
        joined = " ".join(word.text for word in text)
        yield from self.read_text(joined, level + 1, guard or not known)


def _list_written_files(node: SimpleCommand) -> Iterator[str]:
    """Name the files that a command says it writes, without their folders."""
    for each in node.redirections:
        if ">" in each.operator and not each.target.text.isdecimal():
            yield basename(each.target.text)
    if node.words and basename(node.words[0].text) == "tee":
        yield from (basename(word.text) for word in node.words[1:])


def _list_settings(assignments: Sequence[Assignment]) -> dict[str, str]:
    """Find the variables that are set, each with its setting, empty if its value is unknown."""
    found: dict[str, str] = {}
    for each in assignments:
        if not is_display_setting(each.setting):
            found[each.name] = "" if each.name in found else each.setting
    return found


def _find_main_command(facts: Sequence[ShellEffect]) -> Command | None:
    """Find the command that wrappers such as `timeout` lead to."""
    commands = [fact for fact in facts if isinstance(fact, Command)]
    return next((each for each in commands if not each.guard), next(iter(commands), None))


def _expand_loops(node: SimpleCommand) -> Iterator[SimpleCommand]:
    """Expand a command for each value of the loops around it, if the values are known."""
    words = (*node.words, *(each.target for each in node.redirections))
    choices = {p.name: p.choices for word in words for p in word.pieces if p.choices}
    if not choices or prod(map(len, choices.values())) > MAX_COMMANDS:
        yield node
        return
    for chosen in product(*choices.values()):
        values = dict(zip(choices, chosen, strict=True))
        yield node._replace(
            words=tuple(_fill(word, values) for word in node.words),
            redirections=tuple(
                each._replace(target=_fill(each.target, values)) for each in node.redirections
            ),
        )


def _fill(word: Word, values: dict[str, Piece]) -> Word:
    """Put the values of loops into a word."""
    if not any(piece.name in values for piece in word.pieces):
        return word
    return join([values.get(piece.name, piece) for piece in word.pieces])


def _change_folder(place: Place, words: Sequence[Word]) -> Place:
    """Return the place after a change of folder, which may or may not take effect."""
    operands = [word for word in words[1:] if not _FOLDER_OPTION.fullmatch(word.text)]
    target = operands[0] if len(operands) == 1 else None
    if target is not None and target.static and _PLAIN_FOLDER.match(target.text):
        return place.move(target.text)
    if basename(words[0].text) == "cd" and not operands:
        return place.move("~")
    return place.lose()


def _mark_placeholder(word: Word) -> Word:
    """Mark the placeholders in a word as unknown."""
    if "{}" not in word.text:
        return word
    known = (Piece(each) for each in word.text.split("{}"))
    pieces = [part for each in known for part in (each, _PLACEHOLDER)][:-1]
    return Word(word.text, dynamic=True, quoted=True, pieces=tuple(pieces))


# Characters that make a command look like another one.

# Picks the coloured form of an emoji; it is visible as part of it and hides nothing.
_HARMLESS = "\N{VARIATION SELECTOR-16}"
MAX_NAMED = 5


def name_hidden_characters(text: str) -> str:
    r"""Name the control, invisible and direction-changing characters in a text; empty if none.

    Example:
        >>> name_hidden_characters("ls \u202e.txt")
        'U+202E (RIGHT-TO-LEFT OVERRIDE)'
    """
    if text.isascii() and text.isprintable():
        return ""
    return _describe(sorted(ch for ch in set(text) if ch != _HARMLESS and visible(ch) != ch))


def find_disguised_words(facts: Iterable[ShellEffect]) -> Iterator[Unknown]:
    """Find programs, options, paths and hosts in commands that look like others in ASCII.

    Quoted text that is neither path nor host is left alone, and so are words of a real language.
    """
    for fact in facts:
        if isinstance(fact, Command) and not fact.text.isascii():
            for at, word in enumerate(fact.argv):
                if at == 0 or word.text.startswith("-"):
                    yield from find_lookalikes(word.text.partition("=")[0])
                elif not word.quoted or ("/" in word.text and " " not in word.text):
                    yield from find_lookalikes(word.text, sure=True)


def find_lookalikes(text: str, *, sure: bool = False) -> Iterator[Unknown]:
    """Report the letters that make a text look like another one in ASCII, if there are any."""
    if letters := lookalikes(text, sure=sure):
        names = _describe(letters)
        yield Unknown(reason=f"{text} holds letters that look like those of ASCII: {names}")


def _describe(characters: Iterable[str]) -> str:
    return ", ".join(
        f"U+{ord(ch):04X} ({unicodedata.name(ch, 'a control character')})"
        for ch in list(characters)[:MAX_NAMED]
    )
