"""Markdown as it streams in: the blocks that are finished, and the tail that may still change."""

import re
from functools import lru_cache

import msgspec

from greenroom.core._internal import compile_later

_FENCE = compile_later(r"(?P<indent>\s*)(?P<mark>`{3,}|~{3,})")
_RAW_ENDS = {
    "comment": compile_later("-->"),
    "instruction": compile_later(r"\?>"),
    "cdata": compile_later(r"\]\]>"),
    "declaration": compile_later(">"),
    "text": compile_later("</(?:pre|script|style|textarea)>", re.IGNORECASE),
    "element": compile_later(r"\A\s*\Z"),
}
"""What ends HTML: fences in it mean nothing, and blank lines only end the last kind.

These are the kinds 1 to 6 of section 4.6 of CommonMark.
"""


@lru_cache(1)
def _raw() -> re.Pattern[str]:
    """Return what begins HTML."""
    # Here and not above: no key, and no request to a model, waits for it.
    from markdown_it.common.html_blocks import block_names

    return re.compile(
        r" {0,3}(?:(?P<comment><!--)|(?P<instruction><\?)|(?P<cdata><!\[CDATA\[)"
        r"|(?P<declaration><![a-z])"
        r"|(?P<text><(?:pre|script|style|textarea)(?=[\s>]|$))"
        rf"|(?P<element></?(?:{'|'.join(block_names)})(?=[\s/>]|$)))",
        re.IGNORECASE,
    )


_MAX_TAIL = 4_000  # characters of an unfinished block, of which a screen shows the end only
_MAX_BLOCK = 12_000  # characters after which a block is cut, at a blank or the end of a line
_PART, _MAX_PART = 2_000, 4_000  # characters of code: cut at an empty line, and at any line
_STEP = 8_000  # characters that are looked at at once


class Block(msgspec.Struct, frozen=True):
    """A block of a text, or a part of a long one.

    Attributes:
        text: what was written, all parts joined.
        fence: the line that has opened the code that a part goes on with; else empty.
        is_part: whether the next block goes on with it.
    """

    text: str
    fence: str = ""
    is_part: bool = False

    @property
    def markdown(self) -> str:
        """The text, as Markdown of its own."""
        return f"{self.fence}\n{self.text}" if self.fence else self.text


class MarkdownStream:
    r"""Takes text piece by piece and gives each block once, as soon as nothing can change it.

    A block is finished where a blank line is followed by a line that is not indented (an indented
    one may go on with a list item), or where its code fence closes; not in a comment of HTML. Long
    code comes in parts, and so does any block of more than 12,000 characters.

    Example:
        >>> stream = MarkdownStream()
        >>> stream.feed("# Title\n\nSome te"), stream.feed("xt\n")
        ([], [Block(text='# Title\n\n', fence='', is_part=False)])
        >>> stream.tail
        'Some text\n'
    """

    def __init__(self) -> None:
        self._finished = list[str]()
        self._open = ""  # the unfinished block, as far as it has whole lines
        self._line = list[str]()  # the pieces of its last line
        self._line_length = 0
        self._position = 0  # in what is open: where the lines begin that were not looked at
        self._raw_end: re.Pattern[str] | None = None  # of the HTML that goes on until there
        self._fence = ""
        self._fence_line = ""
        self._code_start = 0  # in what is open
        self._cut_fence = ""  # the fence of the code of which a part is finished
        self._after_blank = False
        self._is_torn = False

    def feed(self, text: str) -> list[Block]:
        """Take a piece of text and return the blocks that it finishes."""
        if self._is_torn:
            return []
        self._line.append(text)
        self._line_length += len(text)
        if "\n" not in text and len(self._open) + self._line_length < _MAX_BLOCK:
            return []
        line, self._line, self._line_length = "".join(self._line), [], 0
        steps = range(0, len(line), _STEP)
        return [block for at in steps for block in self._take(line[at : at + _STEP])]

    def miss(self) -> None:
        """Take nothing more until `finish`, since a piece was missed here."""
        self._is_torn = True

    def _take(self, text: str) -> list[Block]:
        self._open += text
        blocks: list[Block] = []
        while (end := self._open.find("\n", self._position)) >= 0:
            cut = self._scan(self._open[self._position : end], self._position, end + 1)
            self._position = end + 1
            if cut:
                blocks += self._cut(cut)
            blocks += self._cut_long(self._position)
        return blocks + self._cut_long(len(self._open))

    def _scan(self, line: str, start: int, end: int) -> int:
        """Look at one line; return where the block before it, or with it, ends, or 0."""
        if self._fence:
            if line.strip().startswith(self._fence) and not line.strip(" `~"):
                self._fence = ""
                return 0 if self._fence_line[:1].isspace() else end
            return 0
        if self._raw_end is not None:
            if not self._raw_end.search(line):
                return 0
            self._raw_end = None
            if line.strip():
                return 0
        if not line.strip():
            self._after_blank = True
            return 0
        cut = start if self._after_blank and not line[0].isspace() else 0
        self._after_blank = False
        if fence := _FENCE.match(line):
            self._fence, self._fence_line, self._code_start = fence["mark"], line, end
        elif raw := _raw().match(line):
            until = _RAW_ENDS[str(raw.lastgroup)]
            self._raw_end = None if until.search(line, raw.end()) else until
        return cut

    def _cut_long(self, length: int) -> list[Block]:
        """Cut off a part of what is open, once so much of it is long."""
        if self._fence:
            start, seen = self._code_start, self._position
            if seen > start + _PART and (end := self._open.rfind("\n\n", start, seen)) > 0:
                return self._cut(end + 2, is_part=True)
            if seen > start + _MAX_PART:
                return self._cut(seen, is_part=True)
        if length < _MAX_BLOCK:
            return []
        end = self._open.rfind("\n", 0, _MAX_BLOCK) + 1 or self._open.rfind(" ", 0, _MAX_BLOCK) + 1
        return self._cut(end or _MAX_BLOCK, is_part=True)

    def _cut(self, end: int, *, is_part: bool = False) -> list[Block]:
        text, self._open = self._open[:end], self._open[end:]
        self._position = max(self._position - end, 0)
        self._code_start = max(self._code_start - end, 0)
        self._finished.append(text)
        block = Block(text, self._cut_fence, is_part)
        self._cut_fence = self._fence_line.strip() if is_part and self._fence else ""
        return [block] if text.strip() else []

    @property
    def tail(self) -> str:
        """The unfinished block; of a very long one the end, after its opening fence."""
        open_ = self._open + "".join(self._line)
        fence = self._fence_line.strip() if self._fence else ""
        if len(open_) <= _MAX_TAIL:
            return f"{self._cut_fence}\n{open_}" if self._cut_fence else open_
        end = open_[-_MAX_TAIL:]
        end = end[end.find("\n") + 1 :]
        return f"{fence}\n{end}" if fence else end

    def finish(self, whole: str | None = None) -> list[Block]:
        """Return the rest; the stream takes no more text.

        Args:
            whole: the whole text if it is known, to make up for pieces that were missed.
        """
        rest = self._open + "".join(self._line)
        end = [Block(rest, self._cut_fence)] if rest.strip() else []
        if whole is None or len(whole) == sum(map(len, self._finished)) + len(rest):
            return end
        said, missed = "".join(self._finished), MarkdownStream()
        if whole.startswith(said + rest):
            return [*missed.feed(whole[len(said) :]), *missed.finish()]
        return [*end, *missed.feed(whole), *missed.finish()]  # it is another text
