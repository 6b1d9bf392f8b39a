"""Where the program keeps what belongs to its user."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

__all__ = ["sessions_folder"]


def sessions_folder(env: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return the folder of this user's sessions; it need not exist.

    It is `$XDG_STATE_HOME/greenroom/sessions`, by default under `~/.local/state`, as the XDG base
    directory specification has it; on macOS `~/Library/Application Support/greenroom/sessions`.

    Example:
        >>> sessions_folder({"XDG_STATE_HOME": "/state"}, "linux").as_posix()
        '/state/greenroom/sessions'
    """
    if platform == "darwin":
        return Path("~/Library/Application Support/greenroom/sessions").expanduser()
    base = env.get("XDG_STATE_HOME", "")
    # The specification says to ignore a relative path.
    state = Path(base) if os.path.isabs(base) else Path("~/.local/state").expanduser()
    return state / "greenroom" / "sessions"
