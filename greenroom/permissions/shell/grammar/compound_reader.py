"""Compound commands: loops, branches, groups, functions, conditions."""

import re
from abc import abstractmethod
from collections.abc import Callable

from greenroom.permissions.facts.word import Piece, Word
from greenroom.permissions.shell.grammar.assignment_reader import AssignmentReader
from greenroom.permissions.shell.grammar.cursor import NotASumError, ShellSyntaxError
from greenroom.permissions.shell.grammar.nodes import Assignment
from greenroom.permissions.shell.grammar.word_reader import PLAIN_WORDS

__all__ = ["CompoundReader"]

_KEYWORD = re.compile(
    r"(?:if|then|elif|else|fi|for|select|while|until|do|done|case|esac|function|coproc|time"
    r"|\[\[|!|\{|\})(?=[ \t\n;&|<>()]|\\\n|$)"
)
# A command of plain words, the first of which is no keyword and sets nothing.
_PLAIN = re.compile(
    rf"(?!{_KEYWORD.pattern}|[A-Za-z0-9_]++\+?=){PLAIN_WORDS.pattern}"
    r"[ \t]*+(?=[\n;|)]|&(?!>)|\Z)",
    re.ASCII,
)
_NAME = re.compile(r"[^ \t\n;&|<>()'\"\\$`]+")
_ARGUMENTS = Word('"$@"', dynamic=True, split=True)
MAX_LOOPS = 64  # of which the values are looked at
MAX_CHOICES = 64  # values of a loop's variable that are looked at one by one
_SETTERS = re.compile(
    r"\b(?:IFS|read|mapfile|readarray|printf\s+-v|getopts|declare|typeset|local|export|readonly|let"
    r"|unset|eval|source|alias|set)\b|(?:^|[\s;&|({])\.\s"
)
_TEST_OPERATOR = re.compile(r"&&|\|\||[()<>]")
# Operators of [[ … ]] that evaluate their operands as arithmetic, or look up a subscript.
_EVALUATING = frozenset(
    {"-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~"},
)


