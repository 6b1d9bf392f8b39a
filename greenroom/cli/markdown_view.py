"""How Markdown looks in a terminal: every letter of it, in order.

What Markdown calls HTML is shown as it was written, and so are link definitions, footnotes and
front matter: a model that writes `List<String>` means these letters.

`MarkdownStream` takes it as it streams in: the blocks that are finished, and the tail that may
still change.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec
from rich.style import Style
from rich.text import Text

from greenroom.cli.painter import ColorScheme, Prefixed, Quoted, hang_indent, indent
from greenroom.cli.renderables import Console, ConsoleOptions, Group, RenderableType, RenderResult
from greenroom.cli.rows import Prose, read_plain
from greenroom.cli.table import TableView
from greenroom.core._internal import compile_later, legible

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

_FENCE = compile_later(r"(?P<indent>\s*)(?P<mark>`{3,}|~{3,})")
_RAW_ENDS = {
    "comment": compile_later("-->"),
    "instruction": compile_later(r"\?>"),
    "cdata": compile_later(r"\]\]>"),
    "declaration": compile_later(">"),
    "text": compile_later("</(?:pre|script|style|textarea)>", re.IGNORECASE),
    "element": compile_later(r"\A\s*\Z"),
}
"""What ends HTML, in which fences, and but for the last blank lines, mean nothing.

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


_MAX_COLOURED = 20_000  # characters of code that are coloured
_FRONT_MATTER = compile_later(r"---[ \t]*\n(?=[\w-]+[ \t]*:)(?:(?!---).*\n)*---[ \t]*(?:\n|\Z)")
_TASK = compile_later(r"\[([ xX])\][ \t]+")


