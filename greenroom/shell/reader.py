r"""The reader: takes the words of a plain command out of its text.

A command is **plain** if every word of it is known before it runs. These are: simple commands
joined by `|`, `|&`, `&&`, `||`, `;` and line ends; `!` and `time` before a pipeline; variables set
for a command; redirections of the standard descriptors; here-documents and here-strings that hold
only text; words in any kind of quotes; braces; `~`, `$HOME` and `$PWD`; and patterns of files,
which the caller looks up. A text in `"$(cat <<'END' …)"`, as models write long messages, is just
that text.

How it works
============

The reader goes through the text once, from left to right, as bash does. A word is read with its
quotes (`_read_word`): characters in quotes that would be special outside of them are replaced by
marks. Then braces make several words of one (`expand_braces`), each gets its `~` (`_expand_tilde`)
and its pattern (`_list_names`), and at last the marks become characters again. Anything else is a
`NotPlainError` with its place. There is no third way: the reader never guesses, and never skips
what it does not know.

Since an allowed command runs as `render` writes it and not as its text, an error in here can make
the output of a command wrong, but can't make it do anything that was not judged.
"""

import re
from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from greenroom.core._internal import visible
from greenroom.shell.script import (
    Clock,
    NotPlainError,
    Operator,
    Pipeline,
    Redirection,
    Script,
    SimpleCommand,
)

MAX_TEXT = 1 << 16  # characters
MAX_COMMANDS = 256
MAX_WORDS = 4096  # that one word may expand to

ListNames: TypeAlias = Callable[[str, Sequence[SimpleCommand]], Sequence[str]]
"""Lists the files that match a pattern, in order, given the commands that come before it.

It may raise a `NotPlainError`, whose place is ignored. In the pattern, literal special characters
are in brackets: `[*]`.
"""

# Quoted characters that are special outside of quotes, and their marks. No text holds these.
_SPECIAL = "{},.*?[]~:=-!^0123456789"
_MARKS = "".join(map(chr, (*range(1, 9), *range(14, 14 + len(_SPECIAL) - 8))))
_MARK, _UNMARK = str.maketrans(_SPECIAL, _MARKS), str.maketrans(_MARKS, _SPECIAL)
_CONTROL = re.compile(r"[\0-\x08\x0b-\x1f\x7f]")

