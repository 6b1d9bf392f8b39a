"""Words: text, quotes, and what stands behind a dollar sign or a backtick.

The shell evaluates the *values* of the variables that arithmetic names, subscripts and the commands
inside them included; so an expression is as safe as what its variables hold.
"""

import re
from abc import abstractmethod

from greenroom.permissions.facts.word import Piece, Word
from greenroom.permissions.shell.grammar.cursor import Cursor, ShellSyntaxError
from greenroom.permissions.shell.grammar.known import find_printed, find_value
from greenroom.permissions.shell.grammar.pieces import ODD_TILDE, expand, holds_word, join

_PLAIN = re.compile(r"[^ \t\n;&|<>()'\"\\$`]+")
# Words without quotes, expansions, braces and patterns, which is most of them.
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
# Variables that the shell fills with text of the command itself.
_FILLED = re.compile(r"(?<!\w)(?:_|BASH_[A-Z_]+|DIRSTACK|FUNCNAME|OLDPWD|PWD)(?!\w)")
MAX_PARENTHESES = 100


class WordReader(Cursor):
    """Reads words; commands inside them are found like all others."""

    @abstractmethod
    def substitution(self, end: str) -> None:
        """Read the commands of a substitution up to its end, which is moved over."""

    def words(self) -> list[Word] | None:
        """Read all plain words that come next, or one other; None if none begins here.

        Braces may turn the other one into several or none.
        """
        if plain := self.take(PLAIN_WORDS):
            return [Word(each) for each in plain.split()]
        if not (pieces := self.pieces()):
            return None
        return [join(each) for each in expand(pieces) if holds_word(each)]

    def word(self) -> Word | None:
        """Read one word as it stands, without writing out its braces; None if there is none."""
        pieces = self.pieces()
        return join(pieces) if holds_word(pieces) else None

    def pieces(self) -> list[Piece]:
        """Read one word as pieces; an empty list if no word begins here."""
        pieces: list[Piece] = []
        while True:
            start, char = self.at, self.peek()
            if text := self.take(_PLAIN):
                pieces.append(Piece(text, quoted=False))
            elif char == "'":
                pieces.append(self._single_quoted())
            elif self.accept('"'):
                pieces += self._expanded(_IN_QUOTES, '$`"\\', '"')
            elif char == "\\":
                pieces.append(self._escape())
            elif char in ("$", "`"):
                pieces.append(self.expansion(quoted=False))
            elif self.process_substitution():
                pieces.append(Piece(self.text[start : self.at], dynamic=True, number=True))
            else:
                return pieces

    def here_document(self) -> Word:
        """Read the whole text as the body of a here-document whose end was not quoted."""
        return join(self._expanded(_IN_HERE_DOCUMENT, "$`\\", ""))

    def _single_quoted(self) -> Piece:
        quoted = self.take(_SINGLE)
        if not quoted:
            raise self.error("a single quote is not closed")
        return Piece(quoted[1:-1])

    def _expanded(self, plain: re.Pattern[str], special: str, end: str) -> list[Piece]:
        """Read text in which there may be expansions and backslashes, up to its end."""
        pieces = [Piece("")]  # quotes make a word, whatever they hold
        while self.at < len(self.text):
            if end and self.accept(end):
                return pieces
            if text := self.take(plain):
                pieces.append(Piece(text))
            elif self.peek() == "\\":
                pieces.append(self._escape(special))
            else:
                pieces.append(self.expansion(quoted=True))
        if end:
            raise ShellSyntaxError("a double quote is not closed")
        return pieces

    def _escape(self, special: str = "") -> Piece:
        """Read a backslash; inside quotes it is one, except before what is special there."""
        pair = self.peek(2)
        self.at += len(pair)
        if pair == "\\\n":
            return Piece("", quoted=False)
        kept = special and pair[1:] not in special
        return Piece(pair if kept or pair == "\\" else pair[1:])

    def expansion(self, *, quoted: bool) -> Piece:
        """Read what begins with a dollar sign or a backtick."""
        start, known = self.at, len(self.findings.nodes)
        with self.nested():
            if self.peek() == "`":
                self._backticks(quoted=quoted)
            elif (text := self._dollar(quoted=quoted)) is not None:
                return text
        raw, splits = self.text[start : self.at], self.findings.folder_splits
        number = _NUMBER.match(raw) is not None
        piece = Piece(raw, quoted, dynamic=True, split=not quoted or "@" in raw, number=number)
        if raw.startswith(("`", "$(")) and not number:
            if self.findings.redefines:
                return piece
            return find_printed(self.findings.nodes[known:], piece, splits)
        variable = _VARIABLE.fullmatch(raw)
        if variable is None or (variable[1] and self.peek() == "{"):  # `$x{a,b}` is `$xa $xb`
            return piece
        return find_value(variable[1] or variable[2], piece, self.findings.values, splits)

    def _backticks(self, *, quoted: bool) -> None:
        body = self.take(_BACKTICKS)
        if not body:
            raise self.error("a backtick is not closed")
        special = r"\\([$`\\\"])" if quoted else r"\\([$`\\])"
        self.apart(re.sub(special, r"\1", body[1:-1])).substitution("")

    def _dollar(self, *, quoted: bool) -> Piece | None:
        """Read an expansion; the piece is None where its text is only known at run time."""
        if self.accept("$(("):
            self.sum("))")
        elif self.accept("$("):
            self.substitution(")")
        elif self.accept("${"):
            self._parameter(quoted=quoted)
        elif self.accept("$["):
            self.unclear("uses the old form of arithmetic, $[…]")
            self.sum("]")
        elif not quoted and self.peek(2) == "$'":
            return self._ansi_c()
        elif not quoted and self.accept('$"'):
            self._expanded(_IN_QUOTES, '$`"\\', '"')  # translated at run time, so unknown
        elif self.accept("$\\\n"):
            raise ShellSyntaxError("a line is continued inside an expansion")
        else:
            self.at += 1
            return None if self.take(_NAME) else Piece("$", quoted)
        return None

    def _ansi_c(self) -> Piece:
        raw = self.take(_ANSI_C)
        if not raw:
            raise self.error("a quote is not closed")
        if _ODD_ESCAPE.search(raw.replace(r"\\", "")):
            return Piece(raw, dynamic=True)
        return Piece(re.sub(r"\\(.)", lambda m: _SIMPLE_ESCAPES.get(m[1], m[1]), raw[2:-1]))

    def _parameter(self, *, quoted: bool) -> None:
        if not self.take(_PARAMETER):
            raise self.error("an expansion that is not understood")
        if self.accept("}") or self.take(_OFFSET):
            return
        if not self.take(_OPERATOR):
            self.unclear("uses an expansion that may set a variable or run something")
        self._until_brace(quoted=quoted)

    def _until_brace(self, *, quoted: bool) -> None:
        while not self.accept("}"):
            char = self.peek()
            if self.take(_IN_BRACES) or self.process_substitution():
                continue
            if char == "'" and quoted:
                raise ShellSyntaxError("a quote inside an expansion inside quotes is ambiguous")
            if char == "'":
                self._single_quoted()
            elif self.accept('"'):
                self._expanded(_IN_QUOTES, '$`"\\', '"')
            elif char in ("$", "`"):
                self.expansion(quoted=quoted)
            elif char:
                self.at += 2 if char == "\\" else 1
            else:
                raise ShellSyntaxError("an expansion is not closed")

    def process_substitution(self) -> bool:
        """Read <(…) or >(…) if one begins here."""
        if self.peek(2) not in ("<(", ">("):
            return False
        self.at += 2
        with self.nested():
            self.substitution(")")
        return True

    def sum(self, closing: str) -> None:
        """Read arithmetic up to its end; commands may stand inside.

        Raises:
            ShellSyntaxError: it does not end as arithmetic does: it may be two parentheses.
        """
        start, nesting = self.at, 0
        while nesting or not self.accept(closing):
            char = self.peek()
            if text := self.take(_IN_SUM):
                self.findings.computes |= bool(_VARIABLES.search(text))
            elif char in ("$", "`"):
                # What it turns into is evaluated like the rest.
                piece = self.expansion(quoted=True)
                self.findings.computes = True
                if not (piece.number or piece.name):
                    self.unclear("computes with text that is only known at run time")
            else:
                nesting += (char == "(") - (char == ")")
                if not 0 <= nesting <= MAX_PARENTHESES or not char:
                    raise self.error("arithmetic is not closed")
                if char not in "()":
                    self.unclear(f"uses {char!r} in arithmetic, which may run what it names")
                self.at += 1
        if _FILLED.search(self.text, start, self.at):
            self.unclear("computes with a variable that holds text of the command")
