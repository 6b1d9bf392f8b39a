"""ripgrep, where it is installed: the same files and rows as our own search, faster."""

import shutil

from greenroom.tools.builtin.file_tree import REPOSITORY_FOLDERS

__all__ = ["find_ripgrep", "ripgrep_command"]


def find_ripgrep() -> str | None:
    """Return the path of the program `rg`, or None. Reads the disk: call it in a thread."""
    return shutil.which("rg")


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
