"""Programs that read some of their words as a command in text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.programs.table import letter_of
from greenroom.permissions.shell.programs.wrappers import SHELLS, WRAPPERS, inner_start

__all__ = ["TIMERS", "Evaluated", "evaluated"]

_OPTION_C = frozenset({"su", "script", "flock", "runuser", "sg", "newgrp", "tmux", "nix-shell"})
# Programs that read commands for later from their standard input.
TIMERS = frozenset({"at", "batch", "crontab"})
# Without a program they open a shell, with these options, behind those that take a value.
_OPENS_SHELL = {"sudo": ("si", "ugpCrtThDRUa"), "doas": ("s", "uC")}
_LISTS = re.compile(r"-[lrdcfV]")
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_ARGUMENTS = Word('"$@"')
_TEXT_NEXT = re.compile(r"-[A-Za-z]*c|--command")
_VALUED = frozenset({"--rcfile", "--init-file", "--command-fd"})


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A text that a program runs as commands.

    Attributes:
        words: the words that make up the text, joined by blanks.
        start: where they begin.
        stdin: the text comes from the standard input instead.
        arguments: the words behind the text are given to it as $0, $1 ….
    """

    words: tuple[Word, ...]
    start: int
    stdin: bool = False
    arguments: bool = False


def evaluated(argv: Sequence[Word]) -> Evaluated | None:
    """Find the text that a command runs as commands; None if it runs none."""
    name = basename(argv[0].text)
    if name == "eval":
        start = 2 if len(argv) > 1 and argv[1].text == "--" else 1
        return Evaluated(tuple(argv[start:]), start)
    if name in SHELLS:
        return _shell(argv)
    if name in (".", "source") and len(argv) > 1:
        return _file(argv, 1)
    if name == "trap" and len(argv) > 2:
        start = 2 if argv[1].text == "--" else 1
        return Evaluated((argv[start],), start)
    if name == "alias":
        texts = [Word(w.text.partition("=")[2], w.dynamic) for w in argv[1:] if "=" in w.text]
        return Evaluated(tuple(_separated(texts)), 1) if texts else None
    if name == "hash":
        return _remembered(argv)
    if name in TIMERS and not any(_LISTS.match(word.text) for word in argv):
        return Evaluated((), len(argv), stdin=True)
    if name == "env":
        return _split_string(argv)
    if name in _OPTION_C:
        return _option_c(argv)
    if name in _OPENS_SHELL and inner_start(argv, WRAPPERS[name]) == len(argv):
        opens = any(letter_of(word.text, *_OPENS_SHELL[name]) is not None for word in argv[1:])
        return Evaluated((), len(argv), stdin=True) if opens else None
    return None


def _separated(texts: Sequence[Word]) -> list[Word]:
    """Put each text on a line of its own, before the words that it will be given."""
    return [part for text in texts for part in (text, _ARGUMENTS, Word("\n"))]


def _remembered(argv: Sequence[Word]) -> Evaluated | None:
    """Find the program that `hash -p` lets a name stand for."""
    for at, word in enumerate(argv[1:], 1):
        place = letter_of(word.text, "p", "")
        if place is not None:
            attached = word.text[place + 1 :]
            path = (Word(attached, word.dynamic),) if attached else tuple(argv[at + 1 : at + 2])
            return Evaluated((*path, _ARGUMENTS), at) if path else None
    return None


def _shell(argv: Sequence[Word]) -> Evaluated | None:
    """Find the text of a shell: behind -c, else a script file, else the standard input.

    A plus begins options as well: `+c` is -c, and `+` alone is no operand.
    """
    at, letters = 1, ""
    while at < len(argv) and argv[at].text[:1] in ("-", "+") and argv[at].text:
        option = argv[at].text
        at += 1
        if argv[at - 1].dynamic:
            return Evaluated((), at, stdin=True)
        if option in ("-", "--"):
            break
        if option in _VALUED:
            at += 1
        elif not option.startswith("--"):
            letters += option[1:]
            at += sum(map(option.count, "oO"))
    if "c" in letters:
        return Evaluated(tuple(argv[at : at + 1]), at, arguments=True)
    return Evaluated((), at, stdin=True) if "s" in letters else _file(argv, at)


def _file(argv: Sequence[Word], at: int) -> Evaluated | None:
    """Look at the word that names a file of commands; without one it is the standard input.

    A file that is only known at run time may be the standard input as well.
    """
    if at >= len(argv) or argv[at].text in _STDIN or argv[at].dynamic:
        return Evaluated((), at, stdin=True)
    return None


def _split_string(argv: Sequence[Word]) -> Evaluated | None:
    for at, word in enumerate(argv[1:], 1):
        if word.text in ("-S", "--split-string") or (
            word.text.endswith("S") and word.text[0] == "-"
        ):
            return Evaluated(tuple(argv[at + 1 :]), at + 1)
        for mark in ("-S", "--split-string=", "-vS", "-iS"):
            if word.text.startswith(mark):
                rest = Word(word.text.removeprefix(mark), word.dynamic)
                return Evaluated((rest, *argv[at + 1 :]), at)
        if not word.text.startswith("-") and "=" not in word.text:
            return None
    return None


def _option_c(argv: Sequence[Word]) -> Evaluated | None:
    for at, word in enumerate(argv[1:], 1):
        if _TEXT_NEXT.fullmatch(word.text) and at + 1 < len(argv):
            return Evaluated((argv[at + 1],), at + 1)
        for mark in ("--command=", "-c"):
            if word.text.startswith(mark) and len(word.text) > len(mark):
                return Evaluated((Word(word.text.removeprefix(mark), word.dynamic),), at)
    return None
