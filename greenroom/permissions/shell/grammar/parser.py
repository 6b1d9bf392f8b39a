"""The parser: every simple command in a shell text, wherever it stands.

It knows the part of bash that can be told in advance. Everything else is noted as unclear or ends
the reading, and commands that were found by then are judged all the same.
"""

import re
from collections.abc import Sequence

from greenroom.permissions.facts.word import Word
from greenroom.permissions.shell.grammar.compound_reader import CompoundReader
from greenroom.permissions.shell.grammar.cursor import Findings, ShellSyntaxError, TooDeepError
from greenroom.permissions.shell.grammar.nodes import Assignment, Redirection, Script, SimpleCommand

__all__ = ["parse"]

_CONNECTOR = re.compile(r"&&|\|\||\|&|\|")
_CASE_END = re.compile(r";;&|;;|;&")
_SEPARATOR = re.compile(r";(?![;&])|&(?![&>])")
# `time` before an option other than -p is the program of that name.
_PREFIX = re.compile(
    r"(?:!|time(?:[ \t]+-p(?=[ \t]))?(?:[ \t]+--(?=[ \t]))?(?![ \t]+-))(?=[ \t\n;&|()]|\\\n|$)"
)
_WORDS = "if then elif else fi for select while until do done case esac function coproc [[ ! { }"
_KEYWORDS = frozenset(_WORDS.split())
# Behind what lay too deep stand the ends of what it lay in.
_CLOSERS = re.compile(r"[)}\"'`\s;]*")
_NEXT_COMMAND = re.compile(r"[^\n;&|]*[\n;&|]+")
MAX_RESUMES = 4000
MAX_ERRORS = 50


