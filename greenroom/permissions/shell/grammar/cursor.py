"""A place in a shell text, and what is found while it moves on.

The parser is one object whose classes build on each other: `Cursor` (moving), `Expander` (what
stands behind `$`, a backtick or a quote), `WordReader`, `RedirectionReader`, `AssignmentReader`,
`CompoundReader` and `Parser`. Each fails closed: what it does not understand ends the reading, and
the text is asked about.
"""

import re
from dataclasses import dataclass, field
from typing import Self

from greenroom.permissions.facts.word import Piece
from greenroom.permissions.shell.grammar.nodes import Finding, Unclear

__all__ = ["MAX_DEPTH", "Cursor", "Findings", "ShellSyntaxError", "TooDeepError"]

# Python allows about a thousand frames; one level of nesting takes up to nine of them.
MAX_DEPTH = 40

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_BLANK_STARTS = frozenset(" \t\\#")
_COMMENT = re.compile(r"#[^\n]*")


class ShellSyntaxError(Exception):
    """The text is not in the part of the language that is understood."""


class NotASumError(ShellSyntaxError):
    """What looked like arithmetic surely is two parentheses."""


class TooDeepError(Exception):
    """Something is nested deeper than `MAX_DEPTH`."""


@dataclass(slots=True)
class Findings:
    """What was found so far, shared by the readers of one command and of the texts inside it.

    Attributes:
        nodes: in the order of the text.
        computes: arithmetic reads variables.
        failed_sums: how often `((` turned out not to be arithmetic.
        deferred: texts and places where the reading stopped because they lie too deep.
        given_up: texts and places where too much was not understood.
        unread: texts that are not taken apart.
        home: what `$HOME` is.
        folder_splits: whether `$PWD` outside of quotes may become several words.
        loops: the values of variables that the loops around this place go through.
        loops_read: how many loops there were.
    """

    nodes: list[Finding] = field(default_factory=list)
    computes: bool = False
    failed_sums: int = 0
    deferred: list[tuple[str, int]] = field(default_factory=list)
    given_up: list[tuple[str, int]] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    home: str = ""
    folder_splits: bool = True
    loops: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    loops_read: int = 0
    _separators: dict[str, int] = field(default_factory=dict)
    _line: tuple[str, int, int] = ("", 0, 1)

    def line(self, text: str, at: int) -> int:
        """Number the line of a place; what comes before is counted once if places only go on."""
        before, start, line = self._line
        if text != before or at < start:
            start, line = 0, 1
        line += text.count("\n", start, at)
        self._line = text, at, line
        return line

    def last_separator(self, text: str) -> int:
        """Find the last end of a command in a text, once, however often it is asked; or -1."""
        if text not in self._separators:
            self._separators[text] = max(map(text.rfind, "\n;&|"))
        return self._separators[text]


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

    def looking_at(self, text: str) -> bool:
        """Tell whether this text comes next."""
        return self.text.startswith(text, self.at)

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

    def expect(self, text: str) -> None:
        """Move over this text.

        Raises:
            ShellSyntaxError: something else comes next.
        """
        if not self.accept(text):
            raise ShellSyntaxError(f"expected {text!r} {self.here}")

    @property
    def here(self) -> str:
        """The place in words, for reasons."""
        line = self.findings.line(self.text, self.at)
        rest = self.text[self.at : self.at + 20].split("\n")[0]
        return f"in line {line} before {rest!r}" if rest else f"at the end of line {line}"

    def skip_blanks(self) -> None:
        """Move over blanks and continued lines, and over a comment."""
        if self.text[self.at : self.at + 1] in _BLANK_STARTS:
            self.take(_BLANKS)
            self.take(_COMMENT)

    def unclear(self, reason: str, *, change: bool = False) -> None:
        """Note something that can't be told, or a change that is no command."""
        note = Unclear(reason, change)
        nodes = self.findings.nodes
        if not nodes or nodes[-1] != note:
            nodes.append(note)

    def nested(self) -> Self:
        """Go one level deeper for the length of a `with` block.

        Raises:
            TooDeepError: it is one level too many.
        """
        if self.depth >= MAX_DEPTH:
            self.findings.deferred.append((self.text, self.at))
            raise TooDeepError
        self.depth += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Come back up, also from what could not be read."""
        self.depth -= 1
