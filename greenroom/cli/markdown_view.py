"""How Markdown looks in a terminal: every letter of it, in order.

What Markdown calls HTML is shown as it was written, and so are link definitions, footnotes and
front matter: a model that writes `List<String>` means these letters.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING
from urllib.parse import unquote

from rich.style import Style
from rich.text import Text

from greenroom.cli.painter import ColorScheme, Prefixed, Quoted, hang_indent, indent
from greenroom.cli.renderables import Console, ConsoleOptions, Group, RenderableType, RenderResult
from greenroom.cli.rows import Prose, read_plain
from greenroom.cli.table import TableView
from greenroom.core._internal import compile_later, legible

if TYPE_CHECKING:  # they take long to load, and no request to a model waits for that
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

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
