"""Objects as models write them: JSON, or nearly so; read in one pass, and never guessed.

Only punctuation is corrected, never words: other quotes, unescaped quotes, names without quotes,
Python's literals, comments, too many or too few commas, doubled braces, and one missing bracket at
the end; an object whose quotes are all escaped is unescaped first. An ambiguous object is broken.

Each character is passed once. The characters after a quote decide whether it ends its string, and
a bounded number of them is read for that.
"""

import re
from dataclasses import dataclass, replace

from greenroom.core._internal import InvalidJSONError, serde

DEPTH = 50
"""How many levels an object may have; no tool asks for a tenth of that."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object that could be read, the place after it, and whether it has its last bracket."""

    value: dict[str, object]
    end: int
    is_closed: bool = True


@dataclass(frozen=True, slots=True)
class BrokenObject:
    """Something that can't be read as an object, for a reason that is worded for the model.

    The text before `end` has no other object. If a string is open, nothing after it can be trusted.
    """

    reason: str
    end: int
    is_open: bool = False


_BLANK = (
    r"(?>(?:[\s\u200b\u2060\ufeff]|(?://|(?<![\n#])#(?!#))[^\n]{0,200}+"
    r"|/\*(?>(?:(?!\*/).){0,200})\*/)*)"
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "“”", "”": "“”", "„": "“”", "‘": "‘’", "’": "‘’"}
_KEY = "|".join(
    [rf"[{open_}](?>(?:[^{close}\\]|\\.){{0,500}})[{close}]" for open_, close in _QUOTES.items()]
    + [r"[^\W\d][\w$.-]{0,100}+"]
)
_SEPARATOR = rf"{_BLANK}[:：=]"


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL | re.IGNORECASE)


_ESCAPED_NAME = _compile(r'\s*+\\"')
_ESCAPED = _compile(r'(?>(?:[^"\\]++|\\.)*)')
_SKIP = _compile(_BLANK)
_MEMBER = _compile(rf"(?P<key>{_KEY}){_SEPARATOR}")
_COMMA = _compile(rf"[,，](?>(?:{_BLANK}[,，])*)")
_LITERAL = _compile(r"(?:true|false|null|none)\b|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_WORD = _compile(r"(?!(?:nan|infinity|undefined)\b)[^\W\d][\w.-]{0,100}+(?=[ \t]*+[,，}\])\r\n])")
# What may follow a string in an object or a list, besides the closing bracket.
_COMMAS = rf"{_BLANK}(?>(?:[,，]{_BLANK})+)"
_QUOTED_KEY = rf"(?=[\"'`“„‘])(?:{_KEY}){_SEPARATOR}"
_NEXT_MEMBER = _compile(rf"{_COMMAS}(?:[}}\])]|(?:{_KEY}){_SEPARATOR})")
_NEXT_ITEM = _compile(rf"{_COMMAS}(?:[\]\"'“‘{{\[-]|\d|(?:true|false|null|none)\b)")
_MISSING_COMMA = _compile(rf"{_BLANK}{_QUOTED_KEY}")
# What no string with unescaped quotes may contain, since it may not be part of it.
_STRUCTURE = _compile(
    rf"{_QUOTED_KEY}|.{_BLANK}(?>(?:[,，]{_BLANK})*){_QUOTED_KEY}|.{_SEPARATOR}"
    rf"|.{_BLANK}[,，]{_BLANK}(?=[\"'“])(?:{_KEY}){_BLANK}[\"'“{{\[\d-]"
)
# How a reply continues after an object whose last bracket is missing.
_END = _compile(
    r"\s*+(?:\Z|`|</|<[|｜]|\]\s*+(?:\Z|`|</)|(?<![^\n])[ \t*#]*+"
    r"(?:thought|action|observation|final[ _]answer|question)\b[^\n:：]{0,20}[:：])"
)
_UNTIL = {
    quote: _compile(rf"(?>(?:[^{close}\\]++|\\.)*)[{close}]") for quote, close in _QUOTES.items()
}
_NEXT_TEXT = _compile(rf".{_BLANK}[\"'“‘]")
_APOSTROPHE = _compile(r"\w['’]\w")
_GOES_ON = _compile(rf"{_COMMAS}{_QUOTED_KEY}")
_CLAIMS_MORE = _compile(r"[ \t]*+[\"'“”,，:：]")

