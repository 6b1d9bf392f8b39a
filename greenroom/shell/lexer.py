"""The lexer: reads the words of a shell text, with their quotes and expansions.

Arithmetic evaluates the *values* of the variables that it names, including subscripts and the
commands inside them. So an expression is only as safe as what its variables hold.
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, Self

from greenroom.shell.words import (
    ODD_TILDE,
    Finding,
    Piece,
    Unclear,
    Word,
    expand,
    find_assigned_names,
    find_output,
    find_value,
    holds_word,
    join,
)

# Python allows about a thousand frames, and one level of nesting takes up to nine of them.
MAX_DEPTH = 40

_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_BLANK_STARTS = frozenset(" \t\\#")
_COMMENT = re.compile(r"#[^\n]*")
_PLAIN = re.compile(r"[^ \t\n;&|<>()'\"\\$`]+")
# Words without quotes, expansions, braces and patterns, as most are.
_PLAIN_WORD = rf"(?!{ODD_TILDE})[\w./:@%+,^=~!#-]++(?=[ \t\n;|)]|&(?!>)|\Z)"
PLAIN_WORDS = re.compile(rf"{_PLAIN_WORD}(?:[ \t]++(?!#){_PLAIN_WORD})*+", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_PARAMETER = re.compile(r"#?(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*?$!#-])")
_OPERATOR = re.compile(r":[-+?]|[-+?]|##?|%%?|//?|\^\^?|,,?")
_OFFSET = re.compile(r":[ ]?-?[0-9]+(?::[ ]?-?[0-9]+)?\}")  # any other is arithmetic
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_IN_HERE_DOCUMENT = re.compile(r"[^\\$`]+")
_IN_BRACES = re.compile(r"[^'\"\\$`}<>]+")
_SINGLE = re.compile(r"'([^']*)'")
_ANSI_C = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ODD_ESCAPE = re.compile(r"\\[^nt\\'\"]")
_SIMPLE_ESCAPES = {"n": "\n", "t": "\t"}
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_NUMBER = re.compile(r"\$(?:[?#$]|\{#\w+\})|\$\(\(")  # `$!` may be nothing
_IN_SUM = re.compile(r"(?:[^()'\"\\$`\[\]{}#]|(?<=[0-9])#(?=[0-9A-Za-z]))+")  # 16#ff is a number
_VARIABLES = re.compile(r"[A-Za-z_]")
# Variables that the shell sets to a text from the command itself.
_SET_BY_SHELL = re.compile(r"(?<!\w)(?:_|BASH_[A-Z_]+|DIRSTACK|FUNCNAME|OLDPWD|PWD)(?!\w)")
MAX_PARENTHESES = 100
_REDEFINES = re.compile(r"\(\s*\)|\b(?:function|alias|eval|source)\b|(?:^|[\s;&|({])\.\s")


class ShellSyntaxError(Exception):
    """The text uses more of the language than is supported."""


@dataclass
class Findings:
    """What was found so far, shared by the parsers of one command and of the texts inside it.

    Attributes:
        command: the whole text.
        folder_splits: whether `$PWD` outside of quotes may become several words.
        values: the values of `$HOME` and of the variables of the surrounding loops.
        nodes: what was found, in the order of the text.
        computes: whether arithmetic reads variables.
    """

    command: str
    folder_splits: bool
    values: dict[str, tuple[Piece, ...]]
    nodes: list[Finding] = field(default_factory=list)
    computes: bool = False

    def add_unclear(self, reason: str, *, change: bool = False) -> None:
        """Note something that can't be determined, or a change that is not a command."""
        self.nodes.append(Unclear(reason, change))

    @cached_property
    def assigned_names(self) -> frozenset[str] | None:
        """The variables that the command may set other than by a loop; None for any."""
        return find_assigned_names(self.command)

    @cached_property
    def redefines(self) -> bool:
        """Whether a name such as `pwd` may stand for another program in the command."""
        return _REDEFINES.search(self.command) is not None


class CommandReader(Protocol):
    """Reads the commands inside of words."""

    def read_substitution(self, end: str) -> None:
        """Read commands from the lexer's position up to their end, and skip it."""

    def read_text(self, text: str) -> None:
        """Read the commands of another text, such as that in backticks."""


