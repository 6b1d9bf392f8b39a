"""Markdown as it streams in: finished blocks, the tail that is redrawn, and how both look."""

import re

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import Heading, Markdown
from rich.segment import Segment

from greenroom.cli.painter import ColorScheme, strip_end
from greenroom.core import visible

_FENCE = re.compile(r"(?P<indent>\s*)(?P<mark>`{3,}|~{3,})")
_MAX_TAIL = 4_000  # characters of an unfinished block, of which a screen shows the end only


class MarkdownStream:
    r"""Takes text piece by piece and gives each block once, as soon as nothing can change it.

    A block is finished where a blank line is followed by a line that is not indented (an indented
    one may go on with a list item), or where its code fence closes.

    Example:
        >>> stream = MarkdownStream()
        >>> stream.feed("# Title\n\nSome te"), stream.feed("xt\n")
        ([], ['# Title\n\n'])
        >>> stream.tail
        'Some text\n'
    """

    def __init__(self) -> None:
        """Start with nothing."""
        self._finished_text = ""
        self._open = ""
        self._position = 0
        self._fence = ""
        self._fence_line = ""
        self._after_blank = False

    def feed(self, text: str) -> list[str]:
        """Take a piece of text and return the blocks that it finishes."""
        self._open += text
        blocks: list[str] = []
        while (end := self._open.find("\n", self._position)) >= 0:
            cut = self._scan(self._open[self._position : end], self._position, end + 1)
            self._position = end + 1
            if cut:
                blocks += self._cut(cut)
        return blocks

    def _scan(self, line: str, start: int, end: int) -> int:
        """Look at one line; return where the block before it, or with it, ends, or 0."""
        if self._fence:
            if line.strip().startswith(self._fence) and not line.strip(" `~"):
                self._fence = ""
                return 0 if self._fence_line[:1].isspace() else end
            return 0
        if not line.strip():
            self._after_blank = True
            return 0
        cut = start if self._after_blank and not line[0].isspace() else 0
        self._after_blank = False
        if fence := _FENCE.match(line):
            self._fence, self._fence_line = fence["mark"], line
        return cut

    def _cut(self, end: int) -> list[str]:
        block, self._open = self._open[:end], self._open[end:]
        self._position -= end
        self._finished_text += block
        return [block] if block.strip() else []

    @property
    def tail(self) -> str:
        """The unfinished block; of a very long one the end, after its opening fence."""
        if len(self._open) <= _MAX_TAIL:
            return self._open
        end = self._open[-_MAX_TAIL:]
        end = end[end.find("\n") + 1 :]
        return f"{self._fence_line}\n{end}" if self._fence else end

    def finish(self, whole: str | None = None) -> list[str]:
        """Return the rest; the stream takes no more text.

        Args:
            whole: the whole text if it is known, to make up for pieces that were missed.
        """
        rest = self._open
        if whole is not None:
            rest = whole.removeprefix(self._finished_text)
        return [rest] if rest.strip() else []


def render_markdown(text: str, scheme: ColorScheme) -> RenderableType:
    """Show Markdown of a model; a link shows its address."""
    return _Trimmed(_Markdown(visible(text), code_theme=scheme.code, hyperlinks=False))


class _Heading(Heading):
    """A heading at the left, where the eye is while text streams in."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _Heading}


class _Trimmed:
    """Markdown without the blank lines that rich puts above and below some blocks."""

    def __init__(self, content: Markdown) -> None:
        self._content = content

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rendered = console.render_lines(self._content, options, pad=False)
        lines = [strip_end(line) for line in rendered]
        while lines and not lines[0]:
            del lines[0]
        while lines and not lines[-1]:
            del lines[-1]
        for line in lines:
            yield from (*line, Segment.line())
