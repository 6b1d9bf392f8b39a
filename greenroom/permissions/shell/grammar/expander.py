"""What stands behind a dollar sign, a backtick or a double quote."""

import re
from abc import abstractmethod
from collections.abc import Sequence

from greenroom.permissions.facts.word import Piece
from greenroom.permissions.shell.grammar.arithmetic import HELD, NAMES, SAFE_OFFSET
from greenroom.permissions.shell.grammar.cursor import (
    Cursor,
    Findings,
    NotASumError,
    ShellSyntaxError,
)
from greenroom.permissions.shell.grammar.nodes import Finding, SimpleCommand, Unclear
from greenroom.permissions.shell.grammar.quoting import decode_ansi_c

__all__ = ["FOLDER", "Expander"]

FOLDER = "PWD"
"""The variable that holds the current folder."""

MAX_FAILED_SUMS = 8
MAX_PARENTHESES = 100

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_PARAMETER = re.compile(r"#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*?$!#-])")
_OPERATOR = re.compile(r":[-+?]|[-+?]|##?|%%?|//?|\^\^?|,,?")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_IN_HEREDOC = re.compile(r"[^\\$`]+")
_IN_BRACES = re.compile(r"[^'\"\\$`}<>]+")
_IN_SUM = re.compile(r"(?:[^()'\"\\$`\[\]{}#]|(?<=[0-9])#(?=[0-9A-Za-z]))+")  # 16#ff is a number
_SINGLE = re.compile(r"'([^']*)'")
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_NUMBER = re.compile(r"\$(?:[?#$!]|\{#\w+\})|\$\(\(")


_PRINTS_NUMBERS = re.compile(
    r"nproc|seq(?: -?[0-9.]+)+|wc(?: -[clmw]+)+|date \+(?:%[sYmdHMS])+|id -[gu]"
)
_TAKEN_APART = re.compile(r"\A\Z|[\s*?\[]")  # what the shell does to a value outside quotes
_QUOTED = Piece("")  # quotes make a word, whatever they hold