class CompoundReader(AssignmentReader):
    """Reads everything that begins with a keyword or a parenthesis."""

    @abstractmethod
    def commands(self, *ends: str, empty: bool = False) -> str:
        """Read a list of commands up to one of these ends, which is moved over and returned."""

    @abstractmethod
    def command(self) -> bool:
        """Read one command; False if none begins here."""

    def plain_command(self) -> list[Word]:
        """Read a command of plain words and nothing else, as most are; no word if none begins here."""
        return [Word(each) for each in self.take(_PLAIN).split()]

    def keyword(self) -> str:
        """Return the keyword that comes next, without moving over it."""
        found = _KEYWORD.match(self.text, self.at)
        return found[0] if found else ""

    def compound(self) -> bool:
        """Read a compound command without its redirections; False if none begins here."""
        char = self.peek()
        if char not in _BEGINNINGS:
            return False
        opening = self.keyword() if char != "(" else "((" if self.is_sum("((") else "("
        reader = _READERS.get(opening)
        if reader is None:
            return False
        with self.nested():
            if opening != "((":  # which is taken back where it turns out to be two parentheses
                self.accept(opening)
            reader(self)
        return True

    def _subshell(self) -> None:
        self.commands(")")

    def _group(self) -> None:
        self.commands("}")

    def _sum_command(self) -> None:
        start, known = self.at, len(self.findings.nodes)
        self.accept("((")
        self.unclear("evaluates an arithmetic command, which may set variables", change=True)
        try:
            self.sum("))")
        except NotASumError:
            self.no_sum(start, known)
            self.at = start
            self.accept("(")
            self.commands(")")
        else:
            # Other shells take `((( … )))` for subshells.
            self.findings.unread.append(self.text[start : self.at])

    def _if(self) -> None:
        self.commands("then")
        while (end := self.commands("elif", "else", "fi")) != "fi":
            if end == "elif":
                self.commands("then")

    def _loop(self) -> None:
        self.commands("do")
        self.commands("done")

    def _select(self) -> None:
        self.unclear("asks with select")
        self._for()

    def _for(self) -> None:
        self.skip_blanks()
        name = ""
        values: tuple[Piece, ...] = ()
        if self.looking_at("(("):
            self.accept("((")
            self.unclear("counts in an arithmetic loop", change=True)
            self.sum("))")
        else:
            name, values = self._for_words()
        self.skip_blanks()
        self.accept(";")
        self.skip_lines()
        outer = self.findings.loops
        if name and name in outer:
            self.unclear(f"a loop over {name} inside another one")
        self.findings.loops = {**outer, name: values}
        if self.accept("{"):
            self.commands("}")
        else:
            self._keyword("do")
            self.commands("done")
        self.findings.loops = outer

    def _for_words(self) -> tuple[str, tuple[Piece, ...]]:
        """Read the head of a loop: its variable, and the values if they are known."""
        name = self.take(_NAME)
        if not name.isidentifier():
            raise ShellSyntaxError(f"a loop without its variable {self.here}")
        self.skip_lines()
        if not re.match(r"in(?=[ \t\n;])", self.text[self.at : self.at + 3]):
            self.findings.nodes.append(Assignment(name, _ARGUMENTS))
            return name, ()
        self.at += 2
        found: list[Word] = []
        while True:
            self.skip_blanks()
            words = self.words()
            if words is None:
                break
            found += words
        self.findings.nodes += [Assignment(name, word) for word in found]
        if self.peek() not in (";", "\n"):
            raise ShellSyntaxError(f"a loop that is not understood {self.here}")
        self.findings.loops_read += 1
        known = len(found) <= MAX_CHOICES and not any(word.unknown for word in found)
        if not known or self.findings.loops_read > MAX_LOOPS or self._is_set(name):
            return name, ()
        return name, tuple(
            Piece(word.text, word.static, word.dynamic, word.split, word.number) for word in found
        )

    def _is_set(self, name: str) -> bool:
        """Tell whether the text may set a loop's variable by another way, to be on the safe side."""
        return bool(_SETTERS.search(self.text) or re.search(rf"\b{name}(?:\+?=|\[)", self.text))

    def _keyword(self, word: str) -> None:
        if self.keyword() != word:
            raise ShellSyntaxError(f"expected {word!r} {self.here}")
        self.accept(word)

    def _case(self) -> None:
        self.skip_blanks()
        if self.word() is None:
            raise ShellSyntaxError(f"case without its word {self.here}")
        self.skip_lines()
        if not re.match(r"in(?=[ \t\n])", self.text[self.at : self.at + 3]):
            raise ShellSyntaxError(f"expected 'in' {self.here}")
        self.at += 2
        self.skip_lines()
        while self.keyword() != "esac":
            self._patterns()
            if self.commands(";;", "esac", empty=True) == "esac":
                return
            self.skip_lines()
        self.accept("esac")

    def _patterns(self) -> None:
        self.accept("(")
        while True:
            self.skip_blanks()
            if self.word() is None:
                raise ShellSyntaxError(f"a pattern that is not understood {self.here}")
            self.skip_blanks()
            if self.accept(")"):
                return
            self.expect("|")

    def _condition(self) -> None:
        """Read [[ … ]]."""
        while True:
            self.skip_lines()
            if self.take(_TEST_OPERATOR):
                continue
            word = self.word()
            if word is None:
                raise ShellSyntaxError(f"a condition that is not understood {self.here}")
            if word.text == "]]" and not word.quoted:
                return
            if word.text in _EVALUATING:
                self.unclear(f"evaluates the operands of {word.text} in [[ ]]")

    def _function(self) -> None:
        self.skip_blanks()
        name = self.take(_NAME)
        if not name:
            raise ShellSyntaxError(f"a function without its name {self.here}")
        self.skip_blanks()
        if self.accept("("):
            self.skip_blanks()
            self.expect(")")
        self.function_body(name)

    def function_body(self, name: str) -> None:
        """Read the body of a function, which is judged as if it ran."""
        self.unclear(f"defines the function {name}", change=True)
        self.skip_lines()
        loops, self.findings.loops = self.findings.loops, {}  # it may be called from elsewhere
        with self.nested():
            if not self.command():
                raise ShellSyntaxError(f"a function without its body {self.here}")
        self.findings.loops = loops

    def _coproc(self) -> None:
        self.unclear("starts a coprocess")
        self.skip_blanks()
        start = self.at
        name = self.take(_NAME)
        self.skip_blanks()
        if not (name.isidentifier() and (self.keyword() or self.peek() == "(")):
            self.at = start
        if not self.command():
            raise ShellSyntaxError(f"a coprocess without its command {self.here}")


_READERS: dict[str, Callable[[CompoundReader], None]] = {
    "((": CompoundReader._sum_command,
    "(": CompoundReader._subshell,
    "{": CompoundReader._group,
    "if": CompoundReader._if,
    "while": CompoundReader._loop,
    "until": CompoundReader._loop,
    "for": CompoundReader._for,
    "select": CompoundReader._select,
    "case": CompoundReader._case,
    "[[": CompoundReader._condition,
    "function": CompoundReader._function,
    "coproc": CompoundReader._coproc,
}
_BEGINNINGS = frozenset(keyword[0] for keyword in _READERS)
