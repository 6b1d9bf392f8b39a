"""Write: make a file, or replace a whole one."""

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.core import AgentContext, Effect, ToolError, ToolInfo, ToolResult, usual_effects
from greenroom.tools.builtin.atomic_file import open_regular, replace_file
from greenroom.tools.builtin.file_stamps import FileStamps, Stamp
from greenroom.tools.builtin.path_locks import path_lock
from greenroom.tools.builtin.paths import os_errors, resolve_and_show
from greenroom.tools.builtin.text_diff import MAX_DIFF_CHARACTERS, unified_diff
from greenroom.tools.file_threads import in_thread


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
        """Show the path, and the content as new: nothing is read before the call is allowed."""
        path = str(input["file_path"])
        return ToolInfo("Write a file", path, unified_diff("", str(input["content"]), path))

    def effects(self, input: dict[str, object], context: AgentContext) -> Sequence[Effect]:  # noqa: A002
        """State the file that is written."""
        return usual_effects("Write", input, context)

    async def execute(self, input: dict[str, object], context: AgentContext) -> ToolResult:  # noqa: A002
        """Write in a thread; the metadata has the diff.

        Raises:
            ToolError: the file was not read, has changed since, is out of reach, or the disk refuses.
        """
        path, content = str(input["file_path"]), _encoded(str(input["content"]))
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
            with open_regular(real, label) as file:
                seen = stamps.read_seen(real, file, label)
                before = seen.read(MAX_DIFF_CHARACTERS + 1).decode("utf-8", "replace")
            created = False
        status = replace_file(real, content, label, lambda now: stamps.read_seen(real, now, label))
        stamps.note(real, Stamp.of(status, content))
    return _Written(label, created, unified_diff(before, content.decode(), label))


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError as error:
        raise ToolError(f"the content is no valid Unicode: {error.reason}") from error