class Parser(CompoundReader):
    """Reads lists of commands."""

    fed = False  # whether the standard input is a pipe

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
                raise ShellSyntaxError(f"not understood {self.here}")
            seen = True
            self.skip_blanks()
            if not (self.take(_SEPARATOR) or self.peek() == "\n"):
                end = self._end(ends)
                if end is None:
                    raise ShellSyntaxError(f"not understood {self.here}")
                return end

    def _end(self, ends: tuple[str, ...]) -> str | None:
        """Move over an end that stands here; None if none does."""
        if self.at >= len(self.text):
            return "" if "" in ends else None
        if ";;" in ends and self.take(_CASE_END):
            return ";;"
        if ")" in ends:
            return ")" if self.accept(")") else None
        if (keyword := self.keyword()) and keyword in ends:
            self.accept(keyword)
            return keyword
        return None

    def _pipeline(self) -> bool:
        """Read commands joined by `|`, `&&` and `||`."""
        fed = self.fed
        while True:
            timed = False
            while self.peek() in ("!", "t") and self.take(_PREFIX):
                timed = True
                self.skip_blanks()
            is_command = self.command()
            self.skip_blanks()
            connector = self.take(_CONNECTOR) if is_command else ""
            self.fed = fed or connector in ("|", "|&")
            if not connector:
                return is_command or timed
            self.skip_lines()

    def command(self) -> bool:
        """Read one command; False if none begins here."""
        if plain := self.plain_command():
            return self._found(plain, (), ())
        known = len(self.findings.nodes)
        if not self.compound():
            return self._simple()
        redirections = self._redirections()
        if any(each.operator.startswith("<") for each in redirections):
            for at, node in enumerate(self.findings.nodes[known:], known):
                if isinstance(node, SimpleCommand) and not node.fed:
                    self.findings.nodes[at] = node._replace(fed=True)
        if redirections:
            self.findings.nodes.append(SimpleCommand(redirections=redirections))
        return True

    def _redirections(self) -> tuple[Redirection, ...]:
        found: list[Redirection] = []
        self.skip_blanks()
        while (redirection := self.redirection()) is not None:
            found.append(redirection)
            self.skip_blanks()
        return tuple(found)

    def _simple(self) -> bool:
        words: list[Word] = []
        assignments: list[Assignment] = []
        redirections: list[Redirection] = []
        start = self.at
        while True:
            redirection = self.redirection()
            if redirection is not None:
                redirections.append(redirection)
            elif not words and (assignment := self.assignment()) is not None:
                assignments.append(assignment)
            elif (more := self.words()) is not None:
                words += more
            elif self.peek() == "(" and len(words) == 1 and not (assignments or redirections):
                return self._function_here(words[0])
            elif self.peek() in ("(", "<", ">") and self.peek():
                raise ShellSyntaxError(f"not understood {self.here}")
            else:
                break
            self.skip_blanks()
        if words and words[0].text in _KEYWORDS and not words[0].quoted:
            raise ShellSyntaxError(f"a keyword in an unexpected place {self.here}")
        if self.at == start:
            return False
        return self._found(words, assignments, redirections)

    def _found(
        self,
        words: Sequence[Word],
        assignments: Sequence[Assignment],
        redirections: Sequence[Redirection],
    ) -> bool:
        """Note a simple command."""
        fed = self.fed or any(each.operator.startswith("<") for each in redirections)
        found = SimpleCommand(tuple(words), tuple(assignments), tuple(redirections), fed)
        self.findings.nodes.append(found)
        return True

    def _function_here(self, name: Word) -> bool:
        self.expect("(")
        self.skip_blanks()
        self.expect(")")
        if not name.static:
            raise ShellSyntaxError("a function whose name can't be told")
        self.function_body(name.text)
        return True

    def skip_command(self) -> bool:
        """Leave words unread up to the next separator, else parenthesis; False if neither comes."""
        start, separated = self.at, self.at <= self.findings.last_separator(self.text)
        goes_on = bool(self.take(_NEXT_COMMAND)) if separated else self.accept(")")
        self.findings.unread.append(self.text[start : self.at if goes_on else None])
        return goes_on

    def substitution(self, end: str) -> None:
        """Read the commands of a substitution up to its end, which is moved over."""
        waiting, self.waiting = self.waiting, []
        outer, self.outer_waiting = self.outer_waiting, self.outer_waiting or bool(waiting)
        self.commands(end, empty=True)
        self.finish_here_documents()
        self.waiting, self.outer_waiting = waiting, outer

    def read_apart(self, text: str, *, commands: bool) -> bool:
        """Read another text with the same findings; True if its value is only known later."""
        reader = Parser(text, findings=self.findings, depth=self.depth)
        try:
            if not commands:
                return reader.here_document()
            reader.commands("", empty=True)
            reader.finish_here_documents()
        except TooDeepError:
            self.findings.deferred.append((self.text, self.at))
            raise
        except ShellSyntaxError:
            self.findings.unread.append(text[reader.at :])
            raise
        return True


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
    findings = Findings(home=home, folder_splits=folder_splits)
    _read(Parser(text, findings=findings))
    resumes = 0
    while findings.deferred and resumes < MAX_RESUMES:
        resumes += 1
        rest, at = findings.deferred.pop()
        gap = _CLOSERS.match(rest, at)
        _read(Parser(rest, gap.end() if gap else at, findings=findings))
    begins: dict[str, int] = {}
    for rest, at in (*findings.deferred, *findings.given_up):
        begins[rest] = min(at, begins.get(rest, at))
    findings.unread += [rest[at:] for rest, at in begins.items()]
    return Script(tuple(findings.nodes), findings.computes, tuple(findings.unread))


def _read(reader: Parser) -> None:
    """Read to the end; where that fails, note it and go on behind the place for the sake of denials.

    What lies too deep is read later by a reader of its own, so that no depth hides a command.
    """
    for _ in range(MAX_ERRORS):
        try:
            reader.commands("", empty=True)
            reader.finish_here_documents()
        except TooDeepError:
            reader.unclear("is nested too deeply to be told")
            return
        except ShellSyntaxError as error:
            reader.unclear(f"can't be read as a command: {error}")
            reader.waiting = []
            if not reader.skip_command():
                return
        else:
            return
    reader.unclear("can't be read as a command, too often")
    reader.findings.given_up.append((reader.text, reader.at))
