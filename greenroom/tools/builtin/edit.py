"""`Edit` and `Write`: replace a piece of text in a file, or write a whole file."""

import difflib
import os
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from greenroom.core import AgentContext, ToolError, ToolInfo, ToolResult
from greenroom.core._internal import Effect
from greenroom.fs._internal import find_encoding, find_mark
from greenroom.tools.builtin.file_access import (
    FILE_PATH,
    FileStamps,
    describe_broken_link,
    in_thread,
    note_name,
    open_seen,
    os_errors,
    path_lock,
    read_pieces,
    replace_seen,
    resolve_and_show,
)
from greenroom.tools.builtin.notebook import is_notebook
from greenroom.tools.builtin.plain_names import effects_on_disk
from greenroom.tools.builtin.text_content import NOTEBOOK_HINT, Replacement, TextContent, write_over

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
    if old_end != new_end and after:
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
    replaced text. A file that is not in UTF-8, and has no mark that names its encoding, is changed
    only where that is certain to harm no character: see `text_content`. The agent must have read
    the file, and it must not have changed since.
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
        return effects_on_disk("Edit", "file_path", input, context)

    async def precheck(self, input: dict[str, object], context: AgentContext) -> None:  # noqa: A002
        """Look in a thread whether the edit can be made; nothing is written.

        Raises:
            ToolError: as `execute`.
        """
        path, change, stamps = str(input["file_path"]), _read_change(input), FileStamps.of(context)
        await in_thread(lambda: _check_edit(path, change, stamps, context))

    async def preview(self, input: dict[str, object], context: AgentContext) -> ToolInfo:  # noqa: A002
        """Show the path, the number of replacements if it is not one, and the diff of the file.

        Raises:
            ToolError: as `execute`.
        """
        path, change, stamps = str(input["file_path"]), _read_change(input), FileStamps.of(context)
        diff, count = await in_thread(lambda: _preview_edit(path, change, stamps, context))
        every = f" ({count} occurrences)" if change.everywhere else ""
        return ToolInfo("Edit a file", f"{path}{every}", diff)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Edit in a thread; the metadata has the diff. Edits of one file take turns.

        Raises:
            ToolError: the text is missing or not unique; or the file was not read, has changed
                since, is not text, is in an encoding that is not certain, is out of reach, or the
                disk refuses.
        """
        path, change, stamps = str(input["file_path"]), _read_change(input), FileStamps.of(context)
        done = await in_thread(lambda: _edit(path, change, stamps, context))
        return ToolResult.ok(
            f"edited {done.label}: {done.count} replaced{_bracket(done.notes)}\n{done.diff}",
            path=done.label,
            replacements=done.count,
            diff=done.diff,
        )


def _read_change(data: dict[str, object]) -> Replacement:
    return Replacement(
        str(data["old_string"]), str(data["new_string"]), bool(data.get("replace_all"))
    )


class _Edited(msgspec.Struct, frozen=True):
    label: str
    count: int
    diff: str
    notes: Sequence[str]


def _edit(path: str, change: Replacement, stamps: FileStamps, context: AgentContext) -> _Edited:
    real, label = resolve_and_show(path, context, writes=True)
    with path_lock(real), os_errors("edit", label):
        content, text, count = _plan_edit(real, label, path, change, stamps, context)
        replace_seen(real, content.encode(text), stamps, label, context)
    diff = unified_diff(content.text, text, label)
    return _Edited(label, count, diff, note_name(path, context))


def _plan_edit(
    real: Path,
    label: str,
    path: str,
    change: Replacement,
    stamps: FileStamps,
    context: AgentContext,
) -> tuple[TextContent, str, int]:
    """Return a file's content, its changed text and the number of replacements; write nothing."""
    if not real.exists():
        why = describe_broken_link(path, context)
        raise ToolError(f"there is no file {label}{why and f': {why}'}", hint="make it with Write")
    with open_seen(real, context) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size > _MAX_BYTES:
            raise ToolError(
                f"{label} has {size} bytes, {_MAX_BYTES} is the limit",
                hint="use a program such as sed in Bash",
            )
        data = read_pieces(stamps.read_seen(real, file, label), _MAX_BYTES)
    content, text, count = change.change(data, label)
    if label.endswith(".ipynb") and is_notebook(data) and not is_notebook(content.encode(text)):
        raise ToolError(f"{label} would no longer be a notebook", hint=NOTEBOOK_HINT)
    return content, text, count


def _check_edit(path: str, change: Replacement, stamps: FileStamps, context: AgentContext) -> None:
    real, label = resolve_and_show(path, context, writes=True)
    with os_errors("edit", label):
        content, text, _ = _plan_edit(real, label, path, change, stamps, context)
        content.encode(text)
        _check_writable(real, label)


def _preview_edit(
    path: str, change: Replacement, stamps: FileStamps, context: AgentContext
) -> tuple[str, int]:
    """Return the diff of an edit, and the number of replacements."""
    real, label = resolve_and_show(path, context, writes=True)
    with os_errors("edit", label):
        content, text, count = _plan_edit(real, label, path, change, stamps, context)
    return unified_diff(content.text, text, label), count


