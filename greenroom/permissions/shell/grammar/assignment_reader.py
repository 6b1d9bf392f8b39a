"""Assignments, those to arrays among them."""

import re

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.grammar.nodes import Assignment
from greenroom.permissions.shell.grammar.redirection_reader import RedirectionReader

__all__ = ["AssignmentReader"]

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\+?=|\[)")


class AssignmentReader(RedirectionReader):
    """Reads assignments."""

    def assignment(self) -> Assignment | None:
        """Read one assignment; None if none begins here."""
        found = _ASSIGNMENT.match(self.text, self.at)
        if found is None:
            return None
        if found[0].endswith("["):
            return self._subscript()
        self.at = found.end()
        if self.accept("("):
            self._array(found[1])
            return Assignment(found[1], Word("(…)", dynamic=True))
        value = self.word() or Word("")
        if "+" in found[0]:
            value = Word(f"${{{found[1]}}}{value.text}", dynamic=True)
        return Assignment(found[1], value)

    def _subscript(self) -> Assignment | None:
        """Refuse `a[…]=…`, whose subscript is evaluated; other words with a bracket are words."""
        start = self.at
        word = self.word()
        if word is not None and "]=" not in word.text and "]+=" not in word.text:
            self.at = start
            return None
        self.unclear("sets an element of an array")
        return Assignment(self.text[start : self.text.find("[", start)], Word("", dynamic=True))

    def _array(self, name: str) -> None:
        self.unclear(f"sets the array {name}")
        self.skip_lines()
        while self.words() is not None:
            self.skip_lines()
        self.expect(")")
