"""The analyser: takes a shell command apart into effects.

How it works
============

A text is either plain or not (`greenroom.shell.reader`).

The simple commands of a plain text are taken apart in their order: the variables set for each, the
program, what that runs in turn, and its redirections (`_Analyser.read_command`). A program that
runs the command in its words, such as `timeout` or `find -exec`, goes through the same steps for
that command. Levels and words are bounded, so the work is proportional to the length of the text.

On the way, the current folder may change. `cd src && ls` lists `src`; after `cd src; ls`, either
folder is meant, since `cd` may fail. So each pipeline has two places behind it, for its success and
for its failure (`_Analyser.read_script`), and where these meet, all of their folders are judged.

A text that is not plain is an `Unknown`, which only a person can allow. What it seems to run is
listed as well, so that it can be denied. The same goes for a text that a plain command hands to a
shell, as `bash -c` does: that command is only allowed by its exact words.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from greenroom.core._internal import describe_hidden, describe_lookalikes, visible
from greenroom.programs._internal import (
    BUILTINS,
    SHELLS,
    VERBS,
    Invocation,
    basename,
    extract_words,
    find_actions,
    find_lead,
    find_reading,
    find_risks,
    is_display_setting,
    names_program,
    read_invocation,
)
from greenroom.shell.effects import (
    Change,
    Command,
    PathUse,
    Place,
    ShellEffect,
    Unknown,
    list_redirection_effects,
)
from greenroom.shell.expansion import list_names
from greenroom.shell.pieces import split_pieces
from greenroom.shell.reader import read
from greenroom.shell.script import NotPlainError, Script, SimpleCommand

MAX_LENGTH = 131_071  # characters; Linux takes no longer argument, so bash could not get it
MAX_LEVEL = 12  # of commands inside commands
MAX_INNER_WORDS = 50_000  # words of all commands inside commands together
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_FOLDER_CHANGES = frozenset({"cd", "pushd", "popd", "chdir"})
_PLAIN_FOLDER_OPTIONS = frozenset({"-L", "--"})
_NOT_PLAIN = "it runs as written, and no rule can allow it"
_UTF8 = re.compile("utf-?8", re.IGNORECASE)


class Analysis(NamedTuple):
    """What a command would do.

    Attributes:
        effects: its effects, in order.
        script: the command as it was read; None if it is not plain.
    """

    effects: tuple[ShellEffect, ...]
    script: Script | None = None


def analyse(command: str, place: Place) -> Analysis:
    """Find out what a command would do, with an `Unknown` for what can't be known; never raises.

    Example:
        >>> found = analyse("cd src && FOO=1 make > out", Place("/w", "/w"))
        >>> [str(effect) for effect in found.effects]
        ['cd src', 'sets the variable FOO', 'make', 'write out']
        >>> analyse("ls $x", Place("/w", "/w")).script is None
        True
    """
    if len(command) > MAX_LENGTH:
        too_long = Unknown(reason=f"a command of {len(command)} characters", too_large=True)
        return Analysis((too_long,))
    analyser = _Analyser(place, command)
    if hidden := describe_hidden(command):
        found = Unknown(reason=f"the command holds {hidden}")
        return Analysis(_finish([found, *analyser.read_pieces(command)]))
    try:
        _check_locale(command, place)
        script = read(command, home=place.home, folder=place.folder, list_names=analyser.list_names)
    except NotPlainError as error:
        reason = f"not plain: {error.reason} at {error.at}: {_NOT_PLAIN}"
        found = Unknown(reason=reason, text=command)
        return Analysis(_finish([found, *analyser.read_pieces(command)]))
    return Analysis(_finish(analyser.read_script(script)), script)


def list_program_effects(
    argv: Sequence[str], environment: Iterable[tuple[str, str]], place: Place
) -> tuple[ShellEffect, ...]:
    """List what a program with these words would do, when no shell reads them.

    Example:
        >>> place = Place("/w", "/w")
        >>> facts = list_program_effects(["timeout", "5", "ls"], [("DEBUG", "1")], place)
        >>> [str(fact) for fact in facts]
        ['sets the variable DEBUG', 'timeout 5 ls', 'ls']
    """
    if not argv or not all(isinstance(word, str) and "\0" not in word for word in argv):
        return (Unknown(reason="not a usable command"),)
    command = SimpleCommand(tuple(argv), tuple(environment))
    facts = list(_Analyser(place).read_simple(command, -1, place))
    if hidden := describe_hidden(" ".join(argv)):
        facts.append(Unknown(reason=f"the command holds {hidden}"))
    return _finish(facts)


def _finish(found: Iterable[ShellEffect]) -> tuple[ShellEffect, ...]:
    facts = list(found)
    return (*facts, *dict.fromkeys(find_lookalikes(facts)))


def _check_locale(command: str, place: Place) -> None:
    """Check that bash reads the same characters as we do.

    Raises:
        NotPlainError: it may not.
    """
    if not command.isascii():
        names = ("LC_ALL", "LC_CTYPE", "LANG")
        locale = next(filter(None, map(place.environment.get, names)), "")
        if not _UTF8.search(locale):
            at = next(at for at, char in enumerate(command) if not char.isascii())
            raise NotPlainError(f"{command[at]}, in a locale that is not UTF-8", at)


class _Analyser:
    """Lists the effects of one text, in order; see "How it works" above."""

    def __init__(self, place: Place, text: str = "") -> None:
        self._start = place
        self._place = place  # of the command that is read
        self._number = -1  # of the simple command that is read
        self._piece_level: int | None = None  # of the text whose piece is read, if it is one
        self._may_create = False  # whether a program may have been made by now
        self._has_input = False  # whether the standard input is a pipe, a file or a text
        self._text = text
        self._inner_words = MAX_INNER_WORDS
        self._listed: dict[str, None] = {}  # beginnings of patterns, whose folders are listed
        self._checked = 0  # commands before a pattern that are known to only read
        self._written_names: set[str] = set()  # names of the files that the text writes

    def list_names(self, pattern: str, earlier: Sequence[SimpleCommand]) -> Sequence[str]:
        """List the files that a pattern matches, if they are still the same when it runs.

        Raises:
            NotPlainError: a command before it may change files or the folder; or there are too
                many files.
        """
        for command in earlier[self._checked :]:
            if not _only_reads(command):
                raise NotPlainError(f"a pattern after another command, {visible(pattern)}", 0)
        self._checked = len(earlier)
        if not os.path.isdir(self._place.folder):
            raise NotPlainError(f"a pattern in a folder that is missing, {visible(pattern)}", 0)
        self._listed[pattern.partition("*")[0].partition("?")[0].partition("[")[0]] = None
        return list_names(pattern, self._place.folder, self._place.lookup)

    def read_script(self, script: Script) -> Iterator[ShellEffect]:
        """Take a plain text apart, and follow its changes of the folder."""
        for beginning in self._listed:
            folder = beginning.rpartition("/")
            yield from self._start.guard(folder[0] or folder[1] or ".")
        for pipeline in script:
            for command in pipeline.commands:
                self._written_names.update(_list_written_files(command))
        number, last, keeps_input = 0, script[-1].commands[-1], False
        success = failure = self._start
        for pipeline in script:
            operator, alone = pipeline.operator, len(pipeline.commands) == 1
            start = {"&&": success, "||": failure}.get(operator) or success.join(failure)
            for at, command in enumerate(pipeline.commands):
                is_fed = any(
                    each.descriptor == 0 and each.operator != ">&" for each in command.redirections
                )
                self._has_input = at > 0 or is_fed or keeps_input
                keeps_input |= is_fed and "exec" in command.words
                yield from self.read_simple(command, number, start)
                if command is not last and not self._may_create:
                    self._may_create = not _only_reads(command)
                number += 1
            moved = self._place if alone else start  # each part of a pipe has its own folder
            done, failed = (start, moved) if pipeline.inverted else (moved, start)
            if operator == "&&":
                success, failure = done, failure.join(failed)
            elif operator == "||":
                success, failure = success.join(done), failed
            else:
                success, failure = done, failed

    def read_simple(
        self, command: SimpleCommand, number: int, place: Place
    ) -> Iterator[ShellEffect]:
        """List what one simple command does; the place behind it is that of its success."""
        self._place, self._number = place, number
        if self._runs_written_file(command):
            yield Unknown(reason="runs a file that the same command writes")
        settings = _list_settings(command)
        for name, value in command.settings:
            yield from self._read_value(name, value)
        given = tuple(filter(None, settings.values()))
        facts = list(self.read_command(command.words, settings=given))
        commands = [fact for fact in facts if isinstance(fact, Command)]
        # The command that wrappers such as `timeout` lead to.
        main = next((each for each in commands if not each.guard), next(iter(commands), None))
        for name, setting in settings.items():
            yield Change(reason=f"sets the variable {name}", command=main, setting=setting)
        yield from facts
        yield from list_redirection_effects(command.redirections, main, place)
        self._place = _change_folder(place, command, commands)

    def _read_settings(self, settings: Iterable[tuple[str, str]]) -> Iterator[ShellEffect]:
        """List what is set in another way than before a command, so that it can be denied."""
        for name, value in settings:
            yield Change(reason=f"sets the variable {name}", setting=f"{name}={value}", guard=True)
            yield from self._read_value(name, value)

    def _read_value(self, name: str, value: str) -> Iterator[ShellEffect]:
        """List what programs may run because of a variable."""
        words = extract_words(value) if names_program(name) else ()
        if words:
            unknown = Invocation(words)
            yield Command(argv=words, guard=True, loose=True, place=self._place, invocation=unknown)

    def _runs_written_file(self, command: SimpleCommand) -> bool:
        names = [basename(word) for word in command.words]
        runs = names[1:] if names[:1] and names[0] in SHELLS | {".", "source"} else names[:1]
        return not self._written_names.isdisjoint(runs)

    def read_command(
        self,
        words: tuple[str, ...],
        *,
        settings: tuple[str, ...] = (),
        level: int = 0,
        outer: Command | None = None,
        start: int = 0,
        takes_input: bool = False,
    ) -> Iterator[ShellEffect]:
        """Take one command apart: itself first, then what it runs."""
        if not words or not words[0]:
            return
        if self._is_too_deep(words, level):
            yield Unknown(reason="too many commands inside commands")
            return
        invocation = read_invocation(words)
        risks = self._find_risks(invocation)
        is_piece = self._piece_level is not None
        command = Command(
            argv=words,
            guard=is_piece or invocation.is_transparent,
            perhaps=self._piece_level == 0,
            outer=outer,
            start=start,
            number=-1 if is_piece else self._number,
            file=self._find_file(words[0], outer),
            risks=risks,
            loose=bool(risks) or not invocation.is_known or invocation.takes_commands,
            fed=self._text if self._has_input else "",
            takes_input=takes_input,
            place=self._place,
            settings=outer.settings if outer else settings,
            invocation=invocation,
        )
        yield command
        for text in invocation.texts:
            yield from self.read_pieces(text, level + 1)
        yield from self._read_inner(command, invocation, level)

    def _is_too_deep(self, words: Sequence[str], level: int) -> bool:
        self._inner_words -= level and len(words)
        return level >= MAX_LEVEL or self._inner_words < 0

    def _read_inner(
        self, command: Command, invocation: Invocation, level: int
    ) -> Iterator[ShellEffect]:
        """Read what a command sets and runs: commands from its input, other commands."""
        words, name = command.argv, invocation.name
        if words[0] in VERBS["setters"]:
            named = (word.partition("=") for word in words[1:])
            yield from self._read_settings((name, value) for name, _, value in named)
        if (self._has_input or name in SHELLS) and invocation.reads_commands:
            why = f"{words[0]} may run what its standard input brings"
            yield Unknown(reason=why, text=command.text)
        if invocation.wraps:
            yield from self._read_wrapped(command, invocation, level)
        elif name == "find":
            for begin, end in find_actions(words):
                inner = words[begin:end]
                yield from self.read_command(
                    inner, level=level + 1, outer=command, start=begin, takes_input=True
                )

    def _find_risks(self, invocation: Invocation) -> tuple[tuple[int, str], ...]:
        """Find the risks of a command; an absolute path inside the folder is as good as any."""
        words = invocation.argv
        if invocation.texts:
            why = f"{words[0]} runs a text, so only a rule for these exact words allows it"
            return tuple((at, why) for at in range(1, len(words)))
        here = self._place.folder
        inside = (f"{here}/", f"{here}:")
        near = [
            f".{word.removeprefix(here)}" if f"{word}/".startswith(inside) else word
            for word in words
        ]
        return (*find_risks(read_invocation(near)), *_find_risks_behind(words))

    def _find_file(self, name: str, outer: Command | None) -> str | None:
        """Find the file of a program; "" where the shell or the name itself says what runs."""
        by_shell = outer is None or outer.lets_shell_run
        if "/" in name or (by_shell and name in BUILTINS):
            return ""
        found = self._place.find_program(name)
        # One that is missing fails when it runs, unless it is made before.
        return found or (None if self._may_create else "")

    def _read_wrapped(
        self, command: Command, invocation: Invocation, level: int
    ) -> Iterator[ShellEffect]:
        argv, kinds, begin = command.argv, invocation.program.kinds, invocation.inner
        if begin is None:
            if invocation.program.name != "command":
                yield Unknown(reason=f"an option of {argv[0]} that is not understood")
            return
        while begin < len(argv) and _ASSIGNMENT.match(argv[begin]):
            name, _, value = argv[begin].partition("=")
            yield Change(reason=f"sets the variable {name}")
            yield from self._read_settings([(name, value)])
            begin += 1
        inner, takes_input = argv[begin:], command.takes_input or "fills" in kinds
        yield from self.read_command(
            inner, level=level + 1, outer=command, start=begin, takes_input=takes_input
        )

    def read_pieces(self, text: str, level: int = 0) -> Iterator[ShellEffect]:
        """List what a text that is not plain seems to do, for denials."""
        place = self._place.lose() if level == 0 and "cd" in text else self._place
        around, self._piece_level = self._piece_level, level
        for piece in split_pieces(text, home=place.home, folder=place.folder):
            yield from self._read_settings(piece.settings)
            yield from self.read_command(piece.words, level=level)
            for _, sign, target in piece.redirections:
                yield from place.guard(target, kind="read" if sign == "<" else "write")
        self._piece_level = around


def _list_settings(command: SimpleCommand) -> dict[str, str]:
    """Find the variables that matter, each with its setting; empty for one that is set twice."""
    found: dict[str, str] = {}
    for name, value in command.settings:
        setting = f"{name}={value}"
        if not is_display_setting(setting):
            found[name] = "" if name in found else setting
    return found


def _find_risks_behind(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Find the risks of a program that another one runs in the project's environment."""
    if lead := find_lead(words):
        for at, why in find_risks(read_invocation(words[lead:])):
            yield lead + at, why


