"""Programs that read some of their words as a command in text."""

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.programs.table import SHELLS

__all__ = ["Evaluated", "evaluated"]

_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_VALUED = frozenset({"--rcfile", "--init-file", "--command-fd"})


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A text that a program runs as commands.

    Attributes:
        words: the words that make up the text, joined by blanks.
        stdin: the text comes from the standard input instead.
    """

    words: tuple[Word, ...] = ()
    stdin: bool = False


def evaluated(argv: Sequence[Word]) -> Evaluated | None:
    """Find the text that a command runs as commands; None if it runs none."""
    name = basename(argv[0].text)
    if name == "eval":
        return Evaluated(tuple(argv[1 + (len(argv) > 1 and argv[1].text == "--") :]))
    if name in SHELLS:
        return _shell(argv)
    if name in (".", "source") and len(argv) > 1:
        return _file(argv, 1)
    if name == "trap" and len(argv) > 2:
        return Evaluated((argv[1 + (argv[1].text == "--")],))
    return None


def _shell(argv: Sequence[Word]) -> Evaluated | None:
    """Find the text of a shell: behind -c, else a script file, else the standard input.

    A plus begins options as well: `+c` is -c, and `+` alone is an option, too.
    """
    at, letters = 1, ""
    while at < len(argv) and argv[at].text[:1] in ("-", "+") and argv[at].text:
        option = argv[at].text
        at += 1
        if argv[at - 1].dynamic:
            return Evaluated(stdin=True)
        if option in ("-", "--"):
            break
        if option in _VALUED:
            at += 1
        elif not option.startswith("--"):
            letters += option[1:]
            at += sum(map(option.count, "oO"))
    if "O" in letters:  # which changes what patterns stand for
        return Evaluated(stdin=True)
    if "c" in letters:
        return Evaluated(tuple(argv[at : at + 1]))
    return Evaluated(stdin=True) if "s" in letters else _file(argv, at)


def _file(argv: Sequence[Word], at: int) -> Evaluated | None:
    """Look at the word that names a file of commands; without one it is the standard input.

    A file that is only known at run time may be the standard input as well.
    """
    is_stdin = at >= len(argv) or argv[at].text in _STDIN or argv[at].dynamic
    return Evaluated(stdin=True) if is_stdin else None
