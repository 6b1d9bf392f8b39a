"""Edit: replace one piece of text in a file."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.core import AgentContext, Effect, ToolError, ToolInfo, ToolResult, usual_effects
from greenroom.tools.builtin.atomic_file import open_regular, read_pieces, replace_file
from greenroom.tools.builtin.file_stamps import FileStamps, Stamp
from greenroom.tools.builtin.path_locks import path_lock
from greenroom.tools.builtin.paths import os_errors, resolve_and_show
from greenroom.tools.builtin.replacement import Replacement
from greenroom.tools.builtin.text_diff import unified_diff
from greenroom.tools.builtin.text_file import TextContent
from greenroom.tools.file_threads import in_thread

_MAX_BYTES = 50_000_000


class Edit:
    """Replaces text that stands exactly once in a file, or every occurrence of it.

    Encoding, byte order mark, line ends and mode of the file are kept, and each byte outside the
    replaced text. The file must have been read and not changed since.
    """

    name = "Edit"
    description = (
        "Replace old_string by new_string in a file that was read before. old_string must be the "
        "exact text without line numbers, and stand in the file once: add surrounding lines to "
        "make it unique, or set replace_all. An empty new_string deletes."
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
            "old_string": {
                "type": "string",
                "minLength": 1,
                "description": "The text to replace, as it stands in the file.",
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
            ToolError: the text is not there or not unique; or the file was not read, has changed
                since, is no text, is out of reach, or the disk refuses.
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
        with open_regular(real, label) as file:
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
        status = replace_file(real, data, label, lambda now: stamps.read_seen(real, now, label))
        stamps.note(real, Stamp.of(status, data))
    return _Edited(label, count, unified_diff(content.text, text, label))
