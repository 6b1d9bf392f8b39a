"""Read: show a file, or a part of it, with line numbers."""

import base64
import difflib
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

import trio
from msgspec.structs import replace

from greenroom.core import (
    AgentContext,
    DocumentBlock,
    ImageBlock,
    SessionError,
    TextBlock,
    ToolError,
    ToolInfo,
    ToolResult,
)
from greenroom.core._internal import SESSION_PREFIX, Effect, KeptFiles, valid_unicode
from greenroom.fs._internal import find_encoding, find_mark, is_binary
from greenroom.schemas._internal import read_integer
from greenroom.tools.builtin import notebook
from greenroom.tools.builtin.file_access import (
    FILE_PATH,
    FileStamps,
    Screen,
    Stamp,
    describe_broken_link,
    in_thread,
    note_name,
    open_seen,
    os_errors,
    read_pieces,
    resolve_and_show,
)
from greenroom.tools.builtin.plain_names import effects_on_disk
from greenroom.tools.returned_values import find_media_fault, image_type

_LINE_CHARACTERS = 2_000
_PIECE = 65_536
# With one more long line and the notes, the text still fits into one result.
_ROOM = 27_000


class NumberedLines:
    r"""Reads a range of lines; long lines are clipped, and skipped lines are not kept.

    Example:
        >>> import io
        >>> lines = NumberedLines(first=2, count=1)
        >>> lines.read(io.StringIO("one\ntwo\nthree\n"), check=lambda: None)
        >>> print(lines.text(size=14).replace("\t", "|"))
             2|two
        [lines 2 to 2 of a file of 14 bytes; continue with offset=3]
    """

    def __init__(self, first: int, count: int, *, room: int = _ROOM) -> None:
        """Read `count` lines from the line `first` on, and stop early after `room` characters."""
        self._first = first
        self._count = count
        self._room = room
        self._lines: list[str] = []
        self._skipped = 0
        self._more = False
        self._stray = False

    @property
    def line_count(self) -> int:
        """The number of lines that were read."""
        return len(self._lines)

    def read(self, text: TextIO, check: Callable[[], None]) -> None:
        """Read from the text's beginning to the end of the range.

        Args:
            text: what to read.
            check: called for each line and each piece of a long line; it raises to stop.
        """
        while self._skipped < self._first - 1:
            if _skip_line(text, check) is None:
                return
            self._skipped += 1
        while self.line_count < self._count and self._room > 0:
            line = text.readline(_LINE_CHARACTERS + 1)
            if not line:
                return
            self._add(line, text, check)
        self._more = bool(text.read(1))

    def _add(self, line: str, text: TextIO, check: Callable[[], None]) -> None:
        if not line.endswith("\n") and len(line) > _LINE_CHARACTERS:
            missing = (_skip_line(text, check) or 0) + len(line) - _LINE_CHARACTERS
            line = f"{line[:_LINE_CHARACTERS]} … [{missing} more characters in this line]"
        line = line.removesuffix("\n").removesuffix("\r")
        if _has_stray_bytes(line):
            self._stray = True
            line = "".join("\ufffd" if _has_stray_bytes(c) else c for c in line)
        numbered = f"{self._first + self.line_count:>6}\t{line}"
        self._lines.append(numbered)
        self._room -= len(numbered) + 1

    def text(self, size: int) -> str:
        """Return the lines, and notes on the rest; `size` is the file's, in bytes."""
        notes = []
        last = self._first + self.line_count - 1
        if not size:
            notes.append("[the file is empty]")
        elif not self.line_count:
            notes.append(f"[the file has only {self._skipped} lines; its size is {size} bytes]")
        elif self._more:
            notes.append(
                f"[lines {self._first} to {last} of a file of {size} bytes; "
                f"continue with offset={last + 1}]"
            )
        if self._stray:
            notes.append(
                "[bytes that are not UTF-8 are shown as \ufffd; Edit keeps them, and changes only "
                "ASCII in such a file]"
            )
        return "\n".join([*self._lines, *notes])


def _skip_line(text: TextIO, check: Callable[[], None]) -> int | None:
    """Skip to the next line; return the characters skipped, or None at the end of the text."""
    piece = text.readline(_PIECE)
    skipped = len(piece) if piece else None
    check()
    while piece and not piece.endswith("\n"):
        check()
        piece = text.readline(_PIECE)
        skipped = (skipped or 0) + len(piece)
    return skipped - 1 if skipped and piece else skipped


def _has_stray_bytes(line: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in line)


_DEFAULT_LINES = 2_000
_SNIFFED_BYTES = 8_192
# Models take images of 5 MB and requests of 32 MB, in base64, which is 4/3 of the bytes.
_MAX_IMAGE_BYTES = 3_750_000
_MAX_PDF_BYTES = 22_000_000


