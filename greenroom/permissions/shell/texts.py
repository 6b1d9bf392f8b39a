"""Texts in a command that it may give to a shell, to another program, or to a file that it runs."""

from collections.abc import Iterable, Iterator, Sequence

from greenroom.permissions.facts.word import Word, basename
from greenroom.permissions.shell.grammar.nodes import Finding, SimpleCommand
from greenroom.permissions.shell.grammar.quoting import decode_ansi_c
from greenroom.permissions.shell.programs.wrappers import ELSEWHERE

__all__ = ["READERS", "Texts"]

READERS = frozenset({"read", "mapfile", "readarray", "xargs", "parallel"})
_TAKERS = READERS | ELSEWHERE | {"exec", "eval"}
_PRINTERS = frozenset({"echo", "printf"})


class Texts:
    """Here-documents, here-strings, and what `echo` and `printf` print.

    Attributes:
        all: those that anything may be given.
        passed: those that go from one command to the next.
        written: names of files that something is written to.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self.all: list[str] = []
        self.passed: list[str] = []
        self.written: set[str] = set()

    def note(self, found: Iterable[Finding]) -> None:
        """Take up the texts of a script."""
        nodes = [node for node in found if isinstance(node, SimpleCommand)]
        documents = list(_documents(nodes))
        self.all += documents
        if any(_passes_on(node) for node in nodes):
            self.passed += documents
        for node in nodes:
            targets = [each.target for each in node.redirections if ">" in each.operator]
            self.written |= {basename(target.text) for target in targets}
            if node.words and basename(node.words[0].text) == "tee":
                self.written |= {basename(word.text) for word in node.words[1:]}
            if node.captured or targets:
                printed = list(_printed(node.words))
                self.all += printed
                self.passed += printed if node.captured else []


def _documents(nodes: Iterable[SimpleCommand]) -> Iterator[str]:
    for node in nodes:
        for redirection in node.redirections:
            if redirection.body is not None:
                yield redirection.body.text


def _passes_on(node: SimpleCommand) -> bool:
    """Tell whether a here-document goes further than this command, or is read as names by it."""
    operators = {each.operator for each in node.redirections if each.body is None}
    operators |= {each.operator for each in node.redirections} & {"<<<"}
    if operators.isdisjoint({"<<", "<<-", "<<<"}):
        return False
    # Any word may be the program, behind others such as `timeout 5` that run it.
    programs = {word.text for word in node.words}
    return node.captured or not programs or not programs.isdisjoint(_TAKERS)


def _printed(words: Sequence[Word]) -> Iterator[str]:
    """Say what is printed: all words together, and each that may be a command by itself."""
    start = next((at for at, word in enumerate(words, 1) if word.text in _PRINTERS), len(words))
    texts = [word.text for word in words[start:]]
    for text in (" ".join(texts), *texts):
        if text and (" " in text or text == texts[-1]):
            yield from {text: None, decode_ansi_c(text) or text: None}
