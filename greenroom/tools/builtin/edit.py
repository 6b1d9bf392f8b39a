"""`Edit` and `Write`: replace a piece of text in a file, or write a whole file."""

import codecs
import difflib
import os
import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.core import (
    AgentContext,
    Effect,
    ToolError,
    ToolInfo,
    ToolResult,
    clip,
    usual_effects,
)
from greenroom.fs import open_regular, replace_file
from greenroom.tools.builtin.file_access import (
    FILE_PATH,
    FileStamps,
    Stamp,
    in_thread,
    os_errors,
    path_lock,
    read_pieces,
    resolve_and_show,
)

_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
_BEYOND_ASCII = re.compile("[\x80-\ud7ff\ue000-\U0010ffff]")


def is_binary(start: bytes) -> bool:
    """Whether a file with this beginning is not text: it has NULs, and no mark of UTF-16."""
    return b"\0" in start and not start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


@dataclass(frozen=True)
class TextContent:
    r"""A file's text, and how to encode it again without changing other bytes.

    UTF-8 and UTF-16 (by its byte order mark) are recognized. Anything else is read as UTF-8 with
    stray bytes if it holds UTF-8 beyond ASCII, else as Latin-1. Either way each byte survives.

    Example:
        >>> content = TextContent.decode(b"caf\xe9\r\n")
        >>> content.text, content.newline, content.encode("th\xe9\r\n")
        ('café\r\n', '\r\n', b'th\xe9\r\n')
    """

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""
    errors: str = "strict"

    @classmethod
    def decode(cls, data: bytes) -> "TextContent":
        """Decode a file's bytes.

        Raises:
            ToolError: it is not text: binary, or broken UTF-16.
        """
        if is_binary(data):
            raise ToolError("the file is binary, so it can't be edited as text")
        mark = next((mark for mark in _MARKS if data.startswith(mark)), b"")
        encoding, body = _MARKS.get(mark, "utf-8"), data[len(mark) :]
        try:
            return cls(body.decode(encoding), encoding, mark)
        except UnicodeDecodeError as error:
            if encoding != "utf-8":
                raise ToolError(f"the file begins as UTF-16 but is not: {error.reason}") from error
        text = body.decode("utf-8", "surrogateescape")
        if mark or _BEYOND_ASCII.search(text):
            return cls(text, "utf-8", mark, "surrogateescape")
        return cls(body.decode("latin-1"), "latin-1")

    @property
    def newline(self) -> str:
        """The line end that most of its lines have."""
        pairs = self.text.count("\r\n")
        return "\r\n" if pairs > self.text.count("\n") - pairs else "\n"

    def encode(self, text: str) -> bytes:
        """Encode a changed text in the file's own encoding.

        Raises:
            ToolError: the encoding lacks a character of it.
        """
        try:
            return self.mark + text.encode(self.encoding, self.errors)
        except UnicodeEncodeError as error:
            raise ToolError(
                f"the file is {self.encoding}, which can't hold {text[error.start]!r}"
            ) from error


_LISTED_LINES = 10
_COMPARED_LINES = 5_000
_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)


@dataclass(frozen=True)
class Replacement:
    r"""Replaces `old` by `new`, found exactly and once, whatever the line ends.

    Line ends in `old` match `\n` and `\r\n`; those in `new` become the most frequent of the file.

    Example:
        >>> change = Replacement("a\nb", "c\nd")
        >>> change.apply(TextContent("a\r\nb\r\n"), "f.txt")
        ('c\r\nd\r\n', 1)
    """

    old: str
    new: str
    everywhere: bool = False

    def apply(self, content: TextContent, label: str) -> tuple[str, int]:
        """Return the changed text, and the number of replacements.

        Raises:
            ToolError: `old` is empty, missing or not unique; or nothing would change.
        """
        old, new = (text.replace("\r\n", "\n") for text in (self.old, self.new))
        if not old:
            raise ToolError("old_string is empty", hint="make a file with Write")
        if old == new:
            raise ToolError("old_string and new_string are the same, so nothing would change")
        plain = content.text.replace("\r\n", "\n")
        starts = _find_all(old, plain)
        if not starts:
            raise ToolError(f"old_string is not in {label}", hint=_suggest(old, content.text))
        if len(starts) > 1 and not self.everywhere:
            lines = [plain.count("\n", 0, start) + 1 for start in starts[:_LISTED_LINES]]
            more = ", …" if len(starts) > _LISTED_LINES else ""
            raise ToolError(
                f"old_string occurs {len(starts)} times in {label}, at the lines "
                f"{', '.join(map(str, lines))}{more}",
                hint="add surrounding lines to make it unique, or set replace_all",
            )
        new = new.replace("\n", content.newline)
        spans = [(start, start + len(old)) for start in starts]
        return _replace_spans(new, spans, content.text), len(starts)


