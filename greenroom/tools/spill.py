"""Spill: a result too long for the model is cut, and the whole of it kept in a file."""

import logging
import shutil
import tempfile
import weakref
from pathlib import Path

import trio

from greenroom.core import AgentContext, TextBlock, ToolResult, new_id, valid_unicode

__all__ = ["MAX_TEXT", "SpillFolder", "capped"]

MAX_TEXT = 30_000
"""Characters of text that a model sees of one result; the limit that coding agents have used."""

MAX_FILE = 20_000_000
"""Characters of text that a file keeps of one result; head and tail of what is longer still."""

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
    the file can't be written, the text is cut all the same, and says so.
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
    return ToolResult((text, *others), result.status, metadata)


def _ends(text: str, limit: int, note: str) -> str:
    """Keep the head and the tail, the head being the longer: it says what the text is."""
    marker = f"\n\n… {len(text):,} characters in all, the middle is left out; {note} …\n\n"
    room = max(limit - len(marker), 2)
    tail = room // 3
    return text[: room - tail] + marker + text[-tail:]


def _write(text: str, tool_name: str, folder: Path) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{new_id(tool_name)}.txt"
    kept = text if len(text) <= MAX_FILE else _ends(text, MAX_FILE, "it was too long to keep")
    path.touch(mode=0o600)  # it may hold what is not for others
    path.write_text(valid_unicode(kept), encoding="utf-8", newline="")
    return str(path)


def _folder(context: AgentContext) -> Path:
    if context.spill_folder:
        return Path(context.spill_folder)
    folder = context.resources.get(SpillFolder)
    if folder is None:
        folder = SpillFolder()
        context.resources.insert(folder)
    return folder.path