def _only_reads(command: SimpleCommand) -> bool:
    """Return whether a command changes neither files nor the current folder."""
    if any(_list_written_files(command)):
        return False
    words = command.words
    changes_folder = words and words[0] in _FOLDER_CHANGES
    return not words or (not changes_folder and find_reading(read_invocation(words)) is not None)


def _list_written_files(command: SimpleCommand) -> Iterator[str]:
    """Name the files that a command says it writes, without their folders."""
    for _, operator, target in command.redirections:
        if operator in (">", ">>") and target != "/dev/null":
            yield basename(target)
    if command.words and basename(command.words[0]) == "tee":
        yield from map(basename, command.words[1:])


def _change_folder(place: Place, command: SimpleCommand, commands: Iterable[Command]) -> Place:
    """Return the place after a command has succeeded."""
    words = command.words
    if not any(each.invocation.name in _FOLDER_CHANGES for each in commands):
        return place
    operands = [word for word in words[1:] if word not in _PLAIN_FOLDER_OPTIONS]
    is_plain = words[0] == "cd" and len(operands) < 2 and not command.settings
    if not is_plain or "".join(operands).startswith("-"):
        return place.lose()
    return place.move(operands[0] if operands else place.home)


# Characters that make a command look like another one.

# With a dash of any kind but those that begin a line of speech.
_OPTION = re.compile("[\u2010-\u2013\u2043\u2212\ufe58\ufe63\uff0d-]+[-A-Za-z][^\\s=]*")


def find_lookalikes(facts: Iterable[ShellEffect]) -> Iterator[Unknown]:
    """Find programs, options, files and hosts in commands that look like others in ASCII.

    A text with spaces is left alone, but not an option before them, and so are words of a real
    language.
    """
    for fact in facts:
        if isinstance(fact, PathUse):
            yield from _report(fact.text, describe_lookalikes(fact.text, sure=True))
        elif isinstance(fact, Command) and not fact.text.isascii():
            for at, word in enumerate(dict.fromkeys(fact.argv)):
                option = _OPTION.match(word)
                if at == 0 or word.startswith("-"):
                    name = word.partition("=")[0]
                    yield from _report(name, describe_lookalikes(name))
                elif option or " " not in word:
                    name = option[0] if option else word
                    yield from _report(name, describe_lookalikes(name, sure=True))


def find_disguises(text: str, *, sure: bool = False) -> Iterator[Unknown]:
    """Report the characters that hide in a path or host, or that make it look like another one."""
    yield from _report(text, describe_hidden(text) or describe_lookalikes(text, sure=sure))


def _report(text: str, found: str) -> Iterator[Unknown]:
    if found:
        yield Unknown(reason=f"{text} holds {found}")