def _find_all(old: str, text: str) -> list[int]:
    found = []
    start = text.find(old)
    while start >= 0:
        found.append(start)
        start = text.find(old, start + len(old))
    return found


def _replace_spans(new: str, spans: list[tuple[int, int]], text: str) -> str:
    r"""Put `new` in place of spans, which count each `\r\n` of the text as one character."""
    pairs = [found.start() - count for count, found in enumerate(re.finditer("\r\n", text))]
    pieces, position = [], 0
    for start, end in spans:
        pieces += [text[position : start + bisect_left(pairs, start)], new]
        position = end + bisect_left(pairs, end)
    return "".join([*pieces, text[position:]])


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


MAX_DIFF_CHARACTERS = 400_000
_MAX_LINES = 10_000
_MAX_COMPARED = 1_000
_CONTEXT = 3


def unified_diff(before: str, after: str, path: str) -> str:
    r"""Return the unified diff of two texts, or a line that says why they were not compared.

    It takes a few milliseconds at most, which an event loop can bear: more than 1,000 lines between
    the first change and the last count as replaced as a whole, and texts of more than 400,000
    characters or 10,000 lines are not compared.

    Example:
        >>> print(unified_diff("a\nb\n", "a\nc\n", "f.txt"))
        --- f.txt
        +++ f.txt
        @@ -1,2 +1,2 @@
         a
        -b
        +c
    """
    if len(before) + len(after) > MAX_DIFF_CHARACTERS:
        return f"{path}: too large to compare"
    old, new = before.split("\n"), after.split("\n")
    if len(old) + len(new) > _MAX_LINES:
        return f"{path}: too many lines to compare"
    # A final newline makes no line of its own; a missing one shows as such.
    old_end, new_end = old.pop() if not old[-1] else None, new.pop() if not new[-1] else None
    lines = _write_hunks(old, new)
    if lines:
        lines = [f"--- {path}", f"+++ {path}", *lines]
    if old_end != new_end:
        lines.append(
            "\\ The final newline was added" if new_end == "" else "\\ No newline at the end"
        )
    return "\n".join(line.rstrip("\r") for line in lines)


def _write_hunks(old: list[str], new: list[str]) -> list[str]:
    above = _count_common(old, new)
    below = _count_common(old[above:][::-1], new[above:][::-1])
    start, end = max(above - _CONTEXT, 0), max(below - _CONTEXT, 0)
    old, new = old[start : len(old) - end], new[start : len(new) - end]
    if len(old) + len(new) > _MAX_COMPARED:
        return _write_one_hunk(old, new, above - start, below - end, start)
    lines = list(difflib.unified_diff(old, new, n=_CONTEXT, lineterm=""))[2:]
    return [_move_header(line, start) if line.startswith("@@") else line for line in lines]


def _count_common(old: list[str], new: list[str]) -> int:
    """Count the lines at the start that both have."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(old), len(new)))


def _move_header(header: str, lines: int) -> str:
    return re.sub(r"(?<=[-+])\d+", lambda number: str(int(number[0]) + lines), header)


def _write_one_hunk(
    old: list[str], new: list[str], above: int, below: int, start: int
) -> list[str]:
    """Write one hunk: the lines above the change, the old ones, the new ones, those below."""
    # An empty range counts from the line before it.
    old_start, new_start = start + bool(old), start + bool(new)
    header = f"@@ -{old_start},{len(old)} +{new_start},{len(new)} @@"
    removed = [f"-{line}" for line in old[above : len(old) - below]]
    added = [f"+{line}" for line in new[above : len(new) - below]]
    tail = old[len(old) - below :]
    return [header, *_mark_context(old[:above]), *removed, *added, *_mark_context(tail)]


def _mark_context(lines: list[str]) -> list[str]:
    return [f" {line}" for line in lines]


_MAX_BYTES = 50_000_000


class Edit:
    """Replaces text that occurs exactly once in a file, or every occurrence of it.

    Encoding, byte order mark, line ends and mode of the file are kept, and each byte outside the
    replaced text. The agent must have read the file, and it must not have changed since.
    """

    name = "Edit"
    description = (
        "Replace old_string by new_string in a file that was read before. old_string must be the "
        "exact text without line numbers, and occur in the file once: add surrounding lines to "
        "make it unique, or set replace_all. An empty new_string deletes."
    )
    category = "write"
    requires_permission = True
    concurrent = False
    timeout = 60.0
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "file_path": FILE_PATH,
            "old_string": {
                "type": "string",
                "minLength": 1,
                "description": "The text to replace, as it is in the file.",
            },
            "new_string": {"type": "string", "description": "The text to put in its place."},
            "replace_all": {
                "type": "boolean",
                "description": "Replace every occurrence. Default false.",
            },
        },
        "required": ["file_path", "old_string", "new_string"],
        "additionalProperties": False,
    }

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the path, and the replaced text as a diff of its own."""
        path = str(input["file_path"])
        diff = unified_diff(str(input["old_string"]), str(input["new_string"]), path)
        every = " (every occurrence)" if input.get("replace_all") else ""
        return ToolInfo("Edit a file", f"{path}{every}", diff)

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the file that is written."""
        return usual_effects("Edit", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Edit in a thread; the metadata has the diff. Edits of one file take turns.

        Raises:
            ToolError: the text is missing or not unique; or the file was not read, has changed
                since, is not text, is out of reach, or the disk refuses.
        """
        path = str(input["file_path"])
        change = Replacement(
            str(input["old_string"]), str(input["new_string"]), bool(input.get("replace_all"))
        )
        stamps = FileStamps.of(context)
        done = await in_thread(lambda: _edit(path, change, stamps, context))
        return ToolResult.ok(
            f"edited {done.label}: {done.count} replaced\n{done.diff}",
            path=done.label,
            replacements=done.count,
            diff=done.diff,
        )


