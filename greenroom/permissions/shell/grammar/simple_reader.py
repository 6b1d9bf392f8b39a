"""Simple commands: their words, the variables set for them, and their redirections."""

import re
from typing import NamedTuple

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.grammar.cursor import Findings, ShellSyntaxError
from greenroom.permissions.shell.grammar.nodes import Assignment, Redirection, SimpleCommand
from greenroom.permissions.shell.grammar.word_reader import WordReader

RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|select|while|until|do|done|case|esac|function|coproc|\[\[|\{|\}|!)"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
_OPERATOR = re.compile(
    r"(?P<fd>[0-9]+|\{[A-Za-z_]\w*\})?"
    r"(?P<op><<<|<<-|<<|<>|<&|>>|>\||>&|&>>|&>|<(?!\()|>(?!\())"
)
_LINE = re.compile(r"[^\n]*\n?")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n\Z")


class _HereDocument(NamedTuple):
    """A here-document whose body has not been reached yet."""

    delimiter: Word
    tabs: bool


class SimpleReader(WordReader):
    """Reads simple commands, and the bodies of here-documents when their line ends."""

    def __init__(self, text: str, at: int = 0, *, findings: Findings, depth: int = 0) -> None:
        """Begin at a place."""
        super().__init__(text, at, findings=findings, depth=depth)
        self.waiting: list[_HereDocument] = []
        self.fed = False  # whether the standard input is a pipe

    def simple(self) -> bool:
        """Read a simple command; False if none begins here.

        Raises:
            ShellSyntaxError: it is none, or not understood.
        """
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        start = self.at
        while True:
            if redirection := self.redirection():
                redirections.append(redirection)
            elif not words and (assignment := self._assignment()):
                assignments.append(assignment)
            elif (more := self.words()) is not None:
                words += more
            elif self.peek() in ("(", "<", ">"):
                raise self.error("not understood")
            else:
                break
            self.skip_blanks()
        if words and RESERVED.fullmatch(words[0].text) and not words[0].quoted:
            raise self.error("a keyword in an unexpected place")
        if self.at == start:
            return False
        fed = self.fed or any(each.feeds for each in redirections)
        node = SimpleCommand(tuple(words), tuple(assignments), tuple(redirections), fed)
        self.findings.nodes.append(node)
        return True

    def _assignment(self) -> Assignment | None:
        """Read one assignment; None if none begins here."""
        found = _ASSIGNMENT.match(self.text, self.at)
        if found is None:
            return None
        name, operator = found.groups()
        self.at = found.end()
        if operator == "[" or self.peek() == "(":
            raise self.error("an array is set")
        value = self.word() or Word("")
        if operator == "+=":
            value = Word(f"${{{name}}}{value.text}", dynamic=True)
        return Assignment(name, value)

    def redirections(self) -> list[Redirection]:
        """Read all redirections that come next."""
        self.skip_blanks()
        found: list[Redirection] = []
        while redirection := self.redirection():
            found.append(redirection)
            self.skip_blanks()
        return found

    def redirection(self) -> Redirection | None:
        """Read one redirection; None if none begins here.

        Raises:
            ShellSyntaxError: it has no target, or is a here-document whose end can't be told.
        """
        found = _OPERATOR.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        operator = found["op"]
        if (found["fd"] or "").startswith("{"):
            self.unclear(f"sets the variable {found['fd']} to a descriptor", change=True)
        self.skip_blanks()
        if operator in ("<&", ">&") and self.accept("-"):
            return Redirection(operator, Word("-"))  # behind it a new word begins
        start = self.at
        target = self.word()
        if target is None:
            raise self.error("a redirection without its target")
        if "{" in target.text and ("," in target.text or ".." in target.text):
            target = target._replace(dynamic=True)  # it may be written out to another name
        if operator in ("<<", "<<-"):
            if target.dynamic or re.search(r"[\n$`]", self.text[start : self.at]):
                raise self.error("a here-document whose end can't be told")
            self.waiting.append(_HereDocument(target, operator == "<<-"))
        return Redirection(operator, target)

    def skip_lines(self) -> None:
        """Move over blanks, comments and ends of lines, and over the here-documents behind them."""
        self.skip_blanks()
        while self.accept("\n"):
            self._here_documents()
            self.skip_blanks()

    def _here_documents(self) -> None:
        """Read the bodies that begin here; each stands as a command that is only redirected."""
        waiting, self.waiting = self.waiting, []
        for document in waiting:
            text = self._body(document)
            body = Word(text, quoted=True)
            if not document.delimiter.quoted:
                body = self.apart(text).here_document()
            self.findings.nodes.append(SimpleCommand(redirections=(Redirection("<<", body),)))

    def _body(self, document: _HereDocument) -> str:
        lines: list[str] = []
        continued = False
        while self.at < len(self.text):
            line = self.take(_LINE)
            if document.tabs and not continued:
                line = line.lstrip("\t")
            if not continued and line.removesuffix("\n") == document.delimiter.text:
                return "".join(lines)
            lines.append(line)
            continued = not document.delimiter.quoted and _CONTINUED.search(line) is not None
        raise ShellSyntaxError(f"a here-document is not ended by {document.delimiter.text!r}")

    def finish_here_documents(self) -> None:
        """Note here-documents whose body never came."""
        if self.waiting:
            self.waiting = []
            self.unclear("a here-document without its body")
