"""Words of commands: what they say, and how much of it is known before the command runs."""

import re
from typing import NamedTuple

UNKNOWN = "\0"
"""What a `shape` has in place of a part that is not known; no word can hold it."""

_QUOTES = re.compile(r"[\"'\\]")
_ATTACHED = re.compile(r"(?<!\S)-c([\w./]+)")  # as in `su -c'rm x'`
_BETWEEN = re.compile(r"[\s;&|()<>`$={},!]+")


class Piece(NamedTuple):
    """Part of a word, as it was read.

    Attributes:
        text: its text; of a part that is only known at run time as it was written.
        quoted: it was quoted.
        dynamic: it is only known at run time.
        split: it is dynamic outside quotes, so it may become several words, or none.
        number: it is dynamic, and surely a number, or a descriptor as of `<(ls)`.
        name: it is the value of this variable, and nothing else.
        choices: the values that a loop over literals gives the variable.
    """

    text: str
    quoted: bool = True
    dynamic: bool = False
    split: bool = False
    number: bool = False
    name: str = ""
    choices: tuple["Piece", ...] = ()


class Word(NamedTuple):
    """One word of a command, after quote removal.

    Attributes:
        text: its text; what is only known at run time stands as it was written.
        dynamic: part of it is only known at run time.
        pattern: it holds unquoted characters that match file names.
        split: it is dynamic outside quotes, so it may become several words, or none.
        quoted: part of it was quoted, so it is no keyword and no tilde path.
        pieces: the parts of a dynamic word.
    """

    text: str
    dynamic: bool = False
    pattern: bool = False
    split: bool = False
    quoted: bool = False
    pieces: tuple[Piece, ...] = ()

    @property
    def static(self) -> bool:
        """Whether the text is exactly what the program will be given."""
        return not (self.dynamic or self.pattern)

    @property
    def number(self) -> bool:
        """Whether every part that is not known is surely a number, or a descriptor."""
        return bool(self.pieces) and all(not each.dynamic or each.number for each in self.pieces)

    @property
    def unknown(self) -> bool:
        """Whether part of it may be any text, or a number that makes another name of it."""
        if not self.dynamic:
            return False
        known = self.shape.replace(UNKNOWN, "")
        return not self.number or (known != "" and not known.startswith("-"))

    @property
    def shape(self) -> str:
        """The text, with `UNKNOWN` in place of each part that is not known."""
        if not self.dynamic:
            return self.text
        parts = (UNKNOWN if each.dynamic else each.text for each in self.pieces)
        return "".join(parts) or UNKNOWN

    @property
    def may_be_option(self) -> bool:
        """Whether it may turn out to be an option that its text does not show.

        Example:
            >>> text = Piece("$x", dynamic=True)
            >>> Word("--out=$x", dynamic=True, pieces=(Piece("--out="), text)).may_be_option
            False
            >>> Word("--o$x", dynamic=True, pieces=(Piece("--o"), text)).may_be_option
            True
        """
        if not self.dynamic:
            return False
        begins = self.shape.partition(UNKNOWN)[0]
        if self.number:  # as part of a name, such as `-fprint$((0))`
            return begins.startswith("-") and len(begins) > 2 and "=" not in begins
        return self.split or not begins or (begins.startswith("-") and "=" not in begins)


class Part(NamedTuple):
    """An option or an operand of a command.

    Attributes:
        at: which word it stands in.
        option: the option, without a value in the same word; empty for an operand.
        value: its value, or None.
        value_at: which word that stands in.
        ended: whether no options are read any more where it stands.
        marks: what the table of programs says of it.
    """

    at: int
    option: str = ""
    value: str | None = None
    value_at: int = 0
    ended: bool = False
    marks: str = ""


def basename(program: str) -> str:
    """Name a program without its folder; a long command asks this very often."""
    return program.rpartition("/")[2]


def words_of(text: str) -> tuple[str, ...]:
    """Split a text that may be run into words, whatever stands between them.

    Example:
        >>> words_of("ls;$(r'm' -rf x)")
        ('ls', 'rm', '-rf', 'x')
    """
    text = _ATTACHED.sub(r"-c\1 \1", _QUOTES.sub("", text))
    return tuple(word for word in _BETWEEN.split(text) if word)
