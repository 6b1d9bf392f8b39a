"""`greenroom memory list` and `forget`."""

import trio

from greenroom.cli.commands.memory.arguments import MemoryOptions
from greenroom.cli.run.folders import memory_file, working_folder
from greenroom.cli.streams.output_writer import OutputWriter, tell
from greenroom.core import clip, serde, visible
from greenroom.memory import Entry, SQLiteMemory

_WIDTH = 200  # characters of an entry in the list; --json has all of them


async def run_verb(options: MemoryOptions) -> int:
    """Do what the user asked for; return the exit code.

    Raises:
        MemoryStorageError: the file can't be used.
        OSError: standard output can't be written.
    """
    path = memory_file(working_folder())
    memory = SQLiteMemory(path) if await trio.Path(path).exists() else None
    if options.command == "memory forget":
        return await _forget(options, memory)
    entries = await memory.entries(limit=options.limit) if memory else ()
    if options.json:
        await OutputWriter().line(serde.encode({"path": str(path), "entries": entries}))
    elif not entries:
        tell("nothing is remembered of this folder; greenroom --memory remembers")
    else:
        await OutputWriter().text("\n".join(map(_row, entries)))
    return 0


async def _forget(options: MemoryOptions, memory: SQLiteMemory | None) -> int:
    """Remove each entry; the exit code is 1 if one is unknown."""
    unknown = [each for each in options.ids if not (memory and await memory.forget(each))]
    gone = [each for each in options.ids if each not in unknown]
    if options.json:
        await OutputWriter().line(serde.encode({"forgotten": gone, "unknown": unknown}))
    for each in () if options.json else gone:
        await OutputWriter().text(f"forgot {each}")
    for each in unknown:
        tell(f"there is no entry {each}")
    return 1 if unknown else 0


def _row(entry: Entry) -> str:
    text = visible(clip(" ".join(entry.text.split()), _WIDTH)).replace("\n", " ")
    return f"{entry.id}  {entry.created_at.date()}  {entry.origin:<7}  {text}"
