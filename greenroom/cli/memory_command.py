"""What agents remember about a folder: its file, the tools of a run, `greenroom memory`."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import trio

from greenroom.cli.command_options import MemoryOptions
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import name_folder, user_folder, working_folder
from greenroom.core._internal import clip, serde, visible
from greenroom.memory import Entry, SQLiteMemory, memory_tools
from greenroom.tools import Tool

_WIDTH = 200  # characters of an entry in the list; --json has all of them

MEMORY_TEXT = (
    "What was learned in earlier sessions is remembered: ask Recall before you work on something"
    " that may have come up before. When you learn what will help in later sessions, such as a"
    " preference of the user's or how this project is built, keep it with Remember."
)
"""What the model reads about its memory."""


RECALL_TOOL = "Recall"
"""The tool by which the model asks its memory."""


def memory_file(
    workspace: Path, env: Mapping[str, str] | None = None, platform: str = sys.platform
) -> Path:
    """Return the file of what this user's agents remember of a folder; it need not exist.

    It is in `$XDG_DATA_HOME/greenroom/memory`, by default under `~/.local/share`; on macOS in
    `~/Library/Application Support/greenroom/memory`.

    Example:
        >>> memory_file(Path("/work/My Shop"), {"XDG_DATA_HOME": "/data"}, "linux").as_posix()
        '/data/greenroom/memory/My_Shop-509fa0755ae8.db'
    """
    env = os.environ if env is None else env
    folder = user_folder("XDG_DATA_HOME", "~/.local/share", env, platform)
    return folder / "memory" / f"{name_folder(workspace)}.db"


def tools_of_memory(workspace: Path) -> list[Tool]:
    """Return the tools with which the agent of a run remembers."""
    return list(memory_tools(SQLiteMemory(memory_file(workspace))))


async def list_entries(options: MemoryOptions) -> int:
    """Print the entries about this folder, the newest first.

    Raises:
        MemoryStorageError: the file can't be used.
        OSError: standard output can't be written.
    """
    memory = await _open()
    entries = await memory.entries(limit=options.limit) if memory else ()
    if options.json:
        result = {"path": str(memory_file(working_folder())), "entries": entries}
        await OutputWriter().line(serde.encode(result))
    elif not entries:
        tell("nothing is remembered of this folder; greenroom --memory remembers")
    else:
        await OutputWriter().text("\n".join(map(_row, entries)))
    return 0


async def forget_entries(options: MemoryOptions) -> int:
    """Remove entries for good; the exit code is 1 if one is unknown.

    Raises:
        MemoryStorageError: the file can't be used.
        OSError: standard output can't be written.
    """
    memory = await _open()
    unknown = [each for each in options.ids if not (memory and await memory.forget(each))]
    removed = [each for each in options.ids if each not in unknown]
    if options.json:
        await OutputWriter().line(serde.encode({"forgotten": removed, "unknown": unknown}))
    for each in () if options.json else removed:
        await OutputWriter().text(f"forgot {each}")
    for each in unknown:
        tell(f"there is no entry {each} (`greenroom memory list` shows them)")
    return 1 if unknown else 0


async def _open() -> SQLiteMemory | None:
    """Open the memory of this folder; return None if it does not exist yet."""
    path = memory_file(working_folder())
    return SQLiteMemory(path) if await trio.Path(path).exists() else None


def _row(entry: Entry) -> str:
    text = visible(clip(" ".join(entry.text.split()), _WIDTH)).replace("\n", " ")
    return f"{entry.id}  {entry.created_at.date()}  {entry.origin:<7}  {text}"