_BLANKS = re.compile(r"(?>(?:[ \t]|\\\n)*)")
_COMMENT = re.compile(r"#[^\n]*")
_LINE = re.compile(r"[^\n]*\n?")
# Words without quotes, expansions, braces and patterns, as most are; `=` only after a dash.
_SIMPLE = re.compile(r"(?:-[\w./:@%+,^=!#-]*|[\w./:@%+,^-][\w./:@%+,^!#-]*)(?=[ \t\n;|)]|\Z)")
_UNQUOTED = re.compile(r"[^ \t\n;&|<>()'\"\\$`]+")
# Text in quotes of three kinds; a line may only be continued between words.
_QUOTED = re.compile(r"'([^']*)'|\\(?:([^\n])|\n(?=[ \t\n]|\Z))|\$'((?:[^'\\]|\\[nt\\'\"])*)'")
# Between double quotes: text, what a backslash quotes or continues, and a backslash that does not.
_IN_DOUBLE = re.compile(r'[^"\\$`]+|\\([$`"\\])|\\\n|\\(?!\Z)')
_ESCAPES = {"n": "\n", "t": "\t"}
_ENDS = frozenset(" \t\n;&|<>()")  # of words
_VARIABLE = re.compile(r"\$(?:(HOME|PWD)(?![A-Za-z0-9_\[{]|\\\n)|\{(HOME|PWD)\})")
_EXPANDS = re.compile(r"\$(?:[A-Za-z0-9_@*#?$!({\[-]|\\\n)")
_SHOWN = re.compile(r"\$(?:\([^()\n]{0,40}\)?|\w{1,40}|\{[^}\n]{0,40}\}?|.)")
_TAKEN_APART = re.compile(r"\A\Z|[\s*?\[\\]")
_MESSAGE = re.compile(
    r"\$\([ \t]*cat[ \t]+<<(-?)[ \t]*(?:(['\"])(\w+)\2|(\\?)(\w+))[ \t]*\n", re.ASCII
)
_MESSAGE_END = re.compile(r"[ \t\n]*\)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+=|=\(?|\[)", re.ASCII)
_TILDE_IN_VALUE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=(?:[^~]*:|.*:)?~", re.DOTALL)
_REDIRECTION = re.compile(r"([0-9]*|\{[A-Za-z_]\w*\})(<<<|<<-|<<|<>|<&|<|>>|>\||>&|>)|(&>>?)")
_COPY = re.compile("[0-9]*-?")
_KEYWORD = re.compile(
    r"(?:if|then|else|elif|fi|for|while|until|do|done|case|esac|select|function|coproc|in|\{|\}"
    r"|\[\[|\]\]|!|time)(?=[ \t\n;&|<>()]|\Z)"
)
_PREFIX = re.compile(r"(?:(time)(?:[ \t]+(-p))?[ \t]+(?!-))?(?:(!)[ \t]+)?")
_CONNECTOR = re.compile(r"\|\||&&|\|&|\||;(?![;&])|\n")
_SET = r"\[[!^]?(?:[0-9]-[0-9]|[a-z]-[a-z]|[A-Z]-[A-Z]|[A-Za-z0-9_.])+\]"
_GLOB = re.compile(rf"({_SET})|\[|[{_MARKS}]")
_REVERSED = re.compile(r"(\w)-(\w)")
_GROUP = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(0|[1-9][0-9]{0,4})\.\.(0|[1-9][0-9]{0,4})")
# After these a folder, or a variable, may be another one.
_MOVERS = frozenset({"cd", "pushd", "popd"})
_SETTER_NAMES = """
. source eval read mapfile readarray declare typeset local export readonly unset let set getopts
trap exec alias shopt
"""
_SETTERS = frozenset(_SETTER_NAMES.split())
_REASONS = {
    "(": "a subshell or function, ( )",
    ")": "a parenthesis, )",
    "&": "a command in the background, &",
    "|": "a pipe without a command",
    ";": "a separator without a command",
    "'": "a single quote that is not closed",
    "\\": "a line that is continued inside a word",
    "`": "a substitution, ` `",
}
_GOES_ON = "a list that goes on"
_NOTHING = Redirection(0, "<", "/dev/null")


class _Draft(msgspec.Struct):
    """A simple command that is still read; its here-documents follow at the end of the line."""

    line: int = 0
    words: list[str] = msgspec.field(default_factory=list)
    settings: list[tuple[str, str]] = msgspec.field(default_factory=list)
    redirections: list[Redirection] = msgspec.field(default_factory=list)

    def finish(self) -> SimpleCommand:
        parts = tuple(self.words), tuple(self.settings), tuple(self.redirections)
        return SimpleCommand(*parts, line=self.line)


class _HereDocument(NamedTuple):
    """A here-document whose body has not been read yet, and where its text belongs."""

    delimiter: str
    literal: bool
    tabs: bool
    redirections: list[Redirection]
    at: int


def _no_names(pattern: str, earlier: Sequence[SimpleCommand]) -> Sequence[str]:
    raise NotPlainError(f"a pattern of files, {pattern}", 0)


