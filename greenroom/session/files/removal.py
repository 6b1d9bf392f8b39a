"""A session's folder taken away: all of it at once, and nothing that lies outside of it."""

import contextlib
import os
import stat

from greenroom.core import new_id
from greenroom.session.files import durable

__all__ = ["remove_folder"]

_HIDDEN = ".deleted-"  # no session's id begins with a dot


def remove_folder(folder: str) -> None:
    """Remove a session's folder; durable when it returns.

    The folder is renamed first, and what it holds goes only once that is on the disk: so a crash
    leaves the session whole or gone. What a crash leaves of one that is gone bears a name that no
    list shows, and is removed with the next session.

    Raises:
        SyncError: a flush failed; the session is whole or gone.
        OSError: it is whole; or it is gone, and the error names what of it can't be removed.
    """
    root, name = os.path.split(folder)
    hidden = os.path.join(root, f"{_HIDDEN}{name}-{new_id('d')}")
    os.rename(folder, hidden)
    durable.sync_folder(root)
    _remove_tree(hidden)
    for left in filter(_is_left, os.listdir(root)):
        with contextlib.suppress(OSError):  # somebody else may be at it
            _remove_tree(os.path.join(root, left))


def _is_left(name: str) -> bool:
    """Whether this is what a crash has left of a session that is gone."""
    return name.startswith(_HIDDEN)


def _remove_tree(path: str) -> None:
    """Remove a folder and all that is in it; of a link the link, never what it leads to."""
    found, waiting = list[tuple[str, bool]](), [path]
    while waiting:
        each = waiting.pop()
        is_folder = stat.S_ISDIR(os.lstat(each).st_mode)
        found.append((each, is_folder))
        if is_folder:
            waiting += [os.path.join(each, name) for name in os.listdir(each)]
    for each, is_folder in reversed(found):
        if is_folder:
            os.rmdir(each)
        else:
            os.unlink(each)
