"""Write: make a file, or replace a whole one."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from greenroom.core import AgentContext, Effect, ToolError, ToolInfo, ToolResult, WritePath
from greenroom.tools.builtin.atomic_file import open_regular, replace_file
from greenroom.tools.builtin.file_stamps import FileStamps, Stamp
from greenroom.tools.builtin.path_locks import PathLocks
from greenroom.tools.builtin.paths import in_thread, os_errors, resolve_and_show
from greenroom.tools.builtin.text_diff import MAX_DIFF_CHARACTERS, unified_diff

__all__ = ["Write"]


class Write:
    """Makes a file with its folders, or replaces one that the agent has read and nobody changed.

    The replacement is atomic, and keeps the file's mode; see `replace_file`.
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
            "file_path": {
                "type": "string",
                "description": "The file, absolute or relative to the working directory.",
            },
            "content": {"type": "string", "description": "All that the file shall hold."},
        },
        "required": ["file_path", "content"],
        "additionalProperties": False,
    }

    def info(self, input: dict[str, object]) -> ToolInfo:  # noqa: A002
        """Show the path, and what would change; of a relative path, the whole content as new.

        A relative path means nothing without the agent's working directory, so it is not read.
        """
        path, content = str(input["file_path"]), str(input["content"])
        before = _preview(Path(path)) if os.path.isabs(path) else ""
        return ToolInfo("Write a file", path, unified_diff(before, content, path))

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the file that is written."""
        return (WritePath(str(context.workspace.absolute(str(input["file_path"])))),)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Write in a thread; the metadata has the diff.

        Raises:
            ToolError: the file was not read, has changed since, is out of reach, or the disk refuses.
        """
        path, content = str(input["file_path"]), _encoded(str(input["content"]))
        real, label = await in_thread(lambda: resolve_and_show(path, context, writes=True))
        stamps = FileStamps.of(context)
        async with PathLocks.of(context).hold(real):
            done = await in_thread(lambda: _write(real, content, label, stamps))
            stamps.note(real, done.stamp)
        verb = "created" if done.created else "replaced"
        return ToolResult.ok(
            f"{verb} {label} ({len(content)} bytes)",
            path=label,
            created=done.created,
            diff=done.diff,
        )


@dataclass(frozen=True)
class _Written:
    stamp: Stamp
    created: bool
    diff: str


def _write(real: Path, content: bytes, label: str, stamps: FileStamps) -> _Written:
    before, created = "", True
    with os_errors("write", label):
        if real.is_dir():
            raise ToolError(f"{label} is a folder")
        if real.exists():
            with open_regular(real, label) as file:
                stamps.check(real, Stamp.of(file), label)
                before = file.read(MAX_DIFF_CHARACTERS + 1).decode("utf-8", "replace")
            created = False
        stamp = replace_file(real, content)
    return _Written(stamp, created, unified_diff(before, content.decode(), label))


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is no valid Unicode: {error.reason}") from error


def _preview(path: Path) -> str:
    """Return what the file holds, as far as a diff can use it; empty where it can't be read."""
    try:
        with open_regular(path, str(path)) as file:
            return file.read(MAX_DIFF_CHARACTERS + 1).decode("utf-8", "replace")
    except (OSError, ValueError, ToolError):
        return ""