def read(
    text: str, *, home: str = "", folder: str = "", list_names: ListNames = _no_names
) -> Script:
    """Read a plain command.

    Args:
        text: the text.
        home: the value of `$HOME`; empty if it is unknown.
        folder: the value of `$PWD`; empty if it is unknown.
        list_names: looks up patterns of files; without it, no pattern is plain.

    Raises:
        NotPlainError: the text is not plain, or has more than 64 KiB or 256 simple commands.

    Example:
        >>> pipeline, = read("FOO=1 sort -r 'my file' 2>/dev/null | head")
        >>> for each in pipeline.commands:
        ...     print(each.words, each.settings, [tuple(x) for x in each.redirections])
        ('sort', '-r', 'my file') (('FOO', '1'),) [(2, '>', '/dev/null')]
        ('head',) () []
    """
    if len(text) > MAX_TEXT:
        raise NotPlainError(f"a text of more than {MAX_TEXT >> 10} KiB", 0)
    if control := _CONTROL.search(text):
        raise NotPlainError(f"a control character, {visible(control[0])}", control.start())
    return _Reader(text, {"HOME": home, "PWD": folder}, list_names).read_script()


class _Reader:
    """Reads one text; `at` is how far it has come."""

    def __init__(self, text: str, values: dict[str, str], list_names: ListNames) -> None:
        self.text = text
        self.at = 0
        self._values = values
        self._names_of = list_names
        self._documents: list[_HereDocument] = []
        self._drafts: list[_Draft] = []
        self._earlier: list[SimpleCommand] = []  # the same, without the texts that follow them
        self._counted = 0  # up to here, line ends were counted

    def fail(self, reason: str, at: int | None = None) -> NotPlainError:
        """Make the error that the text is not plain here."""
        return NotPlainError(reason, self.at if at is None else at)

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Skip what a pattern matches here."""
        found = pattern.match(self.text, self.at)
        if found:
            self.at = found.end()
        return found

    def peek(self, length: int = 1) -> str:
        """Return the next characters without moving; fewer near the end."""
        return self.text[self.at : self.at + length]

    # Lists and pipelines

    def read_script(self) -> Script:
        pipelines: list[tuple[Operator, bool, Clock, list[_Draft]]] = []
        operator: Operator = ""
        self._skip_lines()
        while self.at < len(self.text):
            prefix, first = self.take(_PREFIX), len(self._drafts)
            sign = self._read_pipeline()
            timed, posix, inverted = prefix.groups() if prefix else ("", "", "")
            clock: Clock = "time -p" if posix else "time" if timed else ""
            pipelines.append((operator, bool(inverted), clock, self._drafts[first:]))
            operator = "&&" if sign == "&&" else "||" if sign == "||" else ";"
            self._skip_lines()
        if not pipelines or operator in ("&&", "||"):
            raise self.fail(_GOES_ON if pipelines else "nothing to run")
        if self._documents:
            raise self.fail("a here-document without its body")
        return tuple(
            Pipeline(joined, tuple(each.finish() for each in drafts), inverted, clock)
            for joined, inverted, clock, drafts in pipelines
        )

    def _read_pipeline(self) -> str:
        """Read simple commands up to the operator behind them, and return that."""
        while True:
            draft = self._read_simple()
            found = self.take(_CONNECTOR)
            sign = found[0] if found else ""
            if not found and self.at < len(self.text):
                raise self.fail(_REASONS.get(self.peek(), _GOES_ON))
            if sign == "|&":
                draft.redirections.append(Redirection(2, ">&", "1"))
            if sign not in ("|", "|&"):
                self.at -= sign == "\n"  # `_skip_lines` reads the here-documents behind it
                return sign
            self._skip_lines()

    def _skip_lines(self) -> None:
        """Skip blanks, comments and line ends, and read the here-documents that follow them."""
        while True:
            self.take(_BLANKS)
            self.take(_COMMENT)
            if self.peek() != "\n":
                return
            self.at += 1
            documents, self._documents = self._documents, []
            for each in documents:
                text = self._read_body(each.delimiter, literal=each.literal, tabs=each.tabs)
                # A here-string adds a line end; an empty text has none.
                source = Redirection(0, "<<<", text[:-1]) if text else _NOTHING
                each.redirections[each.at] = source

    # Simple commands

    def _read_simple(self) -> _Draft:
        if len(self._drafts) >= MAX_COMMANDS:
            raise self.fail(f"more than {MAX_COMMANDS} commands")
        start, draft = self.at, _Draft()
        if keyword := _KEYWORD.match(self.text, self.at):
            raise self.fail(f"a keyword, {keyword[0]}")
        while True:
            self.take(_COMMENT)
            if simple := self.take(_SIMPLE):
                draft.words.append(simple[0])
            elif not (
                self._read_redirection(draft)
                or (not draft.words and self._read_setting(draft))
                or self._read_words(draft)
            ):
                break
            self.take(_BLANKS)
        if draft.settings and not draft.words:
            raise self.fail("a variable that is set for what follows", start)
        if not (draft.words or draft.redirections):
            sign = "" if self.peek(2) in ("&&", "||") else self.peek()
            raise self.fail(_REASONS.get(sign, _GOES_ON))
        if draft.words and not draft.words[0]:
            raise self.fail("a command without a name", start)
        draft.line = self._drafts[-1].line if self._drafts else 0
        draft.line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        self._drafts.append(draft)
        self._earlier.append(draft.finish())  # once, not for each pattern that asks for them
        return draft

    def _read_setting(self, draft: _Draft) -> bool:
        """Read a variable that is set for the command, if one begins here."""
        found = _ASSIGNMENT.match(self.text, self.at)
        if found is None:
            return False
        if found[2] != "=":
            raise self.fail(f"an array or an addition to a variable, {found[0]}")
        self.at = found.end()
        value = self._read_word() or ""
        if re.search(r"(?:\A|:)~", value):
            raise self.fail("a tilde in the value of a variable", found.start())
        draft.settings.append((found[1], value.translate(_UNMARK)))
        return True

    def _read_words(self, draft: _Draft) -> bool:
        """Read one word, which may expand to several, if one begins here."""
        start = self.at
        word = self._read_word()
        if word is None:
            return False
        expanded = expand_braces(word) if "{" in word else [word]
        if not expanded:
            raise self.fail("braces that are nested, or a range that is not simple", start)
        for each in expanded:
            if not draft.words and _has_glob(each):
                raise self.fail("a pattern as the name of a command", start)
            draft.words += self._list_names(self._expand_tilde(each, start), start)
        return True

    def _read_redirection(self, draft: _Draft) -> bool:
        """Read a redirection, if one begins here."""
        start = self.at
        found = self.take(_REDIRECTION)
        if found is None:
            return False
        number, operator = found[1] or "", found[2] or found[3]
        self.take(_BLANKS)
        if operator in ("<<", "<<-") and number in ("", "0"):
            self._begin_document(draft, tabs=operator == "<<-", start=start)
            return True
        target = self._read_target(start, is_text=operator == "<<<")
        sign: Literal[">", ">>"] = ">>" if ">>" in operator else ">"
        is_copy = operator == ">&" and (number or _COPY.fullmatch(target))
        match operator:
            case "<" | "<<<" if number in ("", "0"):
                draft.redirections.append(Redirection(0, operator, target))
            case ">&" if number in ("", "1", "2") and target in ("1", "2"):
                draft.redirections.append(Redirection(int(number or 1), ">&", target))
            case ">" | ">|" | ">>" if number in ("", "1", "2"):
                draft.redirections.append(Redirection(int(number or 1), sign, target))
            case "&>" | "&>>" | ">&" if not is_copy:
                draft.redirections += (Redirection(1, sign, target), Redirection(2, ">&", "1"))
            case _:
                raise self.fail(f"a redirection of another kind, {found[0]}", start)
        return True

    def _read_target(self, start: int, *, is_text: bool) -> str:
        """Read the one word behind a redirection."""
        word = self._read_word() if self.peek() != "#" else None
        if word is None:
            raise self.fail("a redirection without its target", start)
        if expand_braces(word) != [word] or (not is_text and _has_glob(word)):
            raise self.fail("a redirection to a pattern", start)
        return self._expand_tilde(word, start).translate(_UNMARK)

    # Here-documents

    def _begin_document(self, draft: _Draft, *, tabs: bool, start: int) -> None:
        begin, word = self.at, self._read_word()
        raw = self.text[begin : self.at]
        if not word or re.search(r"[\n$`]", raw):
            raise self.fail("a here-document without a simple delimiter", start)
        literal = re.search(r"['\"\\]", raw) is not None
        delimiter, at = word.translate(_UNMARK), len(draft.redirections)
        self._documents.append(_HereDocument(delimiter, literal, tabs, draft.redirections, at))
        draft.redirections.append(_NOTHING)  # until its body is read

    def _read_body(self, delimiter: str, *, literal: bool, tabs: bool) -> str:
        """Read the lines of a here-document up to its delimiter, and skip that."""
        start, lines = self.at, list[str]()
        while self.at < len(self.text):
            found = self.take(_LINE)
            line = found[0] if found else ""
            line = line.lstrip("\t") if tabs else line
            if line.removesuffix("\n") == delimiter:
                body = "".join(lines)
                return body if literal else self._read_document_text(body, start)
            lines.append(line)
        raise self.fail(f"a here-document that {delimiter!r} does not end", start)

    def _read_document_text(self, body: str, start: int) -> str:
        """Return the text of a here-document that bash would expand, if it holds only text."""
        plain = re.sub(r"\\[^\n]", "", body)
        if "\\\n" in plain:
            raise self.fail("a here-document with a continued line", start)
        if found := _EXPANDS.search(plain) or re.search("`", plain):
            raise self.fail(f"an expansion in a here-document, {found[0]}", start)
        return re.sub(r"\\([$`\\])", r"\1", body)

    # Words

    def _read_word(self) -> str | None:
        """Read one word, with marks for what is quoted; None if no word begins here."""
        parts = list[str]()
        while (sign := self.peek()) and sign not in _ENDS:
            if found := self.take(_UNQUOTED):
                parts.append(found[0])
                continue
            if found := self.take(_QUOTED):
                escaped = re.sub(r"\\(.)", lambda x: _ESCAPES.get(x[1], x[1]), found[3] or "")
                text = found[1] or found[2] or escaped
            elif sign == '"':
                text = self._read_double_quotes()
            elif sign == "$":
                text = self._read_variable(quoted=False)
            else:
                raise self.fail(_REASONS[sign])
            parts.append(text.translate(_MARK))
        return "".join(parts) if parts else None

    def _read_double_quotes(self) -> str:
        start, parts = self.at, list[str]()
        self.at += 1
        while (sign := self.peek()) != '"':
            if found := self.take(_IN_DOUBLE):
                parts.append(found[1] or found[0].removesuffix("\\\n"))
            elif found := self.take(_MESSAGE):
                parts.append(self._read_message(found))
            elif sign == "$":
                parts.append(self._read_variable(quoted=True))
            elif sign == "`":
                raise self.fail(_REASONS[sign])
            else:
                raise self.fail("a double quote that is not closed", start)
        self.at += 1
        return "".join(parts)

    def _read_message(self, found: re.Match[str]) -> str:
        """Read the text of `$(cat <<'END' …)` in quotes."""
        if self._documents:
            raise self.fail("a here-document inside the line of another", found.start())
        literal = bool(found[2] or found[4])
        body = self._read_body(found[3] or found[5], literal=literal, tabs=bool(found[1]))
        if not self.take(_MESSAGE_END):
            raise self.fail("a substitution, $( )", found.start())
        return body.rstrip("\n")

    def _read_variable(self, *, quoted: bool) -> str:
        """Read `$HOME`, `$PWD`, or a dollar sign that begins nothing."""
        start = self.at
        if not quoted and self.peek(2) in ("$'", '$"'):
            raise self.fail("a quote with escapes that are not simple, or one to translate")
        if found := self.take(_VARIABLE):
            name = found[1] or found[2]
            value = self._values[name]
            is_known = value and (quoted or not _TAKEN_APART.search(value))
            if is_known and self._is_before(_SETTERS | _MOVERS if name == "PWD" else _SETTERS):
                return value
            raise self.fail(f"a variable, ${name}, that may have changed", start)
        if _EXPANDS.match(self.text, self.at):
            shown = _SHOWN.match(self.text, self.at)
            kind = "a substitution" if self.peek(2) == "$(" else "a variable"
            raise self.fail(f"{kind}, {shown[0] if shown else '$'}")
        self.at += 1
        return "$"

    def _is_before(self, changers: frozenset[str]) -> bool:
        """Return whether none of these builtins has run by now."""
        return all(changers.isdisjoint(each.words) for each in self._drafts)

    def _expand_tilde(self, word: str, start: int) -> str:
        """Replace a leading `~`; other forms, such as `~user`, are not plain."""
        if "~" not in word:
            return word
        if _TILDE_IN_VALUE.match(word):
            raise self.fail("a tilde in the value of a variable", start)
        if word[0] != "~":
            return word
        home = self._values["HOME"]
        if not (home and word[1:2] in ("", "/") and self._is_before(_SETTERS)):
            raise self.fail("a tilde that may mean another folder", start)
        return home.translate(_MARK) + word[1:]

    def _list_names(self, word: str, start: int) -> Sequence[str]:
        """List the words that a word stands for: itself, or the files that match its pattern."""
        text = word.translate(_UNMARK)
        if not _has_glob(word):
            return (text,)
        odd = re.sub(_SET, "", word).partition("[")[2]
        ranges = _REVERSED.findall(" ".join(re.findall(_SET, word)))
        if "]" in odd or any(first > last for first, last in ranges):
            raise self.fail(f"a pattern that is not simple, {visible(text[:60])}", start)
        try:
            names = self._names_of(_GLOB.sub(_write_literal, word), self._earlier)
        except NotPlainError as error:
            raise self.fail(error.reason, start) from None
        if len(names) > MAX_WORDS or any(name.startswith("-") for name in names):
            raise self.fail(f"a pattern with too many files, or options, {visible(text)}", start)
        return names or (text,)


def _write_literal(found: re.Match[str]) -> str:
    """Put a character that is not part of a pattern into brackets, if it would be special."""
    char = found[0].translate(_UNMARK)
    return char if found[1] or char not in "*?[" else f"[{char}]"


def _has_glob(word: str) -> bool:
    """Return whether bash takes a word for a pattern; a lone bracket makes none."""
    return "*" in word or "?" in word or "]" in word.partition("[")[2]


def expand_braces(word: str) -> list[str]:
    """Expand the braces in a word; nothing if bash may read them in another way.

    Example:
        >>> expand_braces("{rm,-rf}"), expand_braces("a{1..3}{}"), expand_braces("{a,{b,c}}")
        (['rm', '-rf'], ['a1{}', 'a2{}', 'a3{}'], [])
    """
    inner = word.partition("{")[2].rpartition("}")[0]
    if "," not in inner and ".." not in inner:
        return [word]
    parts = _GROUP.split(word)
    choices = [_list_choices(each) if at % 2 else [each] for at, each in enumerate(parts)]
    if re.search("[{}]", "".join(parts[::2])) or not 0 < prod(map(len, choices)) <= MAX_WORDS:
        return []
    # An empty word is left out, unless it is quoted.
    return [each for each in map("".join, product(*choices)) if each]


def _list_choices(inner: str) -> list[str]:
    """List what a group of braces stands for; nothing if it is not simple."""
    if "," in inner:
        return inner.split(",")
    if ".." not in inner:
        return [f"{{{inner}}}"]
    found = _RANGE.fullmatch(inner)
    if found is None:
        return []
    first, last = int(found[1]), int(found[2])
    step = 1 if first <= last else -1
    return [str(each) for each in range(first, last + step, step)[: MAX_WORDS + 1]]
