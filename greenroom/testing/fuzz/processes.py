"""The processes that this one has started, and those that they have."""

import os
from pathlib import Path

__all__ = ["descendants"]


def descendants() -> dict[int, str]:
    """Return the command lines of all processes below this one by their ids; on Linux alone.

    A process that a dead one has left behind is below this one only if something here has taken it
    in, as the launcher of `Bash` does.
    """
    found: dict[int, str] = {}
    waiting = [os.getpid()]
    while waiting:
        for pid in _children(waiting.pop()):
            found[pid] = _command(pid)
            waiting.append(pid)
    return found


def _children(pid: int) -> list[int]:
    """Ask each thread for what it has started; what ends meanwhile has started nothing."""
    children: list[int] = []
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children += map(int, thread.read_bytes().split())
        except OSError:
            continue
    return children


def _command(pid: int) -> str:
    try:
        return (
            Path(f"/proc/{pid}/cmdline")
            .read_bytes()
            .replace(b"\0", b" ")
            .decode("utf-8", "replace")
        )
    except OSError:
        return ""