@lru_cache(1)
def _parser() -> "MarkdownIt":
    """Return the parser of what models write, in which nothing refers to another block."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable(["strikethrough", "table"])
    return parser.disable(["reference", "autolink"])


def is_parser_loaded() -> bool:
    """Whether what reads Markdown and colours code is loaded."""
    return "markdown_it" in sys.modules and "rich.syntax" in sys.modules


def load_parser() -> None:
    """Load what reads Markdown, draws it and colours code, which takes longer than a key may."""
    for name in ("rich.console", "markdown_it.tree", "rich.syntax"):
        import_module(name)


def render_markdown(text: str, scheme: ColorScheme) -> RenderableType:
    """Show Markdown of a model, with a blank line between its blocks.

    A link carries its address; where the terminal knows no links, the address stands behind it.
    """
    if (plain := read_plain(text, scheme.code_span)) is not None:
        return plain
    front = _FRONT_MATTER.match(text.lstrip("\n"))
    if front is None:
        return _Document(text, scheme)
    rest = text.lstrip("\n")[front.end() :]
    matter = Text(legible(front[0].rstrip("\n")), scheme.note)
    return Group(matter, Text(""), _Document(rest, scheme)) if rest.strip() else matter


class _Document:
    """The blocks of a text, one below the other."""

    def __init__(self, text: str, scheme: ColorScheme) -> None:
        self._text = text
        self._scheme = scheme

    @cached_property
    def _root(self) -> "SyntaxTreeNode":
        # Read once it is drawn: what comes at once would hold up the event loop if all were read.
        from markdown_it.tree import SyntaxTreeNode

        return SyntaxTreeNode(_parser().parse(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        view = _Blocks(self._scheme, shows_links=console.color_system is not None)
        yield from _stack(view.show(self._root.children))


class _Blocks:
    """Turns the blocks of a document into what rich draws."""

    def __init__(self, scheme: ColorScheme, *, shows_links: bool) -> None:
        self._scheme = scheme
        self._shows_links = shows_links

    def show(self, blocks: "Sequence[SyntaxTreeNode]") -> list[RenderableType]:
        """Show each of these blocks."""
        return [self._block(block) for block in blocks]

    def _block(self, block: "SyntaxTreeNode") -> RenderableType:
        match block.type:
            case "paragraph":
                return Prose(self._words(block))
            case "heading":
                return Prose(self._words(block, self._scheme.heading))
            case "fence" | "code_block":
                return indent(_Code(block.content, _language(block), self._scheme))
            case "html_block":
                return Quoted(Text(""), Text(legible(block.content.rstrip("\n"))))
            case "blockquote":
                bar = Text("│ ", self._scheme.note)
                return Prefixed(bar, Group(*_stack(self.show(block.children))))
            case "bullet_list" | "ordered_list":
                return Group(*self._items(block))
            case "table":
                return TableView(*self._rows(block))
            case "hr":
                return Text("─" * 20, self._scheme.note)
            case _:
                return Text(legible(block.content))

    def _items(self, block: "SyntaxTreeNode") -> Iterator[RenderableType]:
        is_tight = all(
            child.hidden
            for item in block.children
            for child in item.children
            if child.type == "paragraph"
        )
        for number, item in enumerate(block.children):
            if number and not is_tight:
                yield Text("")
            content = self.show(item.children)
            mark = f"{item.info}{item.markup}" if block.type == "ordered_list" else "•"
            first = self._words(item.children[0]) if _begins_with_text(item) else Text()
            if task := _TASK.match(first.plain):
                box = "☐" if task[1] == " " else "☑"
                mark = box if mark == "•" else f"{mark} {box}"
                content[0] = Prose(first[task.end() :])
            yield hang_indent(Text(f"{mark} "), Group(*_stack(content, is_tight=is_tight)))

    def _rows(self, block: "SyntaxTreeNode") -> tuple[list[list[Text]], list[str]]:
        """Return the cells of a table, the names of its columns first, and how columns align."""
        rows = [row for part in block.children for row in part.children]
        cells = [[self._words(cell) for cell in row.children] for row in rows]
        for cell in cells[0]:
            cell.stylize(self._scheme.heading)
        sides = [str(cell.attrs.get("style", "")) for cell in rows[0].children]
        return cells, [side.removeprefix("text-align:") or "left" for side in sides]

    def _words(self, block: "SyntaxTreeNode", style: str = "") -> Text:
        text = Text(style=style)
        for inline in block.children:
            self._add(inline.children, text, Style())
        return text

    def _add(self, nodes: "Sequence[SyntaxTreeNode]", text: Text, style: Style) -> None:
        for node in nodes:
            match node.type:
                case "softbreak" | "hardbreak":
                    text.append("\n")
                case "em" | "strong" | "s":
                    self._add(node.children, text, style + _MARKS[node.type])
                case "code_inline":
                    text.append(legible(node.content), style + Style.parse(self._scheme.code_span))
                case "link" | "image":
                    self._add_link(node, text, style)
                case _:
                    text.append(legible(node.content), style)

    def _add_link(self, node: "SyntaxTreeNode", text: Text, style: Style) -> None:
        """Show a link or a picture: its words, its title, and its address where that says more."""
        address = legible(str(node.attrs.get("href") or node.attrs.get("src") or ""))
        words = Text()
        self._add(node.children, words, Style())
        link = Style(link=address) if self._shows_links and address else Style()
        text.append_text(_restyle(words, style + Style.parse(self._scheme.link) + link))
        if title := str(node.attrs.get("title") or ""):
            text.append(f' "{legible(title)}"', style)
        is_said = _bare(words.plain) == _bare(address)
        if address and not is_said and (not self._shows_links or _may_mislead(words.plain)):
            text.append(f" ({address})" if words.plain else address, self._scheme.note)


def _stack(parts: Sequence[RenderableType], *, is_tight: bool = False) -> list[RenderableType]:
    """Put parts one below the other, with blank lines between them unless they are tight."""
    if is_tight:
        return list(parts)
    return [each for part in parts for each in (Text(""), part)][1:]


def _begins_with_text(item: "SyntaxTreeNode") -> bool:
    return bool(item.children) and item.children[0].type == "paragraph"


_MARKS = {"em": Style(italic=True), "strong": Style(bold=True), "s": Style(strike=True)}
_ADDRESS = compile_later(
    r"\s*(?:\S*(?:://|\bwww\.|\w@\w|\w\.(?:app|com|dev|edu|gov|io|net|org)\b)\S*)?\s*",
    re.IGNORECASE,
)


def _restyle(words: Text, below: Style) -> Text:
    words.stylize_before(below)
    return words


def _bare(address: str) -> str:
    return unquote(address).removeprefix("mailto:").rstrip("/").partition("://")[-1] or unquote(
        address
    ).removeprefix("mailto:").rstrip("/")


def _may_mislead(words: str) -> bool:
    """Whether the words of a link look like an address themselves, or are none."""
    return bool(_ADDRESS.fullmatch(words))


def _language(block: "SyntaxTreeNode") -> str:
    return block.info.split(maxsplit=1)[0].lower() if block.info.strip() else ""


class _Code:
    """Code, in colours; a line that is too long goes on in the next row."""

    def __init__(self, code: str, language: str, scheme: ColorScheme) -> None:
        self._code = code
        self._language = language
        self._scheme = scheme

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = legible(self._code).rstrip("\n")
        yield Quoted(Text(""), self._colour(code, is_coloured=console.color_system is not None))

    def _colour(self, code: str, *, is_coloured: bool) -> Text:
        if not self._language or not is_coloured or len(code) > _MAX_COLOURED:
            return Text(code)
        from rich.syntax import Syntax

        coloured = Syntax("", self._language, theme=self._scheme.code).highlight(code)
        # A lexer that drops or adds something would show other letters than were written.
        return coloured[: len(code)] if coloured.plain.startswith(code) else Text(code)
