"""What the parser finds in a command: redirections, simple commands, and what it can't tell.

The parser keeps no tree. Which of two branches runs can't be known beforehand, so what matters is
every simple command that *could* run, in the order of the text.
"""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from greenroom.permissions.facts.word import Word


class Assignment(NamedTuple):
    """A variable that is set: a statement of its own, a prefix of a command, or a loop's."""

    name: str
    value: Word

    @property
    def setting(self) -> str:
        """The same as "NAME=value"; empty if the value is not written out in it."""
        plain = self.value.static and "~" not in self.value.text
        return f"{self.name}={self.value.text}" if plain else ""


class Redirection(NamedTuple):
    """A descriptor opened on a file; of a here-document, `target` is its end or, later, its text."""

    operator: str
    target: Word

    @property
    def feeds(self) -> bool:
        """Whether it gives a command its input."""
        return self.operator.startswith("<")


class SimpleCommand(NamedTuple):
    """A program or builtin with its words, the variables set for it, and its redirections.

    A redirection of a compound command stands as a simple command without words.

    Attributes:
        words: the program and its words.
        assignments: variables set for it.
        redirections: of its descriptors.
        fed: its standard input is a pipe, a file or a text.
    """

    words: tuple[Word, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    fed: bool = False


class Unclear(NamedTuple):
    """Something whose effect can't be told; `change` marks what is understood but is no command.

    A `change` (a variable set, a function defined) may be covered by a rule for the whole tool;
    anything else is never allowed without asking.
    """

    reason: str
    change: bool = False


Finding: TypeAlias = SimpleCommand | Assignment | Unclear
"""Anything found; an assignment that stands alone is a loop's."""


@dataclass(frozen=True, slots=True)
class Script:
    """Everything found in one text.

    Attributes:
        found: in the order of the text.
        computes: arithmetic reads variables; see `arithmetic`.
    """

    found: tuple[Finding, ...]
    computes: bool = False
