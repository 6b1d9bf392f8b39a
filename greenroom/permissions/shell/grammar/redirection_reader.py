"""Redirections, here-documents among them."""

import re
from dataclasses import dataclass

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.grammar.cursor import Findings, ShellSyntaxError
from greenroom.permissions.shell.grammar.nodes import Redirection, SimpleCommand
from greenroom.permissions.shell.grammar.word_reader import WordReader

__all__ = ["RedirectionReader"]

_OPERATOR = re.compile(
    r"(?P<fd>[0-9]+|\{[A-Za-z_]\w*\})?"
    r"(?P<op><<<|<<-|<<|<>|<&|>>|>\||>&|&>>|&>|<(?!\()|>(?!\())"
)
_LINE = re.compile(r"[^\n]*\n?")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n\Z")


@dataclass(slots=True)
class _HereDocument:
    """A here-document whose body has not been reached yet."""

    delimiter: str
    quoted: bool
    tabs: bool


class RedirectionReader(WordReader):
    """Reads redirections, and the bodies of here-documents when their line ends."""

    def __init__(self, text: str, at: int = 0, *, findings: Findings, depth: int = 0) -> None:
        """Begin at a place."""
        super().__init__(text, at, findings=findings, depth=depth)
        self.waiting: list[_HereDocument] = []
        self.outer_waiting = False

    def redirection(self) -> Redirection | None:
        """Read one redirection; None if none begins here.

        Raises:
            ShellSyntaxError: it has no target.
        """
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        if (found["fd"] or "").startswith("{"):
            self.unclear(f"sets the variable {found['fd']} to a descriptor", change=True)
        self.skip_blanks()
        if found["op"] in ("<<", "<<-"):
            return self._here_document(found["op"])
        if found["op"] in ("<&", ">&") and self.accept("-"):
            return Redirection(found["op"], Word("-"))  # behind it a new word begins
        target = self.word()
        if target is None:
            raise ShellSyntaxError(f"a redirection without its target {self.here}")
        if found["op"] == "<<<":
            return Redirection("<<<", target, target)
        return Redirection(found["op"], target)

    def _here_document(self, operator: str) -> Redirection:
        start = self.at
        word = self.word()
        raw = self.text[start : self.at]
        if word is None or word.dynamic or "\n" in raw or "$" in raw or "`" in raw:
            raise ShellSyntaxError(f"a here-document whose end can't be told {self.here}")
        self.waiting.append(_HereDocument(word.text, word.quoted, operator == "<<-"))
        return Redirection(operator, word)

    def skip_lines(self) -> None:
        """Move over blanks, comments and ends of lines."""
        self.skip_blanks()
        while self.newline():
            self.skip_blanks()

    def newline(self) -> bool:
        """Move over a line's end and the bodies of its here-documents, if a line ends here."""
        if not self.accept("\n"):
            return False
        if self.outer_waiting:
            self.unclear("a line ends inside a substitution before a here-document began")
        waiting, self.waiting = self.waiting, []
        for document in waiting:
            body = self._body(document)
            dynamic = not document.quoted and self.read_apart(body, commands=False)
            self.findings.nodes.append(_with_body(Word(body, dynamic=dynamic, quoted=True)))
        return True

    def _body(self, document: _HereDocument) -> str:
        lines: list[str] = []
        continued = False
        while self.at < len(self.text):
            line = self.take(_LINE)
            if document.tabs and not continued:
                line = line.lstrip("\t")
            if not continued and line.removesuffix("\n") == document.delimiter:
                return "".join(lines)
            lines.append(line)
            continued = not document.quoted and _CONTINUED.search(line) is not None
        self.unclear(f"a here-document is not ended by {document.delimiter!r}")
        return "".join(lines)

    def finish_here_documents(self) -> None:
        """Note here-documents whose body never came."""
        if self.waiting:
            self.waiting = []
            self.unclear("a here-document without its body")


def _with_body(body: Word) -> SimpleCommand:
    """Keep a here-document's text, for the shells that may be given it."""
    return SimpleCommand(redirections=(Redirection("<<", body, body),))
