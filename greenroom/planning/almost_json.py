"""Objects as models write them: JSON, or nearly so; read in one pass, and never guessed.

What is put right is punctuation, never words: other quotes, quotes that are not escaped, names
without quotes, Python's literals, comments, commas too many or too few, doubled braces, and one bracket
that is missing at the end; an object whose quotes are all escaped is read as the text that it is in. An object whose reading is not plain is broken.

Each character is passed once: what stands behind a quote says whether it ends its text, and that is
looked at for a bounded number of characters.
"""

import re
from dataclasses import dataclass, replace

from greenroom.core import InvalidJSONError, serde

__all__ = ["DEPTH", "Broken", "Object", "read_object"]

DEPTH = 50
"""How many levels an object may have; no tool asks for a tenth of that."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object that could be read.

    Attributes:
        value: what it holds.
        end: the place behind it.
        is_closed: whether its last closing bracket is there.
    """

    value: dict[str, object]
    end: int
    is_closed: bool = True


@dataclass(frozen=True, slots=True)
class Broken:
    """Something that can't be read as an object.

    Attributes:
        reason: what is wrong with it, for the model that wrote it.
        end: the place where reading ended; what stands before it holds no other object.
        is_open: whether a text does not end, so that nothing behind it can be trusted.
    """

    reason: str
    end: int
    is_open: bool = False


_BLANK = (
    r"(?:[\s\u200b\u2060\ufeff]|(?://|(?<![\n#])#(?!#))[^\n]{0,200}+|/\*(?:(?!\*/).){0,200}+\*/)*+"
)
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "“”", "”": "“”", "„": "“”", "‘": "‘’", "’": "‘’"}
_KEY = "|".join(
    [rf"[{open_}](?:[^{close}\\]|\\.){{0,500}}+[{close}]" for open_, close in _QUOTES.items()]
    + [r"[^\W\d][\w$.-]{0,100}+"]
)
_SEPARATOR = rf"{_BLANK}[:：=]"


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL | re.IGNORECASE)


_ESCAPED_NAME = _compile(r'\s*+\\"')
_ESCAPED = _compile(r'(?:[^"\\]++|\\.)*+')
_SKIP = _compile(_BLANK)
_MEMBER = _compile(rf"(?P<key>{_KEY}){_SEPARATOR}")
_COMMA = _compile(rf"[,，](?:{_BLANK}[,，])*+")
_LITERAL = _compile(r"(?:true|false|null|none)\b|-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_WORD = _compile(r"(?!(?:nan|infinity|undefined)\b)[^\W\d][\w.-]{0,100}+(?=[ \t]*+[,，}\])\r\n])")
# What may stand behind a text in an object, or in a list, besides the bracket that closes it.
_COMMAS = rf"{_BLANK}(?:[,，]{_BLANK})++"
_QUOTED_KEY = rf"(?=[\"'`“„‘])(?:{_KEY}){_SEPARATOR}"
_NEXT_MEMBER = _compile(rf"{_COMMAS}(?:[}}\])]|(?:{_KEY}){_SEPARATOR})")
_NEXT_ITEM = _compile(rf"{_COMMAS}(?:[\]\"'“‘{{\[-]|\d|(?:true|false|null|none)\b)")
_COMMA_LOST = _compile(rf"{_BLANK}{_QUOTED_KEY}")
# What no text with quotes that are not escaped may hold, since it may be no part of it.
_STRUCTURE = _compile(
    rf"{_QUOTED_KEY}|.{_BLANK}(?:[,，]{_BLANK})*+{_QUOTED_KEY}|.{_SEPARATOR}"
    rf"|.{_BLANK}[,，]{_BLANK}(?=[\"'“])(?:{_KEY}){_BLANK}[\"'“{{\[\d-]"
)
# Where a reply goes on behind an object whose last bracket is missing.
_END = _compile(
    r"\s*+(?:\Z|```|</|<[|｜]|\]\s*+(?:\Z|```|</)|(?<![^\n])[ \t*#]*+"
    r"(?:thought|action|observation|final[ _]answer|question)\b[^\n:：]{0,20}[:：])"
)
_UNTIL = {
    quote: _compile(rf"(?:[^{close}\\]++|\\.)*+[{close}]") for quote, close in _QUOTES.items()
}
_NEXT_TEXT = _compile(rf".{_BLANK}[\"'“‘]")
_APOSTROPHE = _compile(r"\w['’]\w")
_GOES_ON = _compile(rf"{_COMMAS}{_QUOTED_KEY}")
_CLAIMS_MORE = _compile(r"[ \t]*+[\"'“”,，:：]")

