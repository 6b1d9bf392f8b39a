"""Where the program keeps what belongs to its user."""

import os
import re
import sys
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path

from greenroom.core import ConfigurationError


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


def memory_file(
    workspace: Path, env: Mapping[str, str] = os.environ, platform: str = sys.platform
) -> Path:
    """Return the file of what this user's agents remember of a folder; it need not exist.

    It is in `$XDG_DATA_HOME/greenroom/memory`, by default under `~/.local/share`; on macOS in
    `~/Library/Application Support/greenroom/memory`.

    Example:
        >>> memory_file(Path("/work/My Shop"), {"XDG_DATA_HOME": "/data"}, "linux").as_posix()
        '/data/greenroom/memory/My_Shop-509fa0755ae8.db'
    """
    base = env.get("XDG_DATA_HOME", "")
    data = Path(base) if os.path.isabs(base) else Path("~/.local/share").expanduser()
    if platform == "darwin":
        data = Path("~/Library/Application Support").expanduser()
    digest = blake2b(os.fsencode(os.path.realpath(workspace)), digest_size=6).hexdigest()
    name = re.sub(r"[^A-Za-z0-9.-]", "_", workspace.name)[:40]
    return data / "greenroom" / "memory" / f"{name}-{digest}.db"


def below_home(place: str) -> str:
    """Write a folder of the user's as people do, from `~` on.

    Example:
        >>> below_home("/tmp")
        '/tmp'
    """
    home = os.path.expanduser("~").rstrip("/")
    is_below = place == home or place.startswith(f"{home}/")
    return f"~{place[len(home) :]}" if is_below else place