_NO_END = "a text does not end: its closing quote is missing"
_AMBIGUOUS = 'it is ambiguous where a text ends: write quotes inside a text as \\"'


def read_object(text: str, at: int, closer: str = "}") -> Object | BrokenObject:
    """Read the members of an object, from after its opening bracket to after its `closer`.

    Example:
        >>> read_object("{'n': 1, 'done': True,}", 1)
        Object(value={'n': 1, 'done': True}, end=23, is_closed=True)
        >>> read_object('{"path": "/tm', 1).reason
        'a text does not end: its closing quote is missing'
    """
    if not (_ESCAPED_NAME.match(text, at) and (escaped := _ESCAPED.match(text, at))):
        return _Reader(text, at).read(closer)
    try:
        inside = serde.decode(_json_text(escaped[0]), str)
    except InvalidJSONError as error:
        return BrokenObject(error.message, escaped.end())
    return replace(_Reader(inside, 0).read(closer), end=escaped.end())


class _BrokenError(Exception):
    """Reading can't go on."""


class _Reader:
    """Writes an object once more, as strict JSON."""

    def __init__(self, text: str, at: int) -> None:
        self._text = text
        self._at = at
        self._output: list[str] = []
        self._closers: list[str] = []  # what closes each level
        self._is_closed = True
        self._loose_quotes = 0

    def read(self, closer: str) -> Object | BrokenObject:
        try:
            self._read_members("{", closer)
            self._check_end()
            value = serde.loads_object("".join(self._output), DEPTH)
        except _BrokenError as error:
            is_open = error.args == (_NO_END,)
            return BrokenObject(str(error), len(self._text) if is_open else self._at, is_open)
        except InvalidJSONError as error:
            return BrokenObject(error.message, self._at)
        return Object(value, self._at, self._is_closed)

    def _check_end(self) -> None:
        if self._loose_quotes and _CLAIMS_MORE.match(self._text, self._at):
            raise _BrokenError(_AMBIGUOUS)
        if _GOES_ON.match(self._text, self._at):
            raise _BrokenError("it goes on after its last closing bracket")

    def _skip(self) -> int:
        """Skip blanks; return where they began."""
        before = self._at
        self._take(_SKIP)
        return before

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        if found := pattern.match(self._text, self._at):
            self._at = found.end()
        return found

    def _read_members(self, bracket: str, closer: str) -> None:
        """Read the contents of a bracket, and the closing one."""
        if len(self._closers) == DEPTH:
            raise _BrokenError(f"it has more than {DEPTH} levels")
        self._skip()
        if bracket == "{" and closer == "}" and self._text.startswith("{", self._at):
            closer = "}}"  # doubled, as in the source of a template
            self._at += 1
            self._skip()
        self._closers.append(closer)
        self._output.append(bracket)
        is_first = True
        while not self._take_closer():
            if not is_first:
                if self._at == len(self._text):
                    raise _BrokenError("it is not whole: something is missing after its last comma")
                if self._ends_unclosed(bool(_END.match(self._text, self._at))):
                    break
                self._output.append(",")
            is_first = False
            if bracket == "{":
                self._read_name()
            is_number = self._read_value()
            before = self._skip()
            if self._take(_COMMA):
                self._skip()
            elif self._take_closer():
                break
            elif bracket == "{" and _MISSING_COMMA.match(self._text, before):
                continue
            elif self._ends_unclosed(self._is_end(before, is_number)):
                self._at = before
                break
            else:
                raise _BrokenError("a comma or a closing bracket is missing")
        self._closers.pop()
        self._output.append("]" if bracket == "[" else "}")

    def _take_closer(self) -> bool:
        """Read the bracket that closes this level; a list may lack its own before an object's."""
        if self._closers[-1] == "]" and self._text.startswith("}", self._at):
            return self._closers[-2] == "}"
        found = self._text.startswith(self._closers[-1], self._at)
        self._at += len(self._closers[-1]) * found
        return found

    def _is_end(self, before: int, is_number: bool) -> bool:
        """Whether the object may end before the next text; not after a number, which may be cut."""
        if self._at == len(self._text):
            return not is_number
        is_line = "\n" in self._text[before : self._at]
        is_new = is_line and self._text[self._at] not in "\"'“”,，:：}])"
        return is_new or bool(_END.match(self._text, self._at))

    def _ends_unclosed(self, is_end: bool) -> bool:
        """Whether the object ends here without its last bracket."""
        if is_end and len(self._closers) > 1:
            raise _BrokenError("it is not whole: more than one closing bracket is missing")
        self._is_closed &= not is_end
        return is_end

    def _read_name(self) -> None:
        found = self._take(_MEMBER)
        key = found["key"] if found else ""
        is_quoted = key[:1] in _QUOTES
        # Behind loose quotes, a word and a colon may as well belong to the text.
        if not found or (self._loose_quotes and not is_quoted):
            raise _BrokenError("a name in double quotes is missing")
        self._output.append(_json_text(key[1:-1] if is_quoted else key) + ":")
        self._skip()

    def _read_value(self) -> bool:
        """Read a value; return whether it could go on: a number."""
        char = self._text[self._at : self._at + 1]
        if char in ("{", "["):
            self._at += 1
            self._read_members(char, "}" if char == "{" else "]")
        elif char in _QUOTES:
            self._read_string(char)
        elif found := self._take(_LITERAL):
            self._output.append(found[0].lower().replace("none", "null"))
            return found[0][-1].isdigit()
        elif found := self._take(_WORD):
            self._output.append(_json_text(found[0]))
        else:
            raise _BrokenError("a value is missing, or is not JSON")
        return False

    def _read_string(self, quote: str) -> None:
        text, begin = self._text, self._at + 1
        if quote in "\"'" and text.startswith(quote * 3, self._at):
            end = text.find(quote * 3, begin + 2)
            if end >= 0:
                self._output.append(_json_text(text[begin + 2 : end]))
                self._at = end + 3
                return
        found, loose = _UNTIL[quote].match(text, begin), 0
        while found and not self._may_end(found.end(), is_first=not loose):
            place = found.end() - 1
            if place == begin or self._is_structure(place):
                raise _BrokenError(_AMBIGUOUS)
            loose += 1
            # An apostrophe in a word is not a quote, others come in pairs.
            self._loose_quotes += not _APOSTROPHE.match(text, place - 1)
            found = _UNTIL[quote].match(text, found.end())
        if not found:
            raise _BrokenError(_NO_END)
        if self._loose_quotes % 2:
            raise _BrokenError(_AMBIGUOUS)
        self._output.append(_json_text(text[begin : found.end() - 1]))
        self._at = found.end()

    def _may_end(self, at: int, *, is_first: bool) -> bool:
        """Whether a string may end before this place, judging by what follows."""
        found = _SKIP.match(self._text, at)
        if found and self._text.startswith(self._closers[-1], found.end()):
            return True
        if self._closers[-1] == "]":
            return _NEXT_ITEM.match(self._text, at) is not None
        if is_first and (_END.match(self._text, at) or _MISSING_COMMA.match(self._text, at)):
            return True
        return _NEXT_MEMBER.match(self._text, at) is not None

    def _is_structure(self, place: int) -> bool:
        """Whether a quote in a string looks as if it belongs to the object instead."""
        return bool(
            (_NEXT_TEXT if self._closers[-1] == "]" else _STRUCTURE).match(self._text, place)
        )


_ODD = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[\"\x00-\x1f]", re.DOTALL)


def _json_text(raw: str) -> str:
    """Write the inside of a string in any quotes as a JSON string; unknown escapes are kept."""
    return f'"{_ODD.sub(_fix_escape, raw)}"'


def _fix_escape(found: re.Match[str]) -> str:
    odd = found[0]
    if len(odd) > 2 or (odd[0] == "\\" and odd[1] in '"\\/bfnrt'):
        return odd
    if odd[0] != "\\":
        return '\\"' if odd == '"' else f"\\u{ord(odd):04x}"
    if odd[1] in "'`":
        return odd[1]
    return "\\\\" + (odd[1] if odd[1] >= " " else f"\\u{ord(odd[1]):04x}")