_NO_END = "a text does not end: its closing quote is missing"
_UNPLAIN = 'it is not plain where a text ends: write quotes inside of a text as \\"'

_JSON_LITERALS = {"true": "true", "false": "false", "null": "null", "none": "null"}


def read_object(text: str, at: int, closer: str = "}") -> Object | Broken:
    """Read the members of an object, from behind its opening bracket to behind its `closer`.

    Example:
        >>> read_object("{'n': 1, 'done': True,}", 1)
        Object(value={'n': 1, 'done': True}, end=23, is_closed=True)
        >>> read_object('{"path": "/tm', 1).reason
        'a text does not end: its closing quote is missing'
    """
    if not (_ESCAPED_NAME.match(text, at) and (escaped := _ESCAPED.match(text, at))):
        return _Reader(text, at, closer).read()
    try:
        inside = serde.decode(_json_text(escaped[0]), str)
    except InvalidJSONError as error:
        return Broken(error.message, escaped.end())
    return replace(_Reader(inside, 0, closer).read(), end=escaped.end())


class _Reader:
    """Writes an object once more, as strict JSON."""

    def __init__(self, text: str, at: int, closer: str) -> None:
        self._text = text
        self._at = at
        self._open = [closer]  # what closes each level
        self._written = ["{"]
        self._expects = "member"  # or "value", or what is "next": a comma or the end
        self._is_bare = False  # whether the last value could go on: a number
        self._is_closed = True
        self._has_quoted_names: bool | None = None
        self._loose_quotes = 0
        self._broken: Broken | None = None

    def read(self) -> Object | Broken:
        steps = {"member": self._member, "value": self._value, "next": self._next}
        while self._open and self._broken is None:
            before = self._at
            self._at = self._skip(before)
            steps[self._expects](before)
        if self._loose_quotes and _CLAIMS_MORE.match(self._text, self._at):
            self._break(_UNPLAIN)
        if _GOES_ON.match(self._text, self._at):
            self._break("it goes on behind its last closing bracket")
        if self._broken is not None:
            return self._broken
        try:
            value = serde.loads_object("".join(self._written), DEPTH)
        except InvalidJSONError as error:
            return Broken(error.message, self._at)
        return Object(value, self._at, self._is_closed)

    def _skip(self, at: int) -> int:
        found = _SKIP.match(self._text, at)
        return found.end() if found else at

    def _break(self, reason: str, *, is_open: bool = False) -> None:
        end = len(self._text) if is_open else self._at
        self._broken = self._broken or Broken(reason, end, is_open)

    @property
    def _in_list(self) -> bool:
        return self._open[-1] == "]"

    # -- what may come ---------------------------------------------------------------------------

    def _member(self, _before: int) -> None:
        """Read a name or an item, or the end of what has none left."""
        if self._closes():
            return
        is_first = self._written[-1] in "{["
        if is_first and self._open[-1] == "}" and self._text.startswith("{", self._at):
            self._open[-1] = "}}"  # doubled, as in the source of a template
            self._at += 1
            return
        if not is_first and _END.match(self._text, self._at):
            self._end_open(self._at)
            return
        if not is_first:
            self._written.append(",")
        if self._in_list:
            self._value(self._at)
        elif found := _MEMBER.match(self._text, self._at):
            self._name(found["key"], found.end())
        else:
            self._break("a name in double quotes is missing")

    def _name(self, key: str, end: int) -> None:
        is_quoted = key[0] in _QUOTES
        if self._has_quoted_names not in {None, is_quoted}:
            self._break("a name in double quotes is missing")
        self._has_quoted_names = is_quoted if self._open != [")"] else None
        self._write(_json_text(key[1:-1] if is_quoted else key) + ":", end)
        self._expects = "value"

    def _value(self, _before: int) -> None:
        char = self._text[self._at : self._at + 1]
        self._expects = "next"
        self._is_bare = False
        if char in ("{", "["):
            self._open.append("}" if char == "{" else "]")
            self._write(char, self._at + 1)
            self._expects = "member"
            if len(self._open) > DEPTH:
                self._break(f"it has more than {DEPTH} levels")
        elif char in _QUOTES:
            self._string(char)
        elif found := _LITERAL.match(self._text, self._at):
            self._is_bare = found[0][-1].isdigit()
            self._write(_JSON_LITERALS.get(found[0].lower(), found[0]), found.end())
        elif found := _WORD.match(self._text, self._at):
            self._write(_json_text(found[0]), found.end())
        else:
            self._break("a value is missing, or is not JSON")

    def _next(self, before: int) -> None:
        """Read a comma or a closing bracket, or see that the object ends without one."""
        if found := _COMMA.match(self._text, self._at):
            self._at = found.end()
            self._expects = "member"
        elif self._closes():
            pass
        elif not self._in_list and _COMMA_LOST.match(self._text, before):
            self._expects = "member"
        elif self._ends(before):
            self._end_open(before)
        else:
            self._break("a comma or a closing bracket is missing")

    def _end_open(self, at: int) -> None:
        """End the object here, without its last bracket."""
        if len(self._open) > 1:
            self._break("it is not whole: more than one closing bracket is missing")
            return
        self._at = at
        self._is_closed = False
        self._close()

    def _ends(self, before: int) -> bool:
        """Whether only a closing bracket is missing; a number at the very end may have been cut."""
        if self._at == len(self._text):
            return not self._is_bare
        if _END.match(self._text, self._at):
            return True
        return (
            "\n" in self._text[before : self._at] and self._text[self._at] not in "\"'“”,，:：}])"
        )

    # -- brackets and texts ----------------------------------------------------------------------

    def _closes(self) -> bool:
        """Read the bracket that closes this level, or the object around a list that lacks its own."""
        text, at = self._text, self._at
        if self._open[-2:-1] == ["}"] and self._in_list and text.startswith("}", at):
            self._close()  # a list may lack its bracket
        closer = self._open[-1]
        if not text.startswith(closer, at):
            return False
        self._close()
        self._at += len(closer)
        self._expects = "next"
        self._is_bare = False
        return True

    def _close(self) -> None:
        self._written.append("]" if self._open.pop() == "]" else "}")

    def _string(self, quote: str) -> None:
        text, begin = self._text, self._at + 1
        if quote in "\"'" and text.startswith(quote * 3, self._at):
            end = text.find(quote * 3, begin + 2)
            if end >= 0:
                self._write(_json_text(text[begin + 2 : end]), end + 3)
                return
        found, loose = _UNTIL[quote].match(text, begin), 0
        while found and not self._may_end(found.end(), is_first=not loose):
            place = found.end() - 1
            if place == begin or self._is_structure(place):
                self._break(_UNPLAIN)
                return
            loose += 1
            # An apostrophe in a word is no quote, others come in pairs.
            self._loose_quotes += not _APOSTROPHE.match(text, place - 1)
            found = _UNTIL[quote].match(text, found.end())
        if not found:
            self._break(_NO_END, is_open=True)
        elif self._loose_quotes % 2:
            self._break(_UNPLAIN)
        else:
            self._write(_json_text(text[begin : found.end() - 1]), found.end())

    def _may_end(self, at: int, *, is_first: bool) -> bool:
        """Whether a text may end before this place, by what stands there."""
        if self._text.startswith(self._open[-1], self._skip(at)):
            return True
        if self._in_list:
            return _NEXT_ITEM.match(self._text, at) is not None
        if is_first and (_END.match(self._text, at) or _COMMA_LOST.match(self._text, at)):
            return True
        return _NEXT_MEMBER.match(self._text, at) is not None

    def _is_structure(self, place: int) -> bool:
        """Whether a quote in a text looks as if it were none of the text's."""
        return bool((_NEXT_TEXT if self._in_list else _STRUCTURE).match(self._text, place))

    def _write(self, written: str, end: int) -> None:
        self._written.append(written)
        self._at = end


_ODD = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[\"\x00-\x1f]", re.DOTALL)


def _json_text(raw: str) -> str:
    """Write the inside of a text in any quotes as a JSON string; an unknown escape stays as it is."""
    return f'"{_ODD.sub(_mend, raw)}"'


def _mend(found: re.Match[str]) -> str:
    odd = found[0]
    if len(odd) > 2 or (odd[0] == "\\" and odd[1] in '"\\/bfnrt'):
        return odd
    if odd[0] != "\\":
        return '\\"' if odd == '"' else f"\\u{ord(odd):04x}"
    if odd[1] in "'`":
        return odd[1]
    return "\\\\" + (odd[1] if odd[1] >= " " else f"\\u{ord(odd[1]):04x}")
