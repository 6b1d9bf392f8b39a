"""The pieces of a text that is not plain: what it seems to run, for rules that deny.

A text that is not plain is never allowed by a rule about commands, but a denial has to be about it
all the same. So it is split wherever the shell may begin a command: at its operators, keywords and
substitutions, outside of quotes and in those that expand. This is no parser: where the text is odd,
a piece may be more or less than bash would run, and the whole text is asked about anyway.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from typing import Literal

import msgspec

from greenroom.shell.script import Redirection, SimpleCommand

MAX_PIECES = 20_000  # that differ
MAX_LEVEL = 8  # of here-documents in here-documents

_TOKENS = {
    "blank": r"[ \t\r\f\v]+",
    "comment": r"(?<![^\s;&|()])#[^\n]*",
    "single": r"'(?P<_1>[^']*)'?|\$'(?P<_2>(?:[^'\\]|\\.?)*)'?",
    "nested": r"\\`",
    "escape": r"\\.?",
    "variable": r"\$(?:(?:HOME|PWD)\b|\{(?:HOME|PWD)\})",
    "substitution": r"\$\(|`",
    "quote": '"',
    "document": r"<<(?P<tabs>-?)[ \t]*(?P<literal>['\"\\]?)(?P<end>[^\s'\"<>;&|()]+)['\"]?",
    "redirection": (
        r"(?:(?<![^\s;&|()<>])(?:[0-9]+|\{\w+\}))?"
        r"&?[<>]{1,3}(?:&(?P<copy>[0-9]+|-)|[&|])?(?!\()"
    ),
    "sign": r"[;&|(]+|[\n)<>]",
    "text": r"[0-9]+(?![0-9<>])|[^\s;&|()<>'\"\\$`{0-9]+|.",
}
_EXPANDED = ("nested", "escape", "variable", "substitution")


def _join(*names: str, **others: str) -> re.Pattern[str]:
    tokens = {**{name: _TOKENS[name] for name in names}, **others}
    return re.compile("|".join(f"(?P<{k}>{v})" for k, v in tokens.items()), re.DOTALL)


_CODE = _join(*_TOKENS)
# In quotes and in here-documents, by what ends them.
_INSIDE = {
    '"': _join(*_EXPANDED, quote='"', text=r'[^"\\$`]+|.'),
    "<<": _join(*_EXPANDED, text=r"[^\\$`]+|."),
}
_KEYWORD = re.compile(r"if|then|else|elif|while|until|do|coproc|!|\{|\$.*", re.DOTALL)
_SETTING = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)


class _Open(msgspec.Struct):
    """A piece that is still read.

    `word` holds the parts of the word that is read, if any, and `sign` that of the redirection
    whose target it is, if it is one.
    """

    words: list[str] = msgspec.field(default_factory=list)
    redirections: list[Redirection] = msgspec.field(default_factory=list)
    sign: Literal["", "<", ">"] = ""
    word: list[str] = msgspec.field(default_factory=list)

    def end_word(self) -> None:
        if not self.word:
            return
        text = "".join(self.word)
        if self.sign:
            self.redirections.append(Redirection(int(self.sign == ">"), self.sign, text))
        else:
            self.words.append(text)
        self.word, self.sign = [], ""

    def finish(self, found: dict[SimpleCommand, None]) -> None:
        """Add it to those that are found, without the keywords and variables before it."""
        self.end_word()
        start, settings = 2 * (self.words[:1] == ["function"]), list[tuple[str, str]]()
        for word in self.words[start:]:
            if setting := _SETTING.fullmatch(word):
                settings.append((setting[1], setting[2]))
            elif not _KEYWORD.fullmatch(word):
                break
            start += 1
        words, redirections = tuple(self.words[start:]), tuple(self.redirections)
        if words or settings or redirections:
            found[SimpleCommand(words, tuple(settings), redirections)] = None


def split_pieces(text: str, *, home: str = "", folder: str = "") -> list[SimpleCommand]:
    """Split a text into pieces that may run as commands; each is there once.

    Args:
        text: the text.
        home: the value of `$HOME`.
        folder: the value of `$PWD`.

    Example:
        >>> [each.words for each in split_pieces('if true; then echo "$(rm -rf x)"; fi')]
        [('true',), ('rm', '-rf', 'x'), ('echo', '$()'), ('fi',)]
    """
    found: dict[SimpleCommand, None] = {}
    values, texts = {"HOME": home, "PWD": folder}, [text]
    for level in range(MAX_LEVEL):
        texts = [body for each in texts for body in _split(each, values, found, quoted=level > 0)]
    return list(found)[:MAX_PIECES]


def _split(
    text: str, values: Mapping[str, str], found: dict[SimpleCommand, None], *, quoted: bool
) -> list[str]:
    """Add the pieces of a text, and return the here-documents in it that are expanded.

    Of one that is quoted as a whole, only the substitutions are pieces.
    """
    pieces, ends, at = [_Open()], ["<<"] * quoted, 0  # what is open, from the outside in
    documents, bodies = list[re.Match[str]](), list[str]()
    lines = _list_lines(text) if "<<" in text else {}
    while token := _INSIDE.get(ends[-1] if ends else "", _CODE).match(text, at):
        piece, kind, sign, at = pieces[-1], token.lastgroup, token[0], token.end()
        if kind == "quote":
            piece.word.append("")
            ends.pop() if ends[-1:] == [sign] else ends.append(sign)
        elif kind == "substitution" or (kind == "nested" and "`" in ends) or kind == "sign":
            if kind == "sign" and ends[-1:] != [sign]:
                pieces.pop().finish(found)
                pieces.append(_Open())
            elif ends[-1:] == [sign]:
                ends.pop()
                pieces.pop().finish(found)
                pieces[-1].word.append("$()")
            else:
                ends.append(")" if sign == "$(" else sign)
                pieces.append(_Open())
            for each in documents if sign == "\n" else ():
                body, at = _take_document(text, at, each, lines)
                bodies.append(body)
            documents = [] if sign == "\n" else documents
        elif kind in ("blank", "document", "redirection"):
            piece.end_word()
            documents += [token] if kind == "document" else []
            if kind == "redirection":
                piece.sign = "" if token["copy"] else ">" if ">" in sign else "<"
        elif kind != "comment":
            piece.word.append(_read(token, values, first=not piece.word))
    for piece in reversed(pieces[quoted:]):
        piece.finish(found)
    return bodies


def _read(token: re.Match[str], values: Mapping[str, str], *, first: bool) -> str:
    """Return what a token adds to a word."""
    kind, text = token.lastgroup, token[0]
    if kind == "single":
        return token["_1"] or token["_2"] or ""
    if kind in ("escape", "nested"):  # a line that is continued goes on as if there were no end
        return text[1:].removesuffix("\n")
    if kind == "variable":
        return values[text.strip("${}")]
    return values["HOME"] + text[1:] if first and re.match(r"~(?:/|\Z)", text) else text


def _list_lines(text: str) -> dict[str, list[int]]:
    """List where each line begins, by its text with at most one of the tabs before it."""
    lines: dict[str, list[int]] = {}
    at = 0
    for line in text.split("\n"):
        key = re.sub(r"\A\t+", "\t", line)
        lines.setdefault(key, []).append(at)
        at += len(line) + 1
    return lines


def _take_document(
    text: str, at: int, document: re.Match[str], lines: Mapping[str, list[int]]
) -> tuple[str, int]:
    """Find what of a here-document is expanded, and where it ends; without an end it is none."""
    keys = [document["end"], f"\t{document['end']}"][: 1 + bool(document["tabs"])]
    begins = [lines.get(key, []) for key in keys]
    places = [bisect_left(each, at) for each in begins]
    found = [each[place] for each, place in zip(begins, places, strict=True) if place < len(each)]
    if not found:
        return "", at
    behind = text.find("\n", min(found)) % (len(text) + 1) + 1
    return "" if document["literal"] else text[at : min(found)], behind
