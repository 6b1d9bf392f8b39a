"""A command as its program understands it: its options, its operands, and the command inside it."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from greenroom.permissions.facts.word import Part, Word, basename
from greenroom.permissions.shell.programs.table import PROGRAMS, SHELLS, Program

__all__ = ["Usage", "is_known", "usage_of"]

_UNKNOWN = Program("")
_VALUED = re.compile("[=@?]")
_UNDERSTOOD = re.compile("[=&]")
# Options of git before its verb with a value in the next word.
_GIT_VALUED = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env"})


class Usage(NamedTuple):
    """A command as its program understands it.

    Attributes:
        argv: its words.
        program: what is known of the program.
        start: the word that its options follow: the program, or the verb of git.
        parts: its options and operands; none where nothing is known of the program.
    """

    argv: Sequence[Word]
    program: Program
    start: int
    parts: tuple[Part, ...]

    @property
    def inner(self) -> int | None:
        """The word that begins the command which a wrapper runs; None if it can't be told."""
        kinds = self.program.kinds
        before = 0 if "wraps" in kinds else 1 if "wraps2" in kinds else None
        options = [part for part in self.parts if part.option]
        if before is None or not all(_UNDERSTOOD.search(part.marks) for part in options):
            return None
        operands = [part.at for part in self.parts if not part.option]
        start = operands[before] if len(operands) > before else len(self.argv)
        return start if all(word.static for word in self.argv[:start]) else None


def usage_of(argv: Sequence[Word]) -> Usage:
    """Take a command apart as its program does.

    Example:
        >>> words = [Word(each) for each in "sort -nk 2 --reverse -- -o".split()]
        >>> for part in usage_of(words).parts:
        ...     print(part.at, part.option, part.value)
        1 -n None
        1 -k 2
        3 --reverse None
        5  None
    """
    program, start = _program_of(argv)
    is_known = program.options or program.kinds
    return Usage(argv, program, start, tuple(_parts(argv, program, start)) if is_known else ())


def _program_of(argv: Sequence[Word]) -> tuple[Program, int]:
    program = PROGRAMS.get(basename(argv[0].text), _UNKNOWN)
    if program.name != "git":
        return program, 0
    for at in range(1, len(argv)):
        if argv[at].text[:1] != "-" and argv[at - 1].text not in _GIT_VALUED:
            return PROGRAMS.get(f"git {argv[at].text}", program), at
    return program, len(argv)


def is_known(program: Word) -> bool:
    """Tell whether it is known what the program does with its words, so that they are only words."""
    name = basename(program.text)
    known = PROGRAMS.get(name)
    return name in SHELLS or (known is not None and not known.is_("runs"))


def _parts(argv: Sequence[Word], program: Program, start: int) -> Iterator[Part]:
    at, operands, ended = start + 1, 0, False
    stop = int(program.options.get("^", 0))  # so many operands end the options
    while at < len(argv):
        text = argv[at].text
        if ended or len(text) < 2 or text[0] != "-":
            operands += 1
            yield Part(at, ended=ended, marks="" if ended else program.marks(text))
            ended = ended or operands == stop
        elif text == "--" and program.name != "find":  # which takes actions behind it
            ended = True
        else:
            following = argv[at + 1].text if at + 1 < len(argv) else None
            found = tuple(_options(at, text, following, program))
            yield from found
            at += any(part.value_at > at for part in found)
        at += 1


def _options(at: int, text: str, following: str | None, program: Program) -> Iterator[Part]:
    """Find the options in a word: a long one, or a cluster of short ones."""
    name, attached, value = text.partition("=")
    if text.startswith("--") or (len(name) > 2 and name in program.options):
        marks = program.marks(name)
        if attached:
            yield Part(at, name, value, at, marks=marks)
        elif following is not None and _VALUED.search(marks):
            yield Part(at, name, following, at + 1, marks=marks)
        else:
            yield Part(at, name, marks=marks)
        return
    for place in range(1, len(text)):
        option, rest = f"-{text[place]}", text[place + 1 :]
        marks = program.marks(option)
        if _VALUED.search(marks):
            apart = not rest and following is not None
            yield Part(at, option, following if apart else rest, at + apart, marks=marks)
            return
        yield Part(at, option, marks=marks)
        if "!" in marks or "%" in marks:
            return
