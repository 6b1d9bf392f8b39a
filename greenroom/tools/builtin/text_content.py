r"""A file's text: how its bytes are read, and changed without harm to the others.

A file does not say how it is encoded, so what can't be known is not guessed. Certain are a byte
order mark, and bytes that are valid UTF-8. In any other file without NULs, each byte is one
character (as in Latin-1), of which only ASCII can be trusted: nearly all encodings have it in
common. Even so, a byte that looks like ASCII may be the second half of a character in Shift-JIS,
GBK, Big5 or Johab, if it is at least `0` and follows a byte beyond ASCII.

Three kinds of encodings write all characters as ASCII, with marks where they shift: UTF-7, HZ and
ISO 2022. In three others a backslash or a tilde is another character. A file that may be in one of
them is changed only where both readings agree.
"""

import codecs
import difflib
import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from greenroom.core import ToolError
from greenroom.core._internal import clip, compile_later
from greenroom.fs._internal import MARKS, find_mark, is_binary

_ISO_2022 = ("iso2022_jp_ext", "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_kr")
_SHIFTS = {
    "utf-7": compile_later(rb"\+[A-Za-z0-9+/]"),
    "hz": compile_later(rb"~\{"),
    **dict.fromkeys(_ISO_2022, compile_later(rb"\x1b[$(.&]|\x0e")),
}
_WITHOUT_BACKSLASH = ("shift_jis_2004", "shift_jisx0213", "johab")
_ASCII_BLANK = compile_later(rb"[ \n\t]")
_SECOND_HALVES = compile_later("[0-~]")
_CONVERT = "convert it to UTF-8, for example with iconv in Bash, or change it with a program there"


