"""Where the program keeps what belongs to its user."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from greenroom.core import ConfigurationError

__all__ = ["below_home", "sessions_folder", "working_folder"]


def working_folder() -> Path:
    """Return the folder that the program was started in.

    Raises:
        ConfigurationError: it has been removed, or may not be looked at.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            "the working directory does not exist any more", hint="cd to another folder"
        ) from error


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


def below_home(place: str) -> str:
    """Write a folder of the user's as people do, from `~` on.

    Example:
        >>> below_home("/tmp")
        '/tmp'
    """
    home = os.path.expanduser("~").rstrip("/")
    is_below = place == home or place.startswith(f"{home}/")
    return f"~{place[len(home) :]}" if is_below else place
