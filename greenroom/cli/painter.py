"""Paints what rich renders as text, with or without ANSI codes; margins, diffs and colours.

Text, which most is, is drawn as rich's console does it, without loading that.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec
from rich.errors import StyleSyntaxError
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from greenroom.cli.renderables import Console, ConsoleOptions, RenderableType, RenderResult
from greenroom.cli.rows import COLOR_SYSTEMS, PlainProse, fold
from greenroom.core._internal import compile_later, visible

Colors: TypeAlias = Literal["standard", "256", "truecolor"] | None
"""How many colours a terminal has; None for text without any codes."""


_Draw: TypeAlias = Callable[[Iterable[RenderableType], int, Colors, bool], str]

_LINK = compile_later(r"\x1b\]8;[^\x1b]*\x1b\\")


class Painter:
    r"""Paints for one kind of terminal.

    Example:
        >>> Painter(None).paint(["plain"], width=20)
        'plain\n'
    """

    def __init__(self, colors: Colors) -> None:
        """Paint with these colours, or with None without any control code."""
        self._colors = colors

    def paint(
        self,
        renderables: Iterable[RenderableType],
        width: int,
        *,
        links: bool = True,
        unfolds: bool = False,
    ) -> str:
        """Return the renderables one below the other; a line takes at most `width` columns.

        Without `links`, links are just words; what is folded is shown whole if it `unfolds`.
        """
        parts, columns = list[str](), max(width, 20)
        for draw, group in groupby(renderables, _choose_way):
            if draw is None:
                parts += [_paint_plain(each, columns, self._colors) for each in group]
            else:
                drawn = draw(group, columns, self._colors, unfolds)
                parts.append(self._finish(drawn, links=links))
        return "".join(parts)

    def _finish(self, text: str, *, links: bool) -> str:
        if self._colors is not None:
            return text if links else _LINK.sub("", text)
        return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


def _choose_way(renderable: RenderableType) -> "_Draw | None":
    """Return what draws this; None for what is painted as it stands."""
    if _is_plain(renderable):
        return None
    return draw_text if is_simple(renderable) else _draw


def draw_text(
    renderables: Iterable[RenderableType], width: int, colors: Colors, _unfolds: bool = False
) -> str:
    """Return what rich's console would draw of text, without loading that."""
    console, options, system = _TextConsole(), _Options(width), COLOR_SYSTEMS[colors]
    parts = list[str]()
    for each in renderables:
        for text, style, _ in console.render(each, options):
            parts.append(style.render(text, color_system=system) if style else text)
    return "".join(parts)


class _Options(NamedTuple):
    """What text asks about the place where it is drawn."""

    max_width: int
    justify: None = None
    overflow: None = None
    no_wrap: None = None

    def update(self, *, width: int) -> "_Options":
        return self._replace(max_width=width)


class _TextConsole:
    """What text asks of a console."""

    tab_size = 8

    def get_style(self, name: str | Style, *, default: str | Style = "") -> Style:
        if isinstance(name, Style):
            return name
        try:
            style = _read_style(name)
        except StyleSyntaxError:
            return self.get_style(default)
        return style.copy() if style.link else style

    def render(self, renderable: RenderableType, options: _Options) -> Iterator[Segment]:
        drawn = renderable.__rich_console__(  # type: ignore[union-attr]
            cast("Console", self), cast("ConsoleOptions", options)
        )
        for each in drawn:
            if isinstance(each, Segment):
                yield each
            else:
                yield from self.render(each, options)


def _read_style(name: str) -> Style:
    """Read a style as rich does, which knows some by names of its own, such as "code".

    Raises:
        StyleSyntaxError: it is neither the name of a style nor the words of one.
    """
    try:
        return Style.parse(name)
    except StyleSyntaxError:
        from rich.default_styles import DEFAULT_STYLES

        if name not in DEFAULT_STYLES:
            raise
        return DEFAULT_STYLES[name]


def _draw(renderables: Iterable[RenderableType], width: int, colors: Colors, unfolds: bool) -> str:
    from greenroom.cli.paint_console import draw  # loads what text can be drawn without

    return draw(renderables, width, colors, unfolds=unfolds)


def _is_plain(renderable: RenderableType) -> bool:
    """Whether it is painted without rich: the paragraphs that a reply mostly is, and blank rows."""
    return isinstance(renderable, PlainProse) or (
        isinstance(renderable, Text) and not renderable.plain
    )


def is_simple(renderable: RenderableType) -> bool:
    """Whether it is text without marks, for which no Markdown is read and no code is coloured."""
    content = renderable
    while isinstance(content, LastRows | Prefixed):
        content = content.content
    return isinstance(content, PlainProse | Quoted | Text)


def _paint_plain(renderable: RenderableType, width: int, colors: Colors) -> str:
    return renderable.paint(width, colors) if isinstance(renderable, PlainProse) else "\n"


