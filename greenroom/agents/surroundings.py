"""What a coding agent should know of where it works: the date, the platform, the git branch."""

import os
import re
import sys
from pathlib import Path

from greenroom.core import clock, visible
from greenroom.shell import read_beginning

_HEAD = re.compile(rb"ref: refs/heads/([^\x00-\x20\x7f~^:?*\[\\]{1,200})\s*")
_COMMIT = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\s*")
_MOST = 4096  # bytes of a file of git's that says where something lies


def describe_surroundings(folder: Path) -> str:
    """Describe the present state of affairs for the model. It reads files: call it in a thread.

    The date is that of the machine's own time zone, since "today" is the user's.
    """
    system = os.uname()
    name = "macOS, Darwin" if sys.platform == "darwin" else system.sysname
    lines = [
        "# Surroundings at the start of this run",
        "",
        f"Date: {clock.now().astimezone():%A, %Y-%m-%d}",
        f"Platform: {name} {system.release} {system.machine}",
    ]
    branch = git_branch(folder)
    return "\n".join([*lines, f"Git branch: {branch}"] if branch else lines)


def git_branch(folder: Path) -> str:
    """Return the branch of the repository around a folder; empty if there is none. It blocks.

    Git is not run, since a repository may name programs that git would run. A commit that is checked
    out without a branch is named as such.
    """
    for place in (folder, *folder.parents):
        link = place / ".git"
        if not os.path.lexists(link):
            continue
        try:
            head = read_beginning(_git_folder(link) / "HEAD", _MOST)
        except (OSError, ValueError):
            return ""
        if found := _HEAD.fullmatch(head):
            # With the table format of references, HEAD names a branch that can't be.
            branch = found[1].decode("utf-8", "replace")
            return "" if branch == ".invalid" else visible(branch)
        found = _COMMIT.fullmatch(head)
        return f"none, commit {found[1].decode()[:12]} is checked out" if found else ""
    return ""


def _git_folder(link: Path) -> Path:
    """Return the folder that `.git` is, or names, as in a worktree or a submodule."""
    if link.is_dir():
        return link
    text = os.fsdecode(read_beginning(link, _MOST)).rstrip("\r\n")
    if not text.startswith("gitdir: "):
        raise ValueError(f"{link} is not understood")
    return link.parent / text.removeprefix("gitdir: ")
