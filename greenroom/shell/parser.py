"""The parser: finds every simple command in a shell text, however deeply it is nested.

It supports the part of bash that can be understood in advance. Everything else is noted as unclear
or ends the parsing; the commands that were found by then are judged all the same.
"""

import re
from typing import NamedTuple

from greenroom.shell.lexer import PLAIN_WORDS, Findings, Lexer, ShellSyntaxError
from greenroom.shell.words import (
    HOME,
    Assignment,
    Piece,
    Redirection,
    Script,
    SimpleCommand,
    Word,
    list_values,
)

_RESERVED = re.compile(
    r"(?:if|then|elif|else|fi|for|select|while|until|do|done|case|esac|function|coproc|\[\[|[{}!])"
)
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=|\[)")
_OPERATOR = re.compile(
    r"(?P<fd>[0-9]+|\{[A-Za-z_]\w*\})?"
    r"(?P<op><<<|<<-|<<|<>|<&|>>|>\||>&|&>>|&>|<(?!\()|>(?!\())"
)
_LINE = re.compile(r"[^\n]*\n?")
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\\n\Z")
_KEYWORD_END = r"(?=[ \t\n;&|<>()]|\\\n|$)"
_KEYWORD = re.compile(rf"(?:{_RESERVED.pattern}|time){_KEYWORD_END}")
_COMPOUND = re.compile(rf"\(\(?|(?:if|for|while|until|case|\[\[|\{{){_KEYWORD_END}")
_BODY = re.compile(rf"(?:do|\{{){_KEYWORD_END}")
_IN = re.compile(r"in(?=[ \t\n;])")
# A command of plain words that begins with neither a keyword nor an assignment.
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
# Operators in [[ … ]] that evaluate their operands as arithmetic, or look up a subscript.
_EVALUATING = frozenset({"-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "=~"})
# Text in `(( … ))` that other shells would run, since they take it for subshells.
_SUBSHELL = re.compile(r"\(|\w\s+\w")
_ARGUMENTS = Word('"$@"', dynamic=True, split=True)


class _HereDocument(NamedTuple):
    """A here-document whose body has not been read yet."""

    delimiter: Word
    tabs: bool


class Parser:
    """Reads lists of commands, compound commands that hold such lists, and simple commands.

    Attributes:
        lexer: reads the text.
        findings: what was found so far.
        waiting: the here-documents whose bodies have not been read yet.
        is_piped: whether the standard input is a pipe.
    """

    def __init__(self, text: str, findings: Findings, *, depth: int = 0) -> None:
        """Start at the beginning; what is found is added to `findings`."""
        self.lexer = Lexer(text, findings, self, depth=depth)
        self.findings = findings
        self.waiting: list[_HereDocument] = []
        self.is_piped = False

    def _start_nested(self, text: str) -> "Parser":
        """Make a parser for another text that adds to the same findings."""
        return Parser(text, self.findings, depth=self.lexer.depth)

    def read_text(self, text: str) -> None:
        """Read the commands of another text, such as that in backticks."""
        self._start_nested(text).read_substitution("")

    def read_commands(self, *ends: str, empty: bool = False) -> str:
        """Read a list of commands up to one of these ends, then skip and return that end.

        Raises:
            ShellSyntaxError: the list breaks off, is not understood, or lacks a command.
        """
        seen = empty
        while True:
            self._skip_lines()
            end = self._take_end(ends)
            if end is not None and seen:
                return end
            if not self._read_pipeline():
                raise self.lexer.make_error("not understood")
            seen = True
            self.lexer.skip_blanks()
            if not (self.lexer.take(_SEPARATOR) or self.lexer.peek() == "\n"):
                end = self._take_end(ends)
                if end is None:
                    raise self.lexer.make_error("not understood")
                return end

    def _take_end(self, ends: tuple[str, ...]) -> str | None:
        """Skip and return an end if one comes next, else return None."""
        if self.lexer.at >= len(self.lexer.text):
            return "" if "" in ends else None
        if ";;" in ends and self.lexer.take(_CASE_END):
            return ";;"
        if ")" in ends:
            return ")" if self.lexer.accept(")") else None
        keyword = _KEYWORD.match(self.lexer.text, self.lexer.at)
        if keyword and keyword[0] in ends:
            return self.lexer.take(_KEYWORD)
        return None

    def _read_pipeline(self) -> bool:
        """Read commands joined by `|`, `&&` and `||`."""
        is_piped = self.is_piped
        while True:
            timed = False
            while self.lexer.peek() in ("!", "t") and self.lexer.take(_PREFIX):
                timed = True
                self.lexer.skip_blanks()
            is_command = self._read_command()
            self.lexer.skip_blanks()
            connector = self.lexer.take(_CONNECTOR) if is_command else ""
            self.is_piped = is_piped or connector in ("|", "|&")
            if not connector:
                return is_command or timed
            self._skip_lines()

    def _read_command(self) -> bool:
        """Read one command; False if none begins here."""
        nodes = self.findings.nodes
        if plain := self.lexer.take(_PLAIN):
            nodes.append(_make_plain_command(plain, has_input=self.is_piped))
            return True
        known = len(nodes)
        if not self._read_compound():
            return self._read_simple()
        if redirections := self._read_redirections():
            if any(each.is_input for each in redirections):
                inside = nodes[known:]
                nodes[known:] = [
                    each._replace(has_input=True) if isinstance(each, SimpleCommand) else each
                    for each in inside
                ]
            nodes.append(SimpleCommand(redirections=tuple(redirections)))
        return True

    def _read_compound(self) -> bool:
        """Read a compound command without its redirections; False if none begins here."""
        opening = _COMPOUND.match(self.lexer.text, self.lexer.at) or _FUNCTION.match(
            self.lexer.text, self.lexer.at
        )
        if opening is None:
            return False
        with self.lexer.nest():
            self.lexer.at = opening.end()
            match opening[0]:
                case "((":
                    self._read_sum_command()
                case "(":
                    self.read_commands(")")
                case "{":
                    self.read_commands("}")
                case "if":
                    self._read_if()
                case "while" | "until":
                    self.read_commands("do")
                    self.read_commands("done")
                case "for":
                    self._read_for()
                case "case":
                    self._read_case()
                case "[[":
                    self._read_condition()
                case _:
                    self._read_function(opening[1] or opening[2])
        return True

    def _expect_word(self) -> Word:
        self.lexer.skip_blanks()
        word = self.lexer.read_word()
        if word is None:
            raise self.lexer.make_error("a word is missing")
        self.lexer.skip_blanks()
        return word

    def _read_sum_command(self) -> None:
        start = self.lexer.at
        self.lexer.read_sum("))")
        is_plain = not _SUBSHELL.search(self.lexer.text[start : self.lexer.at])
        self.findings.add_unclear(
            "evaluates an arithmetic command, which may set variables", change=is_plain
        )

    def _read_if(self) -> None:
        self.read_commands("then")
        while (end := self.read_commands("elif", "else", "fi")) != "fi":
            if end == "elif":
                self.read_commands("then")

    def _read_for(self) -> None:
        around = self.findings.values
        self.lexer.skip_blanks()
        if self.lexer.accept("(("):
            self.findings.add_unclear("counts in an arithmetic loop", change=True)
            self.lexer.read_sum("))")
        else:
            self._read_for_words()
        self.lexer.skip_blanks()
        self.lexer.accept(";")
        self._skip_lines()
        body = self.lexer.take(_BODY)
        if not body:
            raise self.lexer.make_error("a loop without its body")
        self.read_commands("done" if body == "do" else "}")
        self.findings.values = around

    def _read_for_words(self) -> None:
        """Read the head of a loop: its variable, and its values if they are known."""
        name = self.lexer.take(_NAME)
        if not name.isidentifier():
            raise self.lexer.make_error("a loop without its variable")
        if name in self.findings.values:
            self.findings.add_unclear(f"a loop over {name} inside another one")
        self._skip_lines()
        words = [_ARGUMENTS]
        if self.lexer.take(_IN):
            words = []
            self.lexer.skip_blanks()
            while (more := self.lexer.read_words()) is not None:
                words += more
                self.lexer.skip_blanks()
            if self.lexer.peek() not in (";", "\n"):
                raise self.lexer.make_error("a loop that is not understood")
        self.findings.nodes += [Assignment(name, word) for word in words]
        assigned = self.findings.assigned_names
        known = assigned is not None and name not in assigned
        self.findings.values = {**self.findings.values, name: list_values(words) if known else ()}

    def _read_case(self) -> None:
        self._expect_word()
        self._skip_lines()
        if not self.lexer.take(_IN):
            raise self.lexer.make_error("expected 'in'")
        self._skip_lines()
        while self._take_end(("esac",)) is None:
            self.lexer.accept("(")
            self._expect_word()
            while not self.lexer.accept(")"):
                if not self.lexer.accept("|"):
                    raise self.lexer.make_error("a pattern that is not understood")
                self._expect_word()
            if self.read_commands(";;", "esac", empty=True) == "esac":
                return
            self._skip_lines()

    def _read_condition(self) -> None:
        """Read [[ … ]]."""
        while True:
            self._skip_lines()
            if self.lexer.take(_TEST_OPERATOR):
                continue
            word = self._expect_word()
            if word.text == "]]" and not word.quoted:
                return
            if word.text in _EVALUATING:
                self.findings.add_unclear(f"evaluates the operands of {word.text} in [[ ]]")

    def _read_function(self, name: str) -> None:
        """Read the body of a function, which is judged as if the function were called."""
        self.findings.add_unclear(f"defines the function {name}", change=True)
        self._skip_lines()
        around = self.findings.values
        # It may be called from anywhere, so variables of loops are unknown.
        self.findings.values = {key: value for key, value in around.items() if key == HOME}
        if not self._read_command():
            raise self.lexer.make_error("a command is missing")
        self.findings.values = around

    def read_substitution(self, end: str) -> None:
        """Read the commands of a substitution up to its end, and skip it."""
        start = self.lexer.at
        waiting, self.waiting = self.waiting, []
        self.read_commands(end, empty=True)
        self.finish_here_documents()
        if waiting and "\n" in self.lexer.text[start : self.lexer.at]:
            self.findings.add_unclear("a substitution has a line end before a here-document began")
        self.waiting = waiting

    def _read_simple(self) -> bool:
        """Read a simple command; False if none begins here.

        Raises:
            ShellSyntaxError: it is not a command, or not understood.
        """
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        start = self.lexer.at
        while True:
            if redirection := self._read_redirection():
                redirections.append(redirection)
            elif not words and (assignment := self._read_assignment()):
                assignments.append(assignment)
            elif (more := self.lexer.read_words()) is not None:
                words += more
            elif self.lexer.peek() in ("(", "<", ">"):
                raise self.lexer.make_error("not understood")
            else:
                break
            self.lexer.skip_blanks()
        if words and _RESERVED.fullmatch(words[0].text) and not words[0].quoted:
            raise self.lexer.make_error("a keyword in an unexpected place")
        if self.lexer.at == start:
            return False
        has_input = self.is_piped or any(each.is_input for each in redirections)
        node = SimpleCommand(tuple(words), tuple(assignments), tuple(redirections), has_input)
        self.findings.nodes.append(node)
        return True

    def _read_assignment(self) -> Assignment | None:
        """Read one assignment; None if none begins here."""
        found = _ASSIGNMENT.match(self.lexer.text, self.lexer.at)
        if found is None:
            return None
        name, operator = found.groups()
        self.lexer.at = found.end()
        if operator == "[" or self.lexer.peek() == "(":
            raise self.lexer.make_error("an array is set")
        value = self.lexer.read_word() or Word("")
        if operator == "+=":
            value = Word(f"${{{name}}}{value.text}", dynamic=True)
        return Assignment(name, value)

    def _read_redirections(self) -> list[Redirection]:
        """Read all redirections that come next."""
        self.lexer.skip_blanks()
        found: list[Redirection] = []
        while redirection := self._read_redirection():
            found.append(redirection)
            self.lexer.skip_blanks()
        return found

    def _read_redirection(self) -> Redirection | None:
        """Read one redirection; None if none begins here.

        Raises:
            ShellSyntaxError: its target is missing, or its delimiter is unclear.
        """
        found = _OPERATOR.match(self.lexer.text, self.lexer.at)
        if found is None:
            return None
        self.lexer.at = found.end()
        operator = found["op"]
        if (found["fd"] or "").startswith("{"):
            self.findings.add_unclear(f"sets {found['fd']} to a descriptor", change=True)
        self.lexer.skip_blanks()
        if operator in ("<&", ">&") and self.lexer.accept("-"):
            return Redirection(operator, Word("-"))  # a new word begins after it
        start = self.lexer.at
        target = self.lexer.read_word()
        if target is None:
            raise self.lexer.make_error("a redirection without its target")
        if "{" in target.text and ("," in target.text or ".." in target.text):
            target = target._replace(dynamic=True)  # braces may expand to another name
        if operator in ("<<", "<<-"):
            if target.dynamic or re.search(r"[\n$`]", self.lexer.text[start : self.lexer.at]):
                raise self.lexer.make_error("a here-document with an unclear delimiter")
            self.waiting.append(_HereDocument(target, operator == "<<-"))
        return Redirection(operator, target)

    def _skip_lines(self) -> None:
        """Skip blanks, comments and line ends, and read the here-documents that follow them."""
        self.lexer.skip_blanks()
        while self.lexer.accept("\n"):
            self._read_here_documents()
            self.lexer.skip_blanks()

    def _read_here_documents(self) -> None:
        """Read the bodies that begin here; each becomes a command that is only a redirection."""
        waiting, self.waiting = self.waiting, []
        for document in waiting:
            text = self._read_body(document)
            body = Word(text, quoted=True)
            if not document.delimiter.quoted:
                body = self._start_nested(text).lexer.read_here_document()
            self.findings.nodes.append(SimpleCommand(redirections=(Redirection("<<", body),)))

    def _read_body(self, document: _HereDocument) -> str:
        lines: list[str] = []
        continued = False
        while self.lexer.at < len(self.lexer.text):
            line = self.lexer.take(_LINE)
            if document.tabs and not continued:
                line = line.lstrip("\t")
            if not continued and line.removesuffix("\n") == document.delimiter.text:
                return "".join(lines)
            lines.append(line)
            continued = not document.delimiter.quoted and _CONTINUED.search(line) is not None
        raise ShellSyntaxError(f"a here-document is not ended by {document.delimiter.text!r}")

    def finish_here_documents(self) -> None:
        """Note here-documents that lack their body."""
        if self.waiting:
            self.waiting = []
            self.findings.add_unclear("a here-document without its body")


def _make_plain_command(text: str, *, has_input: bool = False) -> SimpleCommand:
    return SimpleCommand(tuple([Word(each) for each in text.split()]), has_input=has_input)


def parse(text: str, *, home: str = "", folder_splits: bool = True) -> Script:
    """Find every simple command in a text. It never raises, whatever the text is.

    Args:
        text: the text.
        home: the value of `$HOME`; empty if it is unknown.
        folder_splits: whether `$PWD` outside of quotes may become several words.

    Example:
        >>> script = parse("cd src && git log | head")
        >>> [" ".join(word.text for word in node.words) for node in script.findings]
        ['cd src', 'git log', 'head']
    """
    plain = None if text.startswith("#") else _PLAIN.match(text)
    if plain and plain.end() == len(text):  # as most are
        return Script((_make_plain_command(text),))
    findings = Findings(text, folder_splits, {HOME: (Piece(home),)} if home else {})
    reader = Parser(text, findings)
    try:
        reader.read_commands("", empty=True)
        reader.finish_here_documents()
    except ShellSyntaxError as error:
        findings.add_unclear(f"can't be read as a command: {error}")
    return Script(tuple(findings.nodes), findings.computes)