def detect_colors(env: Mapping[str, str] | None = None) -> Colors:
    """Return how many colours the terminal has; None if `NO_COLOR` is set.

    Example:
        >>> detect_colors({"TERM": "xterm-256color"})
        '256'
        >>> detect_colors({"TERM": "xterm", "NO_COLOR": "1"}) is None
        True
    """
    env = os.environ if env is None else env
    if env.get("NO_COLOR"):
        return None
    term = env.get("TERM", "").strip().lower()
    if term in ("dumb", "unknown"):
        return None
    if env.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "truecolor"
    return "256" if term.rpartition("-")[2] in ("kitty", "256color") else "standard"


_NARROWEST = 8


class Prefixed:
    """Any content with the same text before each of its lines."""

    def __init__(self, prefix: Text, content: RenderableType, *, later: Text | None = None) -> None:
        """Put this prefix before each line, or the later one before all but the first.

        Each must be one line, and they must be equally wide.
        """
        self.content = content
        self._prefix = prefix
        self._later = later or prefix

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - self._prefix.cell_len, _NARROWEST)
        prefix, later = (
            [each for each in console.render(text, options) if each.text != "\n"]
            for text in (self._prefix, self._later)
        )
        content = console.render(self.content, options.update(width=width))
        for line in Segment.split_lines(content):  # which crops none
            yield from (*prefix, *strip_end(line), Segment.line())
            prefix = later


class Quoted:
    """Text that is shown exactly: full rows, each after the same prefix, with all its blanks."""

    def __init__(self, prefix: Text, text: Text, *, later: Text | None = None) -> None:
        """Put this prefix, one line, before each row of the text, or the later one before others.

        Both must be equally wide.
        """
        self._prefix = prefix
        self._later = later or prefix
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - self._prefix.cell_len, 2)
        prefix, later = (list(each.render(console)) for each in (self._prefix, self._later))
        for row in fold(self._text, width):
            yield from (*prefix, *row.render(console), Segment.line())
            prefix = later


class LastRows:
    """The last rows of some content."""

    def __init__(self, content: RenderableType, rows: int) -> None:
        self.content = content
        self._rows = rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = list(Segment.split_lines(console.render(self.content, options)))
        for line in lines[-self._rows :]:
            yield from (*line, Segment.line())


def indent(content: RenderableType, columns: int = 2) -> Prefixed:
    """Move content to the right."""
    return Prefixed(Text(" " * columns), content)


def hang_indent(head: Text, content: RenderableType) -> Prefixed:
    """Put a head before content whose further lines begin below its first, not below the head."""
    return Prefixed(head, content, later=Text(" " * head.cell_len))


def strip_end(line: Iterable[Segment]) -> list[Segment]:
    """Return a line without invisible blanks at its end, which would wrap in a narrower window."""
    left = list(line)
    while left and not left[-1].text.strip(" ") and not _is_filled(left[-1]):
        del left[-1]
    if left and not _is_filled(left[-1]):
        left[-1] = Segment(left[-1].text.rstrip(" "), left[-1].style)
    return left


def _is_filled(segment: Segment) -> bool:
    return segment.style is not None and segment.style.bgcolor is not None


class ColorScheme(msgspec.Struct, frozen=True):
    """What each kind of text looks like; every field is a style of rich, such as "bold red".

    Attributes:
        user: what the user typed.
        thinking: the model's reasoning.
        tool: the name of a tool that ran.
        output: what a tool printed.
        error: errors, and calls that failed.
        note: remarks of the program.
        added: added lines of a diff.
        removed: removed lines of a diff.
        hunk: the places that a diff is about.
        question: the head of a permission prompt.
        effect: what a call would do beyond the workspace.
        subagent: the names of subagents.
        todo: the step in progress.
        heading: the headings of a reply, and the names of a table's columns.
        code_span: code within a line.
        link: the words of a link.
        code: the theme of code blocks, one of pygments'.

    Example:
        >>> ColorScheme(user="bold green").user
        'bold green'
    """

    user: str = "bold cyan"
    thinking: str = "dim italic"
    tool: str = "bold"
    output: str = "dim"
    error: str = "red"
    note: str = "dim"
    added: str = "green"
    removed: str = "red"
    hunk: str = "cyan"
    question: str = "bold yellow"
    effect: str = "yellow"
    subagent: str = "magenta"
    todo: str = "bold"
    heading: str = "bold"
    code_span: str = "cyan"
    link: str = "underline"
    code: str = "ansi_dark"


def diff_text(diff: str, scheme: ColorScheme) -> Text:
    """Colour a unified diff; blanks at the end of a changed line are shown as dots."""
    text = Text()
    for line in visible(diff).splitlines():
        text.append(mark_blanks(line) + "\n", diff_style(line, scheme))
    text.right_crop(1)
    return text


def mark_blanks(line: str) -> str:
    """Show the blanks at the end of a changed line of a diff as dots."""
    bare = line.rstrip(" ")
    return bare + "·" * (len(line) - len(bare)) if line[:1] in "+-" else line


def diff_style(line: str, scheme: ColorScheme) -> str:
    """Return the style of a line of a diff."""
    if line.startswith(("+++", "---")):
        return scheme.note
    styles = {"+": scheme.added, "-": scheme.removed, "@": scheme.hunk}
    return styles.get(line[:1], "")
