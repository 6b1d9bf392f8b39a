"""Which texts of projects this user was told of, so that each is named once and not at every start.

The file is beside the user's sessions: a digest of a path and its content, one a line.
"""

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from greenroom.agents._internal import ProjectText
from greenroom.cli.stored_sessions import sessions_folder
from greenroom.fs._internal import durable

_MAX_LINES, _KEPT = 2_000, 1_000


def find_untold(texts: Sequence[ProjectText], path: Path | None = None) -> list[ProjectText]:
    """Return those that the user was not told of as they are now; it blocks.

    They count as told from now on. Where the file can't be used, all of them are returned.
    """
    path = path or sessions_folder().parent / "told"
    keys = {_key(text): text for text in texts}
    try:
        told = path.read_text("ascii", "replace").split() if path.exists() else []
        new = [key for key in keys if key not in told]
        if new:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lines = [*told, *new] if len(told) < _MAX_LINES else [*told[-_KEPT:], *new]
            durable.write_file(str(path), "".join(f"{line}\n" for line in lines).encode())
    except OSError:
        return list(keys.values())
    return [keys[key] for key in new]


def _key(text: ProjectText) -> str:
    place = os.fsencode(text.path)
    return hashlib.sha256(place + b"\0" + text.digest.encode()).hexdigest()[:32]
