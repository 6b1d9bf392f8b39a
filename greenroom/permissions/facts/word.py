"""Words of commands: what they say, and how much of it is certain."""

from typing import NamedTuple

__all__ = ["Opening", "Word", "basename"]


class Opening(NamedTuple):
    """What a word that is only known at run time may begin with, which may make it an option.

    Attributes:
        text: its beginning, as far as that is certain.
        names: variables whose values come next, or anywhere if the word may become several.
        printed: text that can't be told comes next, such as what a command prints.
        dash: behind variables, which may be empty, comes a dash.
        parts: all variables in it, wherever they stand.
        unsure: text that can't be told stands anywhere in it, or blanks before a dash may.
        whole: the word is the value of one variable, and nothing else.
        number: the word is a number, or several.
        glob: the word with a star for each part that can't be told.
    """

    text: str = ""
    names: tuple[str, ...] = ()
    printed: bool = False
    dash: bool = False
    parts: tuple[str, ...] = ()
    unsure: bool = False
    whole: bool = False
    number: bool = False
    glob: str = ""


class Word(NamedTuple):
    """One word of a command, after quote removal.

    Attributes:
        text: its text; what is only known at run time stands as it was written.
        dynamic: part of it is only known at run time.
        pattern: it holds unquoted characters that match file names.
        split: it is dynamic outside quotes, so it may become several words, or none.
        quoted: part of it was quoted, so it is no keyword and no tilde path.
        opening: what it begins with, if part of it is only known at run time.
    """

    text: str
    dynamic: bool = False
    pattern: bool = False
    split: bool = False
    quoted: bool = False
    opening: Opening | None = None

    @property
    def static(self) -> bool:
        """Whether the text is exactly what the program will be given."""
        return not (self.dynamic or self.pattern)

    @property
    def unknown(self) -> bool:
        """Whether part of it can't be known, and is more than a number."""
        return self.dynamic and not (self.opening is not None and self.opening.number)

    @property
    def shape(self) -> str:
        """Its text, with a zero for each part that can't be known."""
        opening = self.opening
        if opening is None:
            return self.text
        return opening.glob.replace("*", "\0") if opening.glob else f"{opening.text}\0"

    @property
    def may_be_option(self) -> bool:
        """Whether it may turn out to be an option, or to hold one."""
        if self.text.startswith(("<(", ">(")):
            return False  # the name of a file that the shell makes
        return self.unknown and (self.split or self.shape.startswith(("\0", "-")))


def basename(program: str) -> str:
    """Name a program without its folder; a long command asks this very often."""
    return program.rpartition("/")[2]