class TextContent(msgspec.Struct, frozen=True):
    r"""A file's text, and how to encode it again without changing other bytes.

    Attributes:
        text: the text, without the mark.
        encoding: its encoding; empty if that is unknown, then each byte is one character.
        mark: its byte order mark, or nothing.

    Example:
        >>> content = TextContent.decode("\ufeffa\r\n".encode("utf-16-le"))
        >>> content.text, content.encoding, content.newline
        ('a\r\n', 'utf-16-le', '\r\n')
        >>> TextContent.decode(b"caf\xe9 a\n").encoding
        ''
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> "TextContent":
        """Decode a file's bytes.

        Raises:
            ToolError: it is not text, not in the encoding of its mark, or not known to be in an
                encoding that has ASCII in common.
        """
        if is_binary(data):
            raise ToolError(
                "the file is binary, or in UTF-16 or UTF-32 without a mark, so it can't be edited"
                " as text"
            )
        for mark, encoding in MARKS.items():
            found = _decode(data[len(mark) :], encoding) if data.startswith(mark) else None
            if found is not None:
                return cls(found, encoding, mark)
        mark = find_mark(data)
        if mark and mark != codecs.BOM_UTF8:
            named = MARKS[mark].upper().removesuffix("-LE").removesuffix("-BE")
            raise ToolError(f"the file begins as {named} but is not", hint=_CONVERT)
        text = _decode(data, "utf-8")
        if text is not None:
            return cls(text)
        if not _ASCII_BLANK.search(data):
            raise ToolError("the file is in an unknown encoding", hint=_CONVERT)
        return cls(data.decode("latin-1"), "")

    @property
    def newline(self) -> str:
        r"""The line end that most of its lines have; `\r` only if no line has another."""
        pairs = self.text.count("\r\n")
        feeds = self.text.count("\n") - pairs
        if not pairs and not feeds and "\r" in self.text:
            return "\r"
        return "\r\n" if pairs > feeds else "\n"

    @property
    def is_mixed(self) -> bool:
        r"""Whether some lines end in `\n` and others in `\r\n`."""
        return 0 < self.text.count("\r\n") < self.text.count("\n")

    def encode(self, text: str) -> bytes:
        """Encode a changed text in the file's own encoding.

        Raises:
            ToolError: the encoding lacks a character of it.
        """
        try:
            return self.mark + text.encode(self.encoding or "latin-1")
        except UnicodeEncodeError as error:
            name = self.encoding or "in an unknown encoding"
            raise ToolError(
                f"the file is {name}, which can't hold {text[error.start]!r}"
            ) from error


def _decode(body: bytes, encoding: str) -> str | None:
    """Decode bytes, if they are valid and the text encodes to the very same."""
    try:
        text = body.decode(encoding)
        return text if encoding == "utf-8" or text.encode(encoding) == body else None
    except UnicodeError:
        return None


def other_readings(data: bytes) -> Iterator[tuple[str, str]]:
    """Find the encodings that ASCII does not mean ASCII in and may be meant, with the file's text.

    Example:
        >>> dict(other_readings("x é".encode("utf-7")))
        {'utf-7': 'x é'}
    """
    if data.isascii():
        encodings = [name for name, shift in _SHIFTS.items() if shift.search(data)]
    else:
        encodings = list(_WITHOUT_BACKSLASH) if _decode(data, "utf-8") is None else []
    for encoding in encodings:
        text = _decode(data, encoding)
        if text is not None and not text.isascii():
            yield encoding, text


NOTEBOOK_HINT = (
    "a notebook is JSON: each line of a cell is a string that ends in \\n, with quotes and "
    "backslashes escaped; Grep shows that text"
)
_LISTED_LINES = 10
_COMPARED_LINES = 5_000
_PAIRED_LINES = 300
_NUMBERED = compile_later(r"^ *\d+\t", re.MULTILINE)


class Replacement(msgspec.Struct, frozen=True):
    r"""Replaces `old` by `new`, found exactly and once, whatever the line ends.

    Line ends in `old` match `\n` and `\r\n`. In `new`, the lines that `old` has too keep their
    ends, as do those that take the place of as many others; the rest get the most frequent one of
    the file. In a file whose only line ends are `\r`, these count as such.

    Example:
        >>> change = Replacement("a\nb", "c\nd")
        >>> change.apply(TextContent("a\r\nb\r\n"), "f.txt")
        ('c\r\nd\r\n', 1)
    """

    old: str
    new: str
    everywhere: bool = False

    def change(self, data: bytes, label: str) -> tuple[TextContent, str, int]:
        """Return a file's content, its changed text, and the number of replacements.

        Raises:
            ToolError: as `apply` and `TextContent.decode`, or it is not certain how the file is
                encoded, and the change depends on it.
        """
        content = TextContent.decode(data)
        text, count = self.apply(content, label)
        for encoding, reading in () if content.mark else other_readings(data):
            try:
                agrees = self.apply(TextContent(reading), label)[0].encode(encoding)
            except (ToolError, UnicodeError):
                agrees = b""
            if agrees != content.encode(text):
                raise ToolError(
                    f"{label} may be in the encoding {encoding}, where this means another change",
                    hint=_CONVERT,
                )
        return content, text, count

    def apply(self, content: TextContent, label: str) -> tuple[str, int]:
        """Return the changed text, and the number of replacements.

        Raises:
            ToolError: `old` is empty, missing or not unique; or nothing would change; or the
                content's encoding is unknown, and the change is not one of whole ASCII characters.
        """
        newline = content.newline
        old, new = (_plain(text, newline) for text in (self.old, self.new))
        if not old:
            raise ToolError("old_string is empty", hint="make a file with Write")
        if old == new:
            raise ToolError("old_string and new_string are the same, so nothing would change")
        _check_ascii(content, label, old_string=old, new_string=new)
        plain = _plain(content.text, newline)
        starts = _find_all(old, plain)
        self._check_places(starts, old, plain, content, label)
        spans = [(start, start + len(old)) for start in starts]
        return _replace_spans(old, new, spans, content), len(starts)

    def _check_places(
        self, starts: list[int], old: str, plain: str, content: TextContent, label: str
    ) -> None:
        if not starts:
            is_notebook = label.endswith(".ipynb")
            hint = NOTEBOOK_HINT if is_notebook else _suggest(old, content.text)
            raise ToolError(f"old_string is not in {label}", hint=hint)
        if len(starts) > 1 and not self.everywhere:
            lines = [plain.count("\n", 0, start) + 1 for start in starts[:_LISTED_LINES]]
            more = ", …" if len(starts) > _LISTED_LINES else ""
            raise ToolError(
                f"old_string occurs {len(starts)} times in {label}, at the lines "
                f"{', '.join(map(str, lines))}{more}",
                hint="add surrounding lines to make it unique, or set replace_all",
            )
        if content.encoding or not _SECOND_HALVES.match(old):
            return
        for start in starts:
            if start and plain[start - 1] > "\x7f":
                line = plain.count("\n", 0, start) + 1
                raise ToolError(
                    f"{label} is in an unknown encoding, and in line {line} old_string begins "
                    "where it may be a part of a character",
                    hint="begin it after a space or at the beginning of the line",
                )


def _check_ascii(content: TextContent, label: str, **texts: str) -> None:
    """Check that texts are ASCII, which is all that is certain in an unknown encoding."""
    for name, text in texts.items():
        if not content.encoding and not text.isascii():
            letter = next(each for each in text if each > "\x7f")
            raise ToolError(
                f"{label} is not in UTF-8, and has no byte order mark that names its encoding, so "
                f"only ASCII can be changed; {name} has {letter!r}",
                hint=_CONVERT,
            )


def _plain(text: str, newline: str) -> str:
    r"""Write all line ends as `\n`."""
    text = text.replace("\r\n", "\n")
    return text.replace("\r", "\n") if newline == "\r" else text


def _find_all(old: str, text: str) -> list[int]:
    found = []
    start = text.find(old)
    while start >= 0:
        found.append(start)
        start = text.find(old, start + len(old))
    return found


def _replace_spans(old: str, new: str, spans: list[tuple[int, int]], content: TextContent) -> str:
    r"""Put `new` in place of spans, which count each `\r\n` of the text as one character."""
    text = content.text
    pairs = [found.start() - count for count, found in enumerate(re.finditer("\r\n", text))]
    edges = [(a + bisect_left(pairs, a), b + bisect_left(pairs, b)) for a, b in spans]
    lines, newline = new.split("\n"), content.newline
    sources = _pair_ends(old.split("\n"), lines)
    pieces, position = [], 0
    for start, end in edges:
        pieces += [text[position:start], _write_ends(lines, sources, text[start:end], newline)]
        position = end
    return "".join([*pieces, text[position:]])


def _write_ends(lines: list[str], sources: list[int | None], replaced: str, newline: str) -> str:
    """Write the new lines, each with the end of the old line that it comes from, if any."""
    ends = re.findall("\r\n|\n" if newline != "\r" else "\r", replaced)
    pieces = []
    for line, source in zip(lines, sources, strict=True):
        pieces += [line, newline if source is None or source >= len(ends) else ends[source]]
    return "".join(pieces[:-1])


def _pair_ends(old: list[str], new: list[str]) -> list[int | None]:
    """Find for each new line the old one whose end it keeps, by index; None for another line."""
    pairs: list[int | None] = [None] * len(new)
    most = min(len(old), len(new))
    above = next((at for at in range(most) if old[at] != new[at]), most)
    most -= above
    below = next((at for at in range(most) if old[-1 - at] != new[-1 - at]), most)
    pairs[:above] = range(above)
    pairs[len(new) - below :] = range(len(old) - below, len(old))
    rest_old, rest_new = old[above : len(old) - below], new[above : len(new) - below]
    if len(rest_old) + len(rest_new) > _PAIRED_LINES:
        blocks = [difflib.Match(len(rest_old), len(rest_new), 0)]
    else:
        matcher = difflib.SequenceMatcher(None, rest_old, rest_new, autojunk=False)
        blocks = matcher.get_matching_blocks()
    for (a, b, size), (next_a, next_b, _) in pairwise([difflib.Match(0, 0, 0), *blocks]):
        same = size if next_a - a != next_b - b else next_a - a
        for at in range(same):
            pairs[above + b + at] = above + a + at
    return pairs


def _suggest(old: str, text: str) -> str:
    """Point to the line that is most similar to the first line of `old`, or say what to do."""
    if _NUMBERED.match(old):
        return "leave out the line numbers that Read puts before each line"
    first = next((line.strip() for line in old.split("\n") if line.strip()), "")[:300]
    lines = [line.strip()[:300] for line in text.split("\n")[:_COMPARED_LINES]]
    near = difflib.get_close_matches(first, lines, n=1) if first else []
    if not near:
        return "read the file again and copy the text exactly"
    number = lines.index(near[0]) + 1
    reason = "with other white space or following lines" if near[0] == first else "similar"
    return f"line {number} is {reason}: {clip(text.split(chr(10))[number - 1], 300)!r}"


def write_over(former: bytes, content: str) -> tuple[str, bytes, list[str]]:
    r"""Encode the new content of a file as the former one was, as far as that is known.

    Returns:
        The text as it is written, its bytes, and what was kept or changed of mark, encoding and
        line ends, as notes for the model.

    Example:
        >>> write_over(b"\xef\xbb\xbfa\r\n", "b\n")
        ('b\r\n', b'\xef\xbb\xbfb\r\n', ['kept the byte order mark', 'kept the line ends \\r\\n'])
    """
    try:
        was = TextContent.decode(former)
    except ToolError:
        return content, content.encode(), ["it was not text in a known encoding; it is UTF-8 now"]
    notes = []
    content = content.removeprefix("\ufeff") if was.mark else content
    if was.mark:
        named = "" if was.encoding == "utf-8" else f" and the encoding {was.encoding}"
        notes.append(f"kept the byte order mark{named}")
    shifted = [encoding for encoding, _ in other_readings(former)] if former.isascii() else []
    if (not was.encoding and not content.isascii()) or shifted:
        before = f"may have been {shifted[0]}" if shifted else "was in another encoding"
        notes.append(f"it {before}; it is UTF-8 now")
        was = TextContent(was.text)
    content, note = _adopt_ends(was, content)
    return content, was.encode(content), [*notes, *note]


def _adopt_ends(was: TextContent, content: str) -> tuple[str, list[str]]:
    """Write a content with the line ends of the former one, unless it has others of its own."""
    if "\n" not in content or not re.search("[\r\n]", was.text):
        return content, []
    written = TextContent(content)
    if "\r\n" in content:
        same = written.newline == was.newline and written.is_mixed == was.is_mixed
        return content, [] if same else ["its line ends are \\r\\n now"]
    text = content.replace("\n", was.newline)
    name = was.newline.encode("unicode_escape").decode()
    if was.is_mixed:
        return text, [f"its line ends were mixed; all are {name} now"]
    return text, [f"kept the line ends {name}"] if text != content else []
