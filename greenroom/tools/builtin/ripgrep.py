"""ripgrep, where it is installed: the same files and rows as our own search, faster."""

import os
import shutil
from pathlib import Path

from greenroom.tools.builtin.file_tree import REPOSITORY_FOLDERS


def find_ripgrep(base: Path) -> str | None:
    """Return the path of the program `rg`, or None. Reads the disk: call it in a thread.

    None as well where it could wait for ever: it opens each `.gitignore` from `base` upwards, and one
    may be a pipe or a device.
    """
    rules = (folder / ".gitignore" for folder in (base, *base.parents))
    return None if any(map(_is_special, rules)) else shutil.which("rg")


def _is_special(path: Path) -> bool:
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def ripgrep_command(program: str, *arguments: str) -> list[str]:
    """Make a command that sees hidden files, honours `.gitignore` only, and reads no settings."""
    return [
        program,
        "--no-config",
        "--no-messages",
        "--hidden",
        "--no-require-git",
        "--no-ignore-global",
        "--no-ignore-exclude",
        "--no-ignore-dot",
        "--color=never",
        *(f"--glob=!{name}" for name in REPOSITORY_FOLDERS),
        *arguments,
    ]