def _check_writable(real: Path, label: str) -> None:
    """Check that a file, and the folder that it is or would be in, may be written."""
    if real.is_dir():
        raise ToolError(f"{label} is a folder")
    if real.is_symlink():  # its own end was looked for
        raise ToolError(f"can't write {label}: it is a link that leads back to itself")
    folder = next(each for each in real.parents if os.path.lexists(each))
    if not folder.is_dir():
        raise ToolError(f"can't write {label}: {folder} is not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ToolError(f"can't write {label}: the folder {folder} is read-only")
    if real.exists() and not os.access(real, os.W_OK):
        raise ToolError(f"can't write {label}: it is read-only")


class Write:
    """Makes a file with its folders, or replaces one, atomically and with its mode.

    A file that exists must have been read by the agent and not changed since. Its byte order mark,
    encoding and line ends are kept; where that can't be, the result says so. See
    `replace_file`.
    """

    name = "Write"
    description = (
        "Write a whole file, a new one in UTF-8. Missing folders are made. A file that exists must "
        "have been read first, and is replaced; its encoding and line ends are kept. Prefer Edit "
        "for a change in it."
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
        return effects_on_disk("Write", "file_path", input, context)

    async def precheck(self, input: dict[str, object], context: AgentContext) -> None:  # noqa: A002
        """Look in a thread whether the file can be written; nothing is.

        Raises:
            ToolError: as `execute`.
        """
        path, stamps = str(input["file_path"]), FileStamps.of(context)
        _check_unicode(str(input["content"]))
        await in_thread(lambda: _check_write(path, stamps, context))

    async def preview(self, input: dict[str, object], context: AgentContext) -> ToolInfo:  # noqa: A002
        """Show the path, and how the file would change; of a new file its content.

        Raises:
            ToolError: as `execute`.
        """
        path, content = str(input["file_path"]), _check_unicode(str(input["content"]))
        stamps = FileStamps.of(context)
        action, diff = await in_thread(lambda: _preview_write(path, content, stamps, context))
        return ToolInfo(action, path, diff)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Write in a thread; the metadata has the diff.

        Raises:
            ToolError: the file was not read, has changed since, is out of reach, or the disk
                refuses.
        """
        path, content = str(input["file_path"]), _check_unicode(str(input["content"]))
        stamps = FileStamps.of(context)
        done = await in_thread(lambda: _write(path, content, stamps, context))
        verb = "created" if done.created else "replaced"
        return ToolResult.ok(
            f"{verb} {done.label} ({done.size} bytes){_bracket(done.notes)}",
            path=done.label,
            created=done.created,
            diff=done.diff,
        )


class _Written(msgspec.Struct, frozen=True):
    label: str
    created: bool
    size: int
    diff: str
    notes: Sequence[str]


def _check_name(path: str) -> None:
    if path.endswith("/"):
        raise ToolError(f"{path} names a folder", hint="name the file in it")


def _write(path: str, content: str, stamps: FileStamps, context: AgentContext) -> _Written:
    real, label = resolve_and_show(path, context, writes=True)
    _check_name(path)
    before, data, notes = "", content.encode(), list[str]()
    with path_lock(real), os_errors("write", label):
        if real.is_dir():
            raise ToolError(f"{label} is a folder")
        created = not real.exists()
        if not created:
            before, content, data, notes = _plan_replacement(real, label, content, stamps, context)
        replace_seen(real, data, stamps, label, context)
    diff = unified_diff(before, content, label)
    return _Written(label, created, len(data), diff, [*notes, *note_name(path, context)])


def _preview_write(
    path: str, content: str, stamps: FileStamps, context: AgentContext
) -> tuple[str, str]:
    """Return what a write does, and the diff of the file; nothing is written."""
    real, label = resolve_and_show(path, context, writes=True)
    if not real.exists():
        return "Write a new file", unified_diff("", content, label)
    with os_errors("write", label):
        before, content, _, _ = _plan_replacement(real, label, content, stamps, context)
    return "Replace a file", unified_diff(before, content, label)


def _plan_replacement(
    real: Path, label: str, content: str, stamps: FileStamps, context: AgentContext
) -> tuple[str, str, bytes, list[str]]:
    """Return what a file holds, what it will hold, as text and in bytes, and notes on that."""
    with open_seen(real, context) as file:
        former = read_pieces(stamps.read_seen(real, file, label), _MAX_BYTES + 1)
    if len(former) > _MAX_BYTES:
        notes = ["it was too large to look at its encoding and line ends"]
        return _decode_start(former), content, content.encode(), notes
    return _decode_start(former), *write_over(former, content)


def _bracket(notes: Sequence[str]) -> str:
    return "".join(f"\n[{note}]" for note in notes)


def _check_write(path: str, stamps: FileStamps, context: AgentContext) -> None:
    real, label = resolve_and_show(path, context, writes=True)
    _check_name(path)
    with os_errors("write", label):
        _check_writable(real, label)
        if real.exists():
            with open_seen(real, context) as file:
                stamps.read_seen(real, file, label)


def _decode_start(data: bytes) -> str:
    """Decode as much of a file as a diff takes."""
    encoding = find_encoding(data) or "utf-8"
    start = data[len(find_mark(data)) :][: 4 * MAX_DIFF_CHARACTERS + 4]
    return start.decode(encoding, "replace")


def _check_unicode(content: str) -> str:
    try:
        content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is not valid Unicode: {error.reason}") from error
    return content
