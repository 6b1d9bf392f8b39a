"""The parser: every simple command in a shell text, wherever it stands.

It knows the part of bash that can be told in advance. Everything else is noted as unclear or ends
the reading, and commands that were found by then are judged all the same.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from greenroom.core import RuleFileError
from greenroom.shell.lexer import (
    HOME,
    PLAIN_WORDS,
    Findings,
    ShellSyntaxError,
    WordReader,
    list_values,
)
from greenroom.shell.words import Assignment, Piece, Redirection, Script, SimpleCommand, Word

# Simple commands: their words, the variables set for them, and their redirections.

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


_KEYWORD_END = r"(?=[ \t\n;&|<>()]|\\\n|$)"
_KEYWORD = re.compile(rf"(?:{RESERVED.pattern}|time){_KEYWORD_END}")
_COMPOUND = re.compile(rf"\(\(?|(?:if|for|while|until|case|\[\[|\{{){_KEYWORD_END}")
_BODY = re.compile(rf"(?:do|\{{){_KEYWORD_END}")
_IN = re.compile(r"in(?=[ \t\n;])")
# A command of plain words, the first of which is no keyword and sets nothing.
_PLAIN = re.compile(
    rf"(?!{_KEYWORD.pattern}|[A-Za-z0-9_]++\+?=){PLAIN_WORDS.pattern}"
    r"[ \t]*+(?=[\n;|)]|&(?!>)|\Z)",
    re.ASCII,
)
_NAME = re.compile(rf"[^ \t\n;&|<>()'\"\\$`*?\[]+{_KEYWORD_END}")
_FUNCTION = re.compile(
    rf"function[ \t]+({_NAME.pattern})(?:[ \t]*\([ \t]*\))?|({_NAME.pattern})[ \t]*\([ \t]*\)"
)
_CONNECTOR = re.compile(r"&&|\|\||\|&|\|")
_CASE_END = re.compile(r";;&|;;|;&")
_SEPARATOR = re.compile(r";(?![;&])|&(?![&>])")
# `time` before an option other than -p is the program of that name.
_PREFIX = re.compile(
    r"(?:!|time(?:[ \t]+-p(?=[ \t]))?(?:[ \t]+--(?=[ \t]))?(?![ \t]+-))(?=[ \t\n;&|()]|\\\n|$)"
)
_TEST_OPERATOR = re.compile(r"&&|\|\||[()<>]")
# Operators of [[ … ]] that evaluate their operands as arithmetic, or look up a subscript.
_EVALUATING = frozenset({"-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~"})
# What other shells would run in `(( … ))`, which they take for subshells.
_SUBSHELL = re.compile(r"\(|\w\s+\w")
_ARGUMENTS = Word('"$@"', dynamic=True, split=True)


class Parser(SimpleReader):
    """Reads lists of commands, and the compound commands that hold such lists."""

    def commands(self, *ends: str, empty: bool = False) -> str:
        """Read a list of commands up to one of these ends, which is moved over and returned.

        Raises:
            ShellSyntaxError: the list breaks off, is not understood, or holds no command though
                it must.
        """
        seen = empty
        while True:
            self.skip_lines()
            end = self._end(ends)
            if end is not None and seen:
                return end
            if not self._pipeline():
                raise self.error("not understood")
            seen = True
            self.skip_blanks()
            if not (self.take(_SEPARATOR) or self.peek() == "\n"):
                end = self._end(ends)
                if end is None:
                    raise self.error("not understood")
                return end

    def _end(self, ends: tuple[str, ...]) -> str | None:
        """Move over an end that stands here; None if none does."""
        if self.at >= len(self.text):
            return "" if "" in ends else None
        if ";;" in ends and self.take(_CASE_END):
            return ";;"
        if ")" in ends:
            return ")" if self.accept(")") else None
        keyword = _KEYWORD.match(self.text, self.at)
        if keyword and keyword[0] in ends:
            return self.take(_KEYWORD)
        return None

    def _pipeline(self) -> bool:
        """Read commands joined by `|`, `&&` and `||`."""
        fed = self.fed
        while True:
            timed = False
            while self.peek() in ("!", "t") and self.take(_PREFIX):
                timed = True
                self.skip_blanks()
            is_command = self._command()
            self.skip_blanks()
            connector = self.take(_CONNECTOR) if is_command else ""
            self.fed = fed or connector in ("|", "|&")
            if not connector:
                return is_command or timed
            self.skip_lines()

    def _command(self) -> bool:
        """Read one command; False if none begins here."""
        nodes = self.findings.nodes
        if plain := self.take(_PLAIN):
            words = tuple([Word(each) for each in plain.split()])
            nodes.append(SimpleCommand(words, fed=self.fed))
            return True
        known = len(nodes)
        if not self._compound():
            return self.simple()
        if redirections := self.redirections():
            if any(each.feeds for each in redirections):
                inside = nodes[known:]
                nodes[known:] = [
                    each._replace(fed=True) if isinstance(each, SimpleCommand) else each
                    for each in inside
                ]
            nodes.append(SimpleCommand(redirections=tuple(redirections)))
        return True

    def _compound(self) -> bool:
        """Read a compound command without its redirections; False if none begins here."""
        opening = _COMPOUND.match(self.text, self.at) or _FUNCTION.match(self.text, self.at)
        if opening is None:
            return False
        with self.nested():
            self.at = opening.end()
            match opening[0]:
                case "((":
                    self._sum_command()
                case "(":
                    self.commands(")")
                case "{":
                    self.commands("}")
                case "if":
                    self._if()
                case "while" | "until":
                    self.commands("do")
                    self.commands("done")
                case "for":
                    self._for()
                case "case":
                    self._case()
                case "[[":
                    self._condition()
                case _:
                    self._function(opening[1] or opening[2])
        return True

    def _expect_word(self) -> Word:
        self.skip_blanks()
        word = self.word()
        if word is None:
            raise self.error("a word is missing")
        self.skip_blanks()
        return word

    def _sum_command(self) -> None:
        start = self.at
        self.sum("))")
        is_plain = not _SUBSHELL.search(self.text[start : self.at])
        self.unclear("evaluates an arithmetic command, which may set variables", change=is_plain)

    def _if(self) -> None:
        self.commands("then")
        while (end := self.commands("elif", "else", "fi")) != "fi":
            if end == "elif":
                self.commands("then")

    def _for(self) -> None:
        around = self.findings.values
        self.skip_blanks()
        if self.accept("(("):
            self.unclear("counts in an arithmetic loop", change=True)
            self.sum("))")
        else:
            self._for_words()
        self.skip_blanks()
        self.accept(";")
        self.skip_lines()
        body = self.take(_BODY)
        if not body:
            raise self.error("a loop without its body")
        self.commands("done" if body == "do" else "}")
        self.findings.values = around

    def _for_words(self) -> None:
        """Read the head of a loop: its variable, and the values if they are known."""
        name = self.take(_NAME)
        if not name.isidentifier():
            raise self.error("a loop without its variable")
        if name in self.findings.values:
            self.unclear(f"a loop over {name} inside another one")
        self.skip_lines()
        words = [_ARGUMENTS]
        if self.take(_IN):
            words = []
            self.skip_blanks()
            while (more := self.words()) is not None:
                words += more
                self.skip_blanks()
            if self.peek() not in (";", "\n"):
                raise self.error("a loop that is not understood")
        self.findings.nodes += [Assignment(name, word) for word in words]
        assigned = self.findings.assigned
        known = assigned is not None and name not in assigned
        self.findings.values = {**self.findings.values, name: list_values(words) if known else ()}

    def _case(self) -> None:
        self._expect_word()
        self.skip_lines()
        if not self.take(_IN):
            raise self.error("expected 'in'")
        self.skip_lines()
        while self._end(("esac",)) is None:
            self.accept("(")
            self._expect_word()
            while not self.accept(")"):
                if not self.accept("|"):
                    raise self.error("a pattern that is not understood")
                self._expect_word()
            if self.commands(";;", "esac", empty=True) == "esac":
                return
            self.skip_lines()

    def _condition(self) -> None:
        """Read [[ … ]]."""
        while True:
            self.skip_lines()
            if self.take(_TEST_OPERATOR):
                continue
            word = self._expect_word()
            if word.text == "]]" and not word.quoted:
                return
            if word.text in _EVALUATING:
                self.unclear(f"evaluates the operands of {word.text} in [[ ]]")

    def _function(self, name: str) -> None:
        """Read the body of a function, which is judged as if it ran."""
        self.unclear(f"defines the function {name}", change=True)
        self.skip_lines()
        around = self.findings.values
        # It may be called from elsewhere.
        self.findings.values = {key: value for key, value in around.items() if key == HOME}
        if not self._command():
            raise self.error("a command is missing")
        self.findings.values = around

    def substitution(self, end: str) -> None:
        """Read the commands of a substitution up to its end, which is moved over."""
        start = self.at
        waiting, self.waiting = self.waiting, []
        self.commands(end, empty=True)
        self.finish_here_documents()
        if waiting and "\n" in self.text[start : self.at]:
            self.unclear("a line ends inside a substitution before a here-document began")
        self.waiting = waiting


def parse(text: str, *, home: str = "", folder_splits: bool = True) -> Script:
    """Find every simple command in a text. It never raises, whatever the text is.

    Args:
        text: the text.
        home: what `$HOME` is; empty if that is not known.
        folder_splits: whether `$PWD` outside of quotes may become several words.

    Example:
        >>> script = parse("cd src && git log | head")
        >>> [" ".join(word.text for word in node.words) for node in script.found]
        ['cd src', 'git log', 'head']
    """
    findings = Findings(text, folder_splits, {HOME: (Piece(home),)} if home else {})
    reader = Parser(text, findings=findings)
    try:
        reader.commands("", empty=True)
        reader.finish_here_documents()
    except ShellSyntaxError as error:
        reader.unclear(f"can't be read as a command: {error}")
    return Script(tuple(findings.nodes), findings.computes)


# A command prefix or an exact command, split into words as the shell would split it.

_LAST = "."
_SETTING = re.compile(r"[A-Za-z_]\w*=", re.ASCII)


def split_words(text: str) -> tuple[str, ...]:
    """Split text into words, quotes removed; settings such as `CI=1` before them are words, too.

    Raises:
        RuleFileError: no program at all, or something that is more than plain words: an operator, an
            expansion, a redirection, a pattern.

    Example:
        >>> split_words("CI=1 npm run 'my task'")
        ('CI=1', 'npm', 'run', 'my task')
    """
    # A last word, since nothing may stand behind the words or around them: `ls &`, `(ls)`, `ls # x`.
    match parse(f"{text.strip()} {_LAST}").found:
        case (SimpleCommand((first, *_, last) as words, settings, ()),) if (
            last.text == _LAST
            and text.split(maxsplit=1)[0] not in ("!", "time")
            and all(word.static for word in words)
            and all(each.setting for each in settings)
            and not _SETTING.match(first.text)
        ):
            return (*(each.setting for each in settings), *(word.text for word in words[:-1]))
    raise RuleFileError(
        f"not a plain command: {text!r}",
        hint="write its words alone, without operators or variables, such as: git status",
    )


def split_settings(words: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Take the settings before a command apart from its words.

    Example:
        >>> split_settings(["CI=1", "npm", "run", "A=b"])
        (('CI=1',), ('npm', 'run', 'A=b'))
    """
    start = next((at for at, word in enumerate(words) if not _SETTING.match(word)), len(words))
    return tuple(words[:start]), tuple(words[start:])
