"""Which options the variables of a command may hold, as far as its text sets them.

A variable that the text does not set has the value of the environment, which is no concern here.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.grammar.nodes import Assignment, Finding, SimpleCommand
from greenroom.permissions.shell.grammar.output import Output
from greenroom.permissions.shell.variables.assignments import declares, reads_into

__all__ = ["Bindings"]

MAX_FOLLOWED = 64  # variables that one names through others; one that names more may hold any
MAX_OPTIONS = 16  # of one variable; one that may hold more may hold any
_NAME = re.compile(r"[A-Za-z_]\w*")
_HIDDEN = re.compile(r"\s-|/-|\s$|^$")  # an option behind a blank, or behind the last slash


class Bindings:
    """What loops, assignments and builtins may put into variables, arguments (`@`) included."""

    def __init__(self) -> None:
        """Begin with nothing set."""
        self._values: dict[str, list[Word]] = {}
        self._any: set[str] = set()  # variables that may hold any text
        self._all = False  # whether every variable may
        self.version = 0  # how often something was taken up
        self._options: dict[str, frozenset[str] | None] = {}

    def note(self, found: Iterable[Finding]) -> None:
        """Take up what a text sets."""
        self._options.clear()
        self.version += 1
        for node in found:
            if isinstance(node, Assignment):
                self._set(node.name, node.value)
            elif isinstance(node, SimpleCommand):
                self._note_command(node)

    def arguments(self, words: Sequence[Word]) -> None:
        """Take up words that a text is given as `$0`, `$1` …."""
        self._options.clear()
        self.version += 1
        for word in words:
            self._set("@", word)

    def _set(self, name: str, value: Word) -> None:
        self._values.setdefault(name, []).append(value)

    def _note_command(self, node: SimpleCommand) -> None:
        for assignment in node.assignments:
            self._set(assignment.name, assignment.value)
        if reads_into(node) and node.source is Output.TEXT:
            self._any |= {name for word in node.words for name in _NAME.findall(word.text)}
            self._all |= any(word.dynamic for word in node.words)
        elif reads_into(node):
            for word in node.words:
                self._set(word.text, Word("…"))
        elif declares(node):
            self._note_printed(node.words)
            for word in node.words[1:]:
                name, equals, value = word.text.partition("=")
                if word.dynamic:
                    self._any.add(name)
                elif equals and name.isidentifier():
                    self._set(name, Word(value))
                self._set("@", word)
                self._all |= word.dynamic

    def _note_printed(self, words: Sequence[Word]) -> None:
        """Take up `printf -v NAME`, whose value is made of all words behind it."""
        at = next((at for at, word in enumerate(words) if word.text.startswith("-v")), len(words))
        attached = [Word(word.text[2:]) for word in words[at : at + 1] if len(word.text) > 2]
        for name in (*attached, *words[at + 1 :])[:1]:
            self._any.add(name.text)
            for value in words[at + 2 - len(attached) :]:
                self._set(name.text, value)

    def values(self, name: str) -> Sequence[Word]:
        """Say what the text sets a variable to, so far as it shows, and what the shell knows of it."""
        given = {"HOME": os.path.expanduser("~"), "PWD": ".", "IFS": " "}.get(name)
        return (*self._values.get(name, ()), *([Word(given)] if given else ()))

    def texts(self) -> Iterator[str]:
        """Go through all that the text sets any variable to."""
        return (value.text for values in self._values.values() for value in values)

    def is_set(self, name: str) -> bool:
        """Tell whether the text gives the variable some value."""
        return self._all or name in self._any or name in self._values

    def may_be_empty(self, name: str) -> bool:
        """Tell whether the variable may hold nothing."""
        values = () if self._all or name in self._any else self._values.get(name, ())
        return not values or any(
            value.opening is not None or not value.text.strip() for value in values
        )

    def options(self, names: Iterable[str]) -> frozenset[str] | None:
        """Say which options and settings (`a=b`) these variables may hold; None if any."""
        found: set[str] = set()
        for name in names:
            if name not in self._options:
                self._options[name] = self._told(name)
            options = self._options[name]
            if options is None:
                return None
            found |= options
        return frozenset(found) if len(found) <= MAX_OPTIONS else None

    def _told(self, start: str) -> frozenset[str] | None:
        """Follow a variable through those that its values name."""
        found: set[str] = set()
        waiting, seen = [start], {start}
        while waiting:
            name = waiting.pop()
            if self._all or name in self._any or len(seen) > MAX_FOLLOWED:
                return None
            for value in self._values.get(name, ()):
                if not _is_told(value):
                    return None
                opening = value.opening
                if opening is None and (value.text.startswith("-") or "=" in value.text):
                    found.add(value.text)
                more = set(opening.parts if opening else ()) - seen
                seen |= more
                waiting += more
        return frozenset(found)


def _is_told(value: Word) -> bool:
    """Tell whether its options can be read off: it is one, or surely holds none."""
    opening = value.opening
    if opening is None:
        return not value.dynamic and _HIDDEN.search(value.text) is None
    return not (opening.unsure or opening.text.startswith("-"))