class Read:
    """Shows a text file with line numbers, a notebook as its cells, an image or a PDF.

    It reads no more than it shows, so a file may be of any size. An agent may change the files that
    it has read, with `Edit` and `Write`.
    """

    name = "Read"
    description = (
        "Read a file. Text comes with line numbers, 2,000 lines unless told otherwise; "
        "images (PNG, JPEG, GIF, WebP) and PDF come as they are, notebooks as cells. "
        "Use offset and limit for a part of a long file. "
        "A file must be read before it can be changed."
    )
    category = "read"
    requires_permission = True
    concurrent = True
    timeout = 60.0
    parameters: dict[str, object] = {
        "type": "object",
        "properties": {
            "file_path": FILE_PATH,
            "offset": {
                "type": "integer",
                "minimum": 1,
                "description": "The line to begin with; the first line is 1.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": f"How many lines to show. Default {_DEFAULT_LINES}.",
            },
        },
        "required": ["file_path"],
        "additionalProperties": False,
    }

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the path."""
        return ToolInfo("Read a file", str(input["file_path"]))

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the file that is read."""
        return effects_on_disk("Read", "file_path", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Read in a thread.

        Raises:
            ToolError: there is no such file, it is binary, too large to send, or out of reach.
        """
        path = str(input["file_path"])
        first = read_integer(input, "offset", 1)
        count = read_integer(input, "limit", _DEFAULT_LINES)
        if path.startswith(SESSION_PREFIX) and context.files is not None:
            data = await _read_kept(path, context.files)
            return await in_thread(lambda: _show_kept(data, path, first, count))
        real, stamp, result = await in_thread(lambda: _read(path, first, count, context))
        FileStamps.of(context).note(real, stamp)
        return result


def _read(
    path: str, first: int, count: int, context: AgentContext
) -> tuple[Path, Stamp, ToolResult]:
    real, label = resolve_and_show(path, context)
    with os_errors("read", path):
        if real.is_dir():
            raise ToolError(f"{path} is a folder", hint="list it with Glob, or with ls in Bash")
        if not real.exists():
            if why := describe_broken_link(path, context):
                raise ToolError(f"there is no file {path}: {why}")
            raise ToolError(f"there is no file {path}", hint=_suggest_names(path, real, context))
        with open_seen(real, context) as file:
            stamp, content = Stamp.read(file)
            start = content.read(_SNIFFED_BYTES)
            content.seek(0)
            result = _show(content, start, stamp.size, first, count, label)
            notes = tuple(TextBlock(f"[{note}]") for note in note_name(path, context))
            return real, stamp, replace(result, content=(*result.content, *notes))


async def _read_kept(path: str, files: KeptFiles) -> bytes:
    """Return a file of the session, such as the whole text of a long result."""
    try:
        return await files.read(path.removeprefix(SESSION_PREFIX))
    except (ValueError, SessionError) as error:
        raise ToolError(
            f"there is no file {path} in this session",
            hint="the oldest of these files are removed when there are more than 200",
        ) from error


def _show_kept(data: bytes, path: str, first: int, count: int) -> ToolResult:
    return _show(io.BytesIO(data), data[:_SNIFFED_BYTES], len(data), first, count, path)


def _show(
    file: BinaryIO, start: bytes, size: int, first: int, count: int, label: str
) -> ToolResult:
    facts: dict[str, object] = {"path": label, "bytes": size}
    if media_type := image_type(start):
        data = _encode(file, size, _MAX_IMAGE_BYTES, label)
        return ToolResult((ImageBlock(media_type, data),), metadata=facts)
    if start.startswith(b"%PDF-"):
        data = _encode(file, size, _MAX_PDF_BYTES, label)
        block = DocumentBlock("application/pdf", data, title=os.path.basename(label))
        return ToolResult((block,), metadata=facts)
    if is_binary(start):
        raise ToolError(
            f"{label} is a binary file of {size} bytes",
            hint="use a program such as file, xxd or strings in Bash",
        )
    if label.endswith(".ipynb") and size <= notebook.MAX_BYTES:
        cells = notebook.render_notebook(read_pieces(file, notebook.MAX_BYTES))
        file.seek(0)
        if cells is not None:
            return _show_cells(cells, first, count, facts)
    encoding = find_encoding(start) or "utf-8"
    errors = "surrogateescape" if encoding == "utf-8" else "replace"
    file.seek(len(find_mark(start)))
    text = io.TextIOWrapper(file, encoding=encoding, errors=errors, newline="\n")
    lines = NumberedLines(first, count)
    lines.read(text, trio.from_thread.check_cancelled)
    # The caller closes the file, so the wrapper must not.
    text.detach()
    return ToolResult.ok(valid_unicode(lines.text(size)), **facts, lines=lines.line_count)


def _show_cells(cells: str, first: int, count: int, facts: dict[str, object]) -> ToolResult:
    lines = NumberedLines(first, count)
    lines.read(io.StringIO(cells, newline="\n"), trio.from_thread.check_cancelled)
    text = f"{lines.text(len(cells.encode('utf-8', 'replace')))}\n[{notebook.NOTE}]"
    return ToolResult.ok(valid_unicode(text), **facts, lines=lines.line_count)


def _encode(file: BinaryIO, size: int, limit: int, label: str) -> str:
    if size > limit:
        raise ToolError(f"{label} has {size} bytes, too many to show; the limit is {limit}")
    data = read_pieces(file, limit)
    if fault := find_media_fault(data):
        raise ToolError(f"{label} can't be shown: {fault}")
    return base64.b64encode(data).decode()


def _suggest_names(path: str, real: Path, context: AgentContext) -> str:
    """Suggest files of a similar name that may be read, or say that the folder is missing."""
    folder = real.parent
    if not folder.is_dir():
        return f"there is no folder {folder} either"
    names = sorted(entry.name for entry in os.scandir(folder))[:5_000]
    by_stem = [name for name in names if Path(name).stem.lower() == real.stem.lower()]
    found = dict.fromkeys([*by_stem, *difflib.get_close_matches(real.name, names)])
    near = list(filter(Screen(os.path.dirname(path), context).admits, found))[:3]
    return f"did you mean {', '.join(near)}" if near else ""
