"""A place in a shell text, and what is found while it moves on.

The parser is one object whose classes build on each other: `Cursor` (moving), `WordReader` (words with
their quotes and expansions), `SimpleReader` (simple commands) and `Parser` (everything that holds
commands). Each fails closed: what it does not understand ends the reading, and the text is asked about.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from greenroom.permissions.facts.word import Piece
from greenroom.permissions.shell.grammar.known import find_assigned
from greenroom.permissions.shell.grammar.nodes import Finding, Unclear

# Python allows about a thousand frames; one level of nesting takes up to nine of them.
MAX_DEPTH = 40

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_BLANK_STARTS = frozenset(" \t\\#")
_COMMENT = re.compile(r"#[^\n]*")


class ShellSyntaxError(Exception):
    """The text is not in the part of the language that is understood."""


_REDEFINES = re.compile(r"\(\s*\)|\b(?:function|alias|eval|source)\b|(?:^|[\s;&|({])\.\s")


@dataclass
class Findings:
    """What was found so far, shared by the readers of one command and of the texts inside it.

    Attributes:
        command: the whole text.
        folder_splits: whether `$PWD` outside of quotes may become several words.
        values: those of `$HOME`, and of the variables that the loops around this place go through.
        nodes: in the order of the text.
        computes: arithmetic reads variables.
    """

    command: str
    folder_splits: bool
    values: dict[str, tuple[Piece, ...]]
    nodes: list[Finding] = field(default_factory=list)
    computes: bool = False

    @cached_property
    def assigned(self) -> frozenset[str] | None:
        """The variables that the command may set by other ways than a loop; None for any."""
        return find_assigned(self.command)

    @cached_property
    def redefines(self) -> bool:
        """Whether a program such as `pwd` may be another one in the command."""
        return _REDEFINES.search(self.command) is not None


class Cursor:
    """A text, a place in it, and what was found so far."""

    def __init__(self, text: str, at: int = 0, *, findings: Findings, depth: int = 0) -> None:
        """Begin at a place; what is found is added to `findings`."""
        self.text = text
        self.at = at
        self.depth = depth
        self.findings = findings

    def peek(self, length: int = 1) -> str:
        """Return the next characters; fewer at the end."""
        return self.text[self.at : self.at + length]

    def take(self, pattern: re.Pattern[str]) -> str:
        """Move over what a pattern matches here, and return it."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def accept(self, text: str) -> bool:
        """Move over this text if it comes next."""
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def error(self, reason: str) -> ShellSyntaxError:
        """Make an error that names this place."""
        rest = self.peek(20).split("\n")[0]
        return ShellSyntaxError(f"{reason} {f'before {rest!r}' if rest else 'at the end'}")

    def skip_blanks(self) -> None:
        """Move over blanks and continued lines, and over a comment."""
        if self.peek() in _BLANK_STARTS:
            self.take(_BLANKS)
            self.take(_COMMENT)

    def unclear(self, reason: str, *, change: bool = False) -> None:
        """Note something that can't be told, or a change that is no command."""
        self.findings.nodes.append(Unclear(reason, change))

    def apart(self, text: str) -> Self:
        """Begin to read another text, with the same findings."""
        return type(self)(text, findings=self.findings, depth=self.depth)

    def nested(self) -> Self:
        """Go one level deeper for the length of a `with` block.

        Raises:
            ShellSyntaxError: it is one level too many.
        """
        if self.depth >= MAX_DEPTH:
            raise self.error("nested too deeply")
        self.depth += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Come back up."""
        self.depth -= 1
