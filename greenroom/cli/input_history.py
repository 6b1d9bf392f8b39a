"""What was typed in a folder, over all of its sessions: a file of JSON texts, one a line.

It is beside the user's sessions, readable by its owner alone. At 4 MB it is cut to the newest 500
inputs. Answers to questions are not in it, nor is any text of more than 100,000 letters.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import trio

from greenroom.cli.settings import Settings
from greenroom.cli.stored_sessions import name_folder, sessions_folder
from greenroom.cli.terminal import LineOptions
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.fs._internal import durable

_MAX_TEXT = 100_000  # letters of an input that is kept
_MAX_READ = 1_000  # inputs that a line offers
_MAX_BYTES, _KEPT = 4_000_000, 500


def history_file(workspace: Path, env: Mapping[str, str] | None = None) -> Path:
    """Return the file of what was typed in a folder; it need not exist."""
    return sessions_folder(env).parent / "history" / f"{name_folder(workspace)}.jsonl"


def read_history(path: Path) -> list[str]:
    """Return the newest inputs, the oldest of them first; it blocks.

    A line that can't be read is passed over, and a missing file is empty.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    texts = [text for line in lines[-_MAX_READ:] if (text := _decode(line))]
    if sum(map(len, lines)) > _MAX_BYTES:
        data = b"".join(serde.dumps(text) + b"\n" for text in texts[-_KEPT:])
        durable.write_file(str(path), data)
    return texts


async def read_line_options(settings: Settings, workspace: Path) -> LineOptions:
    """Return how the input line is edited, with what was typed in a folder before."""
    editor = settings.editor or os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    history = await trio.to_thread.run_sync(read_history, history_file(workspace))
    return LineOptions(settings.key_bindings == "vi", editor, history)


def _decode(line: bytes) -> str:
    try:
        return serde.decode(line, str)
    except InvalidJSONError:
        return ""


def add_to_history(path: Path, text: str) -> None:
    """Add an input; it blocks.

    Raises:
        OSError: the disk refused.
    """
    if len(text) > _MAX_TEXT:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, serde.dumps(text) + b"\n")
    finally:
        os.close(descriptor)