class Expander(Cursor):
    """Reads quotes and expansions; commands inside them are found like all others."""

    def __init__(self, text: str, at: int = 0, *, findings: Findings, depth: int = 0) -> None:
        """Begin at a place."""
        super().__init__(text, at, findings=findings, depth=depth)
        self._no_sum: set[int] = set()  # places of `((` that turned out to be two parentheses

    @abstractmethod
    def substitution(self, end: str) -> None:
        """Read the commands of a substitution up to its end, which is moved over."""

    @abstractmethod
    def read_apart(self, text: str, *, commands: bool) -> bool:
        """Read another text with the same findings; True if its value is only known later.

        Args:
            text: the body of a substitution or of a here-document.
            commands: whether it holds commands rather than text with expansions.
        """

    def single_quoted(self) -> Piece:
        """Read '…'."""
        quoted = self.take(_SINGLE)
        if not quoted:
            raise ShellSyntaxError(f"a single quote is not closed {self.here}")
        return Piece(quoted[1:-1])

    def double_quoted(self) -> list[Piece]:
        """Read "…"."""
        self.expect('"')
        pieces = [_QUOTED]
        while not self.accept('"'):
            text = self.take(_IN_QUOTES)
            if text:
                pieces.append(Piece(text))
            elif self.peek() == "\\":
                pieces.append(self._escape('$`"\\'))
            elif self.at >= len(self.text):
                raise ShellSyntaxError("a double quote is not closed")
            else:
                pieces.append(self.expansion(quoted=True))
        return pieces

    def _escape(self, special: str) -> Piece:
        """Read a backslash inside double quotes or a here-document."""
        pair = self.peek(2)
        self.at += len(pair)
        if pair == "\\\n":
            return Piece("")
        return Piece(pair[1:] if pair[1:] and pair[1:] in special else pair)

    def here_document(self) -> bool:
        """Read the whole text as the body of an unquoted here-document; True if it is dynamic."""
        dynamic = False
        while self.at < len(self.text):
            if self.take(_IN_HEREDOC):
                continue
            if self.peek() == "\\":
                self.at += 2
            else:
                dynamic |= self.expansion(quoted=True).dynamic
        return dynamic

    def expansion(self, *, quoted: bool) -> Piece:
        """Read what begins with a dollar sign or a backtick."""
        start, known = self.at, len(self.findings.nodes)
        with self.nested():
            static = None
            if self.peek() == "`":
                self._backticks(quoted=quoted)
            else:
                static = self._dollar(quoted=quoted)
        if static is not None:
            return static
        raw = self.text[start : self.at]
        piece = Piece(raw, quoted, dynamic=True, split=not quoted or "@" in raw)
        if raw.startswith(("`", "$(")) and not self.is_number(raw):
            return _printed(self.findings.nodes[known:], piece, self.findings.folder_splits)
        named = _VARIABLE.fullmatch(raw)
        if named is None or (named[1] and self.peek() == "{"):  # `$x{a,b}` is `$xa $xb`
            return piece._replace(number=self.is_number(raw))
        return self._valued(piece, named[1] or named[2])

    def is_number(self, raw: str) -> bool:
        """Tell whether an expansion that was just read surely is a number."""
        return _NUMBER.match(raw) is not None and self._was_sum(raw)

    def _was_sum(self, raw: str) -> bool:
        return not raw.startswith("$((") or self.at - len(raw) not in self._no_sum

    def _valued(self, piece: Piece, name: str) -> Piece:
        """Put in the value of a variable that is known; one outside of quotes is taken apart."""
        findings = self.findings
        if (
            name == "HOME"
            and findings.home
            and (piece.quoted or not _TAKEN_APART.search(findings.home))
        ):
            return Piece(findings.home)
        if name == FOLDER:
            return _current_folder(piece, findings.folder_splits)
        choices = findings.loops.get(name, ())
        if not piece.quoted and any(_TAKEN_APART.search(each.text) for each in choices):
            return piece
        return piece._replace(name=name, choices=choices)

    def _backticks(self, *, quoted: bool) -> None:
        body = self.take(_BACKTICKS)
        if not body:
            raise ShellSyntaxError(f"a backtick is not closed {self.here}")
        inner = body[1:-1]
        if "\\" in inner:
            special = r"\\([$`\\\"])" if quoted else r"\\([$`\\])"
            inner = re.sub(special, r"\1", inner)
        self.read_apart(inner, commands=True)

    def _dollar(self, *, quoted: bool) -> Piece | None:
        """Read an expansion; the piece is None where its text is only known at run time."""
        behind = self.text[self.at + 1 : self.at + 2]
        if behind == "(" and not self.is_sum("$(("):
            self.at += 2
            self.substitution(")")
        elif behind == "(":
            self._sum_or_commands("$((", "))")
        elif behind == "'" and not quoted:
            return self._ansi_c()
        elif behind == '"' and not quoted:
            self.at += 1
            self.double_quoted()  # translated at run time, so unknown
        elif self.accept("${"):
            self._parameter(quoted=quoted)
        elif self.accept("$["):
            self.unclear("uses the old form of arithmetic, $[…]")
            self.sum("]")
        elif self.looking_at("$\\\n"):
            raise ShellSyntaxError("a line is continued inside an expansion")
        else:
            self.at += 1
            return None if self.take(_NAME) else Piece("$", quoted)
        return None

    def _ansi_c(self) -> Piece:
        raw = self.take(_ANSI_C)
        if not raw:
            raise ShellSyntaxError(f"a quote is not closed {self.here}")
        text = decode_ansi_c(raw[2:-1])
        return Piece(raw, dynamic=True) if text is None else Piece(text)

    def _parameter(self, *, quoted: bool) -> None:
        if self.peek() in (" ", "\t", "\n", "|", "("):
            self.unclear("runs commands inside ${ …}")
            self.at += self.peek() == "|"
            self.substitution("}")
            return
        if not self.take(_PARAMETER):
            raise ShellSyntaxError(f"an expansion that is not understood {self.here}")
        if self.accept("}") or self.take(SAFE_OFFSET):
            return
        if not self.take(_OPERATOR):
            self.unclear("uses an expansion that may set a variable or run something")
        self._until_brace(quoted=quoted)

    def _until_brace(self, *, quoted: bool) -> None:
        while not self.accept("}"):
            if self.take(_IN_BRACES):
                continue
            char = self.peek()
            if not char:
                raise ShellSyntaxError("an expansion is not closed")
            if char == "'" and quoted:
                raise ShellSyntaxError("a quote inside an expansion inside quotes is ambiguous")
            if char == "'":
                self.single_quoted()
            elif char == '"':
                self.double_quoted()
            elif char == "\\":
                self.at += 2
            elif char in "<>":
                self.process_substitution() or self.accept(char)
            else:
                self.expansion(quoted=quoted)

    def process_substitution(self) -> bool:
        """Read <(…) or >(…) if one begins here."""
        if self.peek(2) not in ("<(", ">("):
            return False
        self.at += 2
        with self.nested():
            self.substitution(")")
        return True

    def _sum_or_commands(self, opening: str, closing: str) -> None:
        """Read arithmetic, or if its parentheses don't close as such, a substitution."""
        start, known = self.at, len(self.findings.nodes)
        self.at += len(opening)
        try:
            self.sum(closing)
        except NotASumError:
            self.no_sum(start, known)
            self.at = start
            self.accept("$(")
            self.substitution(")")

    def is_sum(self, opening: str) -> bool:
        """Tell whether arithmetic begins here, as far as is known by now."""
        return self.looking_at(opening) and self.at not in self._no_sum

    def no_sum(self, start: int, known: int) -> None:
        """Note that what begins here is no arithmetic, and forget what it gave.

        Raises:
            ShellSyntaxError: it happened too often; each time costs a second reading.
        """
        self._no_sum.add(start)
        del self.findings.nodes[known:]
        self.findings.failed_sums += 1
        if self.findings.failed_sums > MAX_FAILED_SUMS:
            self.findings.given_up.append((self.text, start))
            raise ShellSyntaxError("too many parentheses that are no arithmetic")

    def sum(self, closing: str) -> None:
        """Read an arithmetic expression up to its end; commands may stand inside.

        Raises:
            NotASumError: it does not end as arithmetic does.
            ShellSyntaxError: the same, but that is not sure; the shell may see other quotes in it.
        """
        start, open_parentheses, known = self.at, 0, len(self.findings.nodes)
        while open_parentheses or not self.accept(closing):
            text, char = self.take(_IN_SUM), self.peek()
            self.findings.computes |= bool(NAMES.search(text))
            if text:
                continue
            if char in "$`" and char:
                self._in_sum()
                continue
            if char not in ("(", ")"):
                self._odd_sum(char)
            open_parentheses += (char == "(") - (char == ")")
            if open_parentheses < 0 and not self._has_unclear(known):
                raise NotASumError(f"arithmetic is not closed {self.here}")
            if not 0 <= open_parentheses <= MAX_PARENTHESES or not char:
                self.findings.given_up.append((self.text, start))
                raise ShellSyntaxError(f"arithmetic is not closed {self.here}")
            self.at += 1
        if HELD.search(self.text, start, self.at):
            self.unclear("computes with a variable that holds text of the command")

    def _has_unclear(self, known: int) -> bool:
        return any(isinstance(node, Unclear) for node in self.findings.nodes[known:])

    def _in_sum(self) -> None:
        """Read an expansion in arithmetic: what it turns into is evaluated like the rest."""
        piece = self.expansion(quoted=True)
        self.findings.computes |= piece.dynamic
        if piece.dynamic and not (piece.number or piece.name):
            self.unclear("computes with text that is only known at run time")

    def _odd_sum(self, char: str) -> None:
        self.unclear(f"uses {char!r} in arithmetic, which may run what it names")


def _printed(nodes: Sequence[Finding], piece: Piece, splits: bool) -> Piece:
    """Say what a substitution is replaced by where that is known: `$(pwd)`, or a text of its own."""
    first = nodes[0] if nodes else None
    if not isinstance(first, SimpleCommand) or not all(word.static for word in first.words):
        return piece
    words = tuple(word.text for word in first.words)
    if words == ("pwd",) and len(nodes) == 1 and first == SimpleCommand(first.words):
        return _current_folder(piece, splits)
    if len(nodes) == 1 and _PRINTS_NUMBERS.fullmatch(" ".join(words)):
        return piece._replace(number=True)
    # "$(cat <<'END' …)" is how a long message is written.
    last = nodes[-1]
    if words == ("cat",) and len(nodes) == 2 and isinstance(last, SimpleCommand) and piece.quoted:
        bodies = [each.body for each in last.redirections if each.body is not None]
        if len(first.redirections) == 1 and bodies and bodies[0].static and not last.words:
            return Piece(bodies[0].text.rstrip("\n"))
    return piece


def _current_folder(piece: Piece, splits: bool) -> Piece:
    return piece if splits and not piece.quoted else piece._replace(name=FOLDER)
