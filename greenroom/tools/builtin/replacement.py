"""The rule by which text is found and replaced: exactly, once, whatever the line ends."""

import difflib
import re
from bisect import bisect_left
from dataclasses import dataclass

from greenroom.core import ToolError, clip
from greenroom.tools.builtin.text_file import TextContent

_LISTED_LINES = 10
_COMPARED_LINES = 5_000
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)


@dataclass(frozen=True)
class Replacement:
    r"""Put `new` in place of `old`.

    A line end in `old` matches that of the file, `\n` or `\r\n`; those in `new` become what most
    lines of the file have.

    Example:
        >>> change = Replacement("a\nb", "c\nd")
        >>> change.apply(TextContent("a\r\nb\r\n"), "f.txt")
        ('c\r\nd\r\n', 1)
    """

    old: str
    new: str
    everywhere: bool = False

    def apply(self, content: TextContent, label: str) -> tuple[str, int]:
        """Return the changed text, and how many places were replaced.

        Raises:
            ToolError: `old` is empty, is not there, or not unique; or nothing would change.
        """
        old, new = (text.replace("\r\n", "\n") for text in (self.old, self.new))
        if not old:
            raise ToolError("old_string is empty", hint="make a file with Write")
        if old == new:
            raise ToolError("old_string and new_string are the same, so nothing would change")
        plain = content.text.replace("\r\n", "\n")
        starts = _places(old, plain)
        if not starts:
            raise ToolError(f"old_string is not in {label}", hint=_nearest(old, content.text))
        if len(starts) > 1 and not self.everywhere:
            lines = [plain.count("\n", 0, start) + 1 for start in starts[:_LISTED_LINES]]
            more = ", …" if len(starts) > _LISTED_LINES else ""
            raise ToolError(
                f"old_string stands {len(starts)} times in {label}, at the lines "
                f"{', '.join(map(str, lines))}{more}",
                hint="add surrounding lines to make it unique, or set replace_all",
            )
        new = new.replace("\n", content.newline)
        return _put(new, [(start, start + len(old)) for start in starts], content.text), len(starts)


def _places(wanted: str, text: str) -> list[int]:
    found = []
    start = text.find(wanted)
    while start >= 0:
        found.append(start)
        start = text.find(wanted, start + len(wanted))
    return found


def _put(new: str, spans: list[tuple[int, int]], text: str) -> str:
    r"""Put `new` in place of spans, which count each `\r\n` of the text as one character."""
    pairs = [found.start() - count for count, found in enumerate(re.finditer("\r\n", text))]
    pieces, position = [], 0
    for start, end in spans:
        pieces += [text[position : start + bisect_left(pairs, start)], new]
        position = end + bisect_left(pairs, end)
    return "".join([*pieces, text[position:]])


def _nearest(old: str, text: str) -> str:
    """Point to the line that is most like the first line of what was looked for."""
    if _NUMBERED.match(old):
        return "leave out the line numbers that Read puts before each line"
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:300]
    lines = [line.strip()[:300] for line in text.split("\n")[:_COMPARED_LINES]]
    near = difflib.get_close_matches(wanted, lines, n=1) if wanted else []
    if not near:
        return "read the file again and copy the text exactly"
    number = lines.index(near[0]) + 1
    reason = "with other white space or following lines" if near[0] == wanted else "similar"
    return f"line {number} is {reason}: {clip(text.split(chr(10))[number - 1], 300)!r}"
