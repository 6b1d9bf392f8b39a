"""Simple commands as facts: the program itself, and what it runs in turn."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, TypeAlias

from greenroom.permissions.facts.fact import Change, Command, Extent, Fact, Unknown
from greenroom.permissions.facts.place import Place
from greenroom.permissions.facts.word import Piece, Word, basename
from greenroom.permissions.shell.grammar.nodes import Assignment, Redirection
from greenroom.permissions.shell.programs.cautions import cautions
from greenroom.permissions.shell.programs.table import RUNNERS, WRAPPERS
from greenroom.permissions.shell.programs.usage import Usage, evaluated, extent, is_known, usage_of
from greenroom.permissions.shell.variables import run_values

MAX_LEVEL = 12
MAX_INNER_WORDS = 50_000  # of all commands inside commands together
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_FOLDER_CHANGES = frozenset({"cd", "pushd", "popd", "chdir"})
_FOLDER_OPTION = re.compile(r"-[LPe@]+|--")
_PLAIN_FOLDER = re.compile(r"[^-+~]|~/|~$")

TextReader: TypeAlias = Callable[[str, int, bool], Iterator[Fact]]

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
    ) -> Iterator[Fact]:
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

    def _unknown_program(self, words: Sequence[Word], level: int) -> Iterator[Fact]:
        name = words[0].text
        yield Unknown(reason=f"the name of the command is only known at run time: {name}")
        # Such words may turn out to be nothing, and then the next word is the command.
        gone = next((at for at, word in enumerate(words) if not word.split), len(words))
        if gone:
            yield from self.command(words[gone:], level=level + 1, guard=True)

    def _inner(self, command: Command, usage: Usage, level: int, guard: bool) -> Iterator[Fact]:
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

    def _wrapped(self, command: Command, usage: Usage, level: int, guard: bool) -> Iterator[Fact]:
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
    ) -> Iterator[Fact]:
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
) -> Iterator[Fact]:
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


def _pattern(target: Word, kind: Literal["read", "write"], place: Place) -> Iterator[Fact]:
    """Look for denials of the files that the target may stand for; others are asked about."""
    if target.number and target.text.startswith("<("):
        return
    if target.pattern and not target.dynamic:
        yield place.use(kind, target.text, tilde=not target.quoted, guard=True, stars="files")
    if kind == "write" or target.dynamic:
        yield Unknown(reason=f"{kind}s a file only known at run time: {target.text}")