class Lexer:
    """Reads words from a text, and finds the commands inside of them.

    It fails closed: what it does not understand ends the reading, and the text is asked about.
    """

    def __init__(
        self, text: str, findings: Findings, commands: CommandReader, *, depth: int = 0
    ) -> None:
        """Start at the beginning; what is found is added to `findings`."""
        self.text = text
        self.at = 0
        self.depth = depth
        self.findings = findings
        self._commands = commands

    def peek(self, length: int = 1) -> str:
        """Return the next characters without moving; fewer near the end."""
        return self.text[self.at : self.at + length]

    def take(self, pattern: re.Pattern[str]) -> str:
        """Skip what a pattern matches here, and return it."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def accept(self, text: str) -> bool:
        """Skip a text if it comes next."""
        if not self.text.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def make_error(self, reason: str) -> ShellSyntaxError:
        """Make an error that names this position."""
        rest = self.peek(20).split("\n")[0]
        return ShellSyntaxError(f"{reason} {f'before {rest!r}' if rest else 'at the end'}")

    def skip_blanks(self) -> None:
        """Skip blanks, continued lines, and a comment."""
        if self.peek() in _BLANK_STARTS:
            self.take(_BLANKS)
            self.take(_COMMENT)

    def nest(self) -> Self:
        """Go one level deeper for the duration of a `with` block.

        Raises:
            ShellSyntaxError: it is one level too many.
        """
        if self.depth >= MAX_DEPTH:
            raise self.make_error("nested too deeply")
        self.depth += 1
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Go back up."""
        self.depth -= 1

    def read_words(self) -> list[Word] | None:
        """Read all plain words that come next, or one other word; None if none begins here.

        Braces may turn that other word into several or none.
        """
        if plain := self.take(PLAIN_WORDS):
            return [Word(each) for each in plain.split()]
        if not (pieces := self.read_pieces()):
            return None
        return [join(each) for each in expand(pieces) if holds_word(each)]

    def read_word(self) -> Word | None:
        """Read one word without expanding its braces; None if no word begins here."""
        pieces = self.read_pieces()
        return join(pieces) if holds_word(pieces) else None

    def read_pieces(self) -> list[Piece]:
        """Read one word as pieces; none if no word begins here."""
        pieces: list[Piece] = []
        while True:
            start, char = self.at, self.peek()
            if text := self.take(_PLAIN):
                pieces.append(Piece(text, quoted=False))
            elif char == "'":
                pieces.append(self._read_single_quotes())
            elif self.accept('"'):
                pieces += self._read_expandable(_IN_QUOTES, '$`"\\', '"')
            elif char == "\\":
                pieces.append(self._read_escape())
            elif char in ("$", "`"):
                pieces.append(self.read_expansion(quoted=False))
            elif self.read_process_substitution():
                pieces.append(Piece(self.text[start : self.at], dynamic=True, number=True))
            else:
                return pieces

    def read_here_document(self) -> Word:
        """Read the whole text as the body of a here-document with an unquoted delimiter."""
        return join(self._read_expandable(_IN_HERE_DOCUMENT, "$`\\", ""))

    def _read_single_quotes(self) -> Piece:
        quoted = self.take(_SINGLE)
        if not quoted:
            raise self.make_error("a single quote is not closed")
        return Piece(quoted[1:-1])

    def _read_expandable(self, plain: re.Pattern[str], special: str, end: str) -> list[Piece]:
        """Read text with expansions and backslashes, up to its end."""
        pieces = [Piece("")]  # quotes make a word even if they are empty
        while self.at < len(self.text):
            if end and self.accept(end):
                return pieces
            if text := self.take(plain):
                pieces.append(Piece(text))
            elif self.peek() == "\\":
                pieces.append(self._read_escape(special))
            else:
                pieces.append(self.read_expansion(quoted=True))
        if end:
            raise ShellSyntaxError("a double quote is not closed")
        return pieces

    def _read_escape(self, special: str = "") -> Piece:
        """Read a backslash; in quotes it is literal unless a special character follows."""
        pair = self.peek(2)
        self.at += len(pair)
        if pair == "\\\n":
            return Piece("", quoted=False)
        kept = special and pair[1:] not in special
        return Piece(pair if kept or pair == "\\" else pair[1:])

    def read_expansion(self, *, quoted: bool) -> Piece:
        """Read an expansion, from its dollar sign or backtick on."""
        start, known = self.at, len(self.findings.nodes)
        with self.nest():
            if self.peek() == "`":
                self._read_backticks(quoted=quoted)
            elif (text := self._read_dollar(quoted=quoted)) is not None:
                return text
        raw, splits = self.text[start : self.at], self.findings.folder_splits
        number = _NUMBER.match(raw) is not None
        piece = Piece(raw, quoted, dynamic=True, split=not quoted or "@" in raw, number=number)
        if raw.startswith(("`", "$(")) and not number:
            if self.findings.redefines:
                return piece
            return find_output(self.findings.nodes[known:], piece, splits)
        variable = _VARIABLE.fullmatch(raw)
        if variable is None or (variable[1] and self.peek() == "{"):  # `$x{a,b}` is `$xa $xb`
            return piece
        return find_value(variable[1] or variable[2], piece, self.findings.values, splits)

    def _read_backticks(self, *, quoted: bool) -> None:
        body = self.take(_BACKTICKS)
        if not body:
            raise self.make_error("a backtick is not closed")
        special = r"\\([$`\\\"])" if quoted else r"\\([$`\\])"
        self._commands.read_text(re.sub(special, r"\1", body[1:-1]))

    def _read_dollar(self, *, quoted: bool) -> Piece | None:
        """Read an expansion; the piece is None if its text is only known at run time."""
        if self.accept("$(("):
            self.read_sum("))")
        elif self.accept("$("):
            self._commands.read_substitution(")")
        elif self.accept("${"):
            self._read_parameter(quoted=quoted)
        elif self.accept("$["):
            self.findings.add_unclear("uses the old form of arithmetic, $[…]")
            self.read_sum("]")
        elif not quoted and self.peek(2) == "$'":
            return self._read_ansi_c()
        elif not quoted and self.accept('$"'):
            self._read_expandable(_IN_QUOTES, '$`"\\', '"')  # translated at run time
        elif self.accept("$\\\n"):
            raise ShellSyntaxError("a line is continued inside an expansion")
        else:
            self.at += 1
            return None if self.take(_NAME) else Piece("$", quoted)
        return None

    def _read_ansi_c(self) -> Piece:
        raw = self.take(_ANSI_C)
        if not raw:
            raise self.make_error("a quote is not closed")
        if _ODD_ESCAPE.search(raw.replace(r"\\", "")):
            return Piece(raw, dynamic=True)
        return Piece(re.sub(r"\\(.)", lambda m: _SIMPLE_ESCAPES.get(m[1], m[1]), raw[2:-1]))

    def _read_parameter(self, *, quoted: bool) -> None:
        if not self.take(_PARAMETER):
            raise self.make_error("an expansion that is not understood")
        if self.accept("}") or self.take(_OFFSET):
            return
        if not self.take(_OPERATOR):
            self.findings.add_unclear("uses an expansion that may set a variable or run something")
        self._skip_to_brace(quoted=quoted)

    def _skip_to_brace(self, *, quoted: bool) -> None:
        while not self.accept("}"):
            char = self.peek()
            if self.take(_IN_BRACES) or self.read_process_substitution():
                continue
            if char == "'" and quoted:
                raise ShellSyntaxError("a quote inside an expansion inside quotes is ambiguous")
            if char == "'":
                self._read_single_quotes()
            elif self.accept('"'):
                self._read_expandable(_IN_QUOTES, '$`"\\', '"')
            elif char in ("$", "`"):
                self.read_expansion(quoted=quoted)
            elif char:
                self.at += 2 if char == "\\" else 1
            else:
                raise ShellSyntaxError("an expansion is not closed")

    def read_process_substitution(self) -> bool:
        """Read <(…) or >(…) if one begins here."""
        if self.peek(2) not in ("<(", ">("):
            return False
        self.at += 2
        with self.nest():
            self._commands.read_substitution(")")
        return True

    def read_sum(self, closing: str) -> None:
        """Read arithmetic up to its end; it may contain commands.

        Raises:
            ShellSyntaxError: it does not end as arithmetic does, so it may be nested subshells.
        """
        start, nesting = self.at, 0
        while nesting or not self.accept(closing):
            char = self.peek()
            if text := self.take(_IN_SUM):
                self.findings.computes |= bool(_VARIABLES.search(text))
            elif char in ("$", "`"):
                # Its result is evaluated like the rest.
                piece = self.read_expansion(quoted=True)
                self.findings.computes = True
                if not (piece.number or piece.name):
                    self.findings.add_unclear("computes with text that is only known at run time")
            else:
                nesting += (char == "(") - (char == ")")
                if not 0 <= nesting <= MAX_PARENTHESES or not char:
                    raise self.make_error("arithmetic is not closed")
                if char not in "()":
                    self.findings.add_unclear(
                        f"uses {char!r} in arithmetic, which may run what it names"
                    )
                self.at += 1
        if _SET_BY_SHELL.search(self.text, start, self.at):
            self.findings.add_unclear("computes with a variable that holds text of the command")