@dataclass(frozen=True)
class _Edited:
    label: str
    count: int
    diff: str


def _edit(path: str, change: Replacement, stamps: FileStamps, context: AgentContext) -> _Edited:
    real, label = resolve_and_show(path, context, writes=True)
    with path_lock(real), os_errors("edit", label):
        if not real.exists():
            raise ToolError(f"there is no file {label}", hint="make it with Write")
        with open_regular(real) as file:
            size = os.fstat(file.fileno()).st_size
            if size > _MAX_BYTES:
                raise ToolError(
                    f"{label} has {size} bytes, {_MAX_BYTES} is the limit",
                    hint="use a program such as sed in Bash",
                )
            data = read_pieces(stamps.read_seen(real, file, label), _MAX_BYTES)
        content = TextContent.decode(data)
        text, count = change.apply(content, label)
        data = content.encode(text)
        status = replace_file(real, data, lambda now: stamps.read_seen(real, now, label))
        stamps.note(real, Stamp.of(status, data))
    return _Edited(label, count, unified_diff(content.text, text, label))


class Write:
    """Makes a file with its folders, or replaces one, atomically and with its mode.

    A file that exists must have been read by the agent and not changed since. See
    `greenroom.fs.replace_file`.
    """

    name = "Write"
    description = (
        "Write a whole file in UTF-8. Missing folders are made. A file that exists must have been "
        "read first, and is replaced; prefer Edit for a change in it."
    )
    category = "write"
    requires_permission = True
    concurrent = False
    timeout = 60.0
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "file_path": FILE_PATH,
            "content": {"type": "string", "description": "The whole content of the file."},
        },
        "required": ["file_path", "content"],
        "additionalProperties": False,
    }

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the path, and the content as new: no file is read before the call is allowed."""
        path = str(input["file_path"])
        return ToolInfo("Write a file", path, unified_diff("", str(input["content"]), path))

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the file that is written."""
        return usual_effects("Write", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Write in a thread; the metadata has the diff.

        Raises:
            ToolError: the file was not read, has changed since, is out of reach, or the disk
                refuses.
        """
        path, content = str(input["file_path"]), _encode(str(input["content"]))
        stamps = FileStamps.of(context)
        done = await in_thread(lambda: _write(path, content, stamps, context))
        verb = "created" if done.created else "replaced"
        return ToolResult.ok(
            f"{verb} {done.label} ({len(content)} bytes)",
            path=done.label,
            created=done.created,
            diff=done.diff,
        )


@dataclass(frozen=True)
class _Written:
    label: str
    created: bool
    diff: str


def _write(path: str, content: bytes, stamps: FileStamps, context: AgentContext) -> _Written:
    real, label = resolve_and_show(path, context, writes=True)
    before, created = "", True
    with path_lock(real), os_errors("write", label):
        if real.is_dir():
            raise ToolError(f"{label} is a folder")
        if real.exists():
            with open_regular(real) as file:
                seen = stamps.read_seen(real, file, label)
                before = seen.read(MAX_DIFF_CHARACTERS + 1).decode("utf-8", "replace")
            created = False
        status = replace_file(real, content, lambda now: stamps.read_seen(real, now, label))
        stamps.note(real, Stamp.of(status, content))
    return _Written(label, created, unified_diff(before, content.decode(), label))


def _encode(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is not valid Unicode: {error.reason}") from error
