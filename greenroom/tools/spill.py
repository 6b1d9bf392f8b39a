"""Spill: a result too long for the model is cut, and the whole of it kept in a file."""

import errno
import logging
import os
import re
import shutil
import tempfile
import weakref
from pathlib import Path

import trio
from msgspec.structs import replace

from greenroom.core import AgentContext, TextBlock, ToolResult, new_id, valid_unicode

MAX_TEXT = 30_000
"""Characters of text that a model sees of one result; the limit that coding agents have used."""

MAX_FILE = 20_000_000
"""Characters of text that a file keeps of one result; head and tail of what is longer still."""

MAX_FILES = 200
"""Files that a folder keeps; where there would be more, the oldest go."""

MAX_BYTES = 200_000_000
"""Bytes that the files of a folder take together; where it would be more, the oldest go."""

_NAME = re.compile(r"[\w-]+-[0-9a-z]{12}\.txt")
_log = logging.getLogger("greenroom.tools")


class SpillFolder:
    """A temporary folder for an agent whose context names none; removed with this object."""

    def __init__(self) -> None:
        """Make the folder."""
        self.path = Path(tempfile.mkdtemp(prefix="greenroom-"))
        self._finalizer = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)

    def close(self) -> None:
        """Remove the folder and what is in it, now instead of with this object."""
        self._finalizer()


async def capped(
    result: ToolResult, tool_name: str, context: AgentContext, limit: int = MAX_TEXT
) -> ToolResult:
    """Cut the text of a result to `limit` characters, in total; images and documents stay.

    The head and the tail remain, and between them stands where the whole text lies: in a file
    under `context.spill_folder`, or where that is empty in a `SpillFolder` among the resources. If
    the file can't be written, the text is cut all the same, and says so. A folder keeps the newest
    200 files, of 200 MB together; the older ones go.
    """
    texts = [block.text for block in result.content if isinstance(block, TextBlock)]
    if sum(map(len, texts)) + len(texts) - 1 <= limit:
        return result
    whole = "\n".join(texts)
    metadata = dict(result.metadata)
    try:
        folder = _folder(context)  # here and not in the thread, so that two calls get one folder
        path = await trio.to_thread.run_sync(_write, whole, tool_name, folder)
    except OSError as error:
        _log.warning("the long output of %s could not be kept: %s", tool_name, error)
        note = f"they could not be kept in a file: {error.strerror}"
    else:
        metadata["spill_file"] = path
        extent = "the whole text" if len(whole) <= MAX_FILE else "more of its head and tail"
        note = f"{extent} is in {path}"
    others = tuple(block for block in result.content if not isinstance(block, TextBlock))
    text = TextBlock(_ends(whole, limit, note))
    return replace(result, content=(text, *others), metadata=metadata)


def _ends(text: str, limit: int, note: str) -> str:
    """Keep the head and the tail, the head being the longer: it says what the text is."""
    marker = f"\n\n… {len(text):,} characters in all, the middle is left out; {note} …\n\n"
    room = max(limit - len(marker), 2)
    tail = room // 3
    return text[: room - tail] + marker + text[-tail:]


def _write(text: str, tool_name: str, folder: Path) -> str:
    if folder.is_symlink():  # what it leads to is not ours to fill and to tidy
        raise OSError(errno.ELOOP, "the folder for it is a link", str(folder))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{new_id(tool_name)}.txt"
    kept = text if len(text) <= MAX_FILE else _ends(text, MAX_FILE, "it was too long to keep")
    data = valid_unicode(kept).encode()
    _make_room(folder, len(data))
    path.touch(mode=0o600)  # it may hold what is not for others
    try:
        path.write_bytes(data)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return str(path)


def _make_room(folder: Path, size: int) -> None:
    """Remove the oldest files until one more, of this size, has room."""
    with os.scandir(folder) as entries:
        ours = [(entry.path, entry.stat()) for entry in entries if _NAME.fullmatch(entry.name)]
    ours.sort(key=lambda file: file[1].st_mtime_ns)
    count, total = len(ours) + 1, sum(stat.st_size for _, stat in ours) + size
    for path, stat in ours:
        if count <= MAX_FILES and total <= MAX_BYTES:
            return
        Path(path).unlink(missing_ok=True)
        count, total = count - 1, total - stat.st_size


def _folder(context: AgentContext) -> Path:
    if context.spill_folder:
        return Path(context.spill_folder)
    folder = context.resources.get(SpillFolder)
    if folder is None:
        folder = SpillFolder()
        context.resources.insert(folder)
    return folder.path
