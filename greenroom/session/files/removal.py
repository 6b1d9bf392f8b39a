"""A session's folder taken away: all of it at once, and nothing that lies outside of it."""

import contextlib
import os
import stat

from greenroom.core import new_id
from greenroom.session.files import durable

_HIDDEN = ".deleted-"  # no session's id begins with a dot


def remove_folder(folder: str) -> None:
    """Remove a session's folder; durable when it returns.

    The folder is renamed first, and what it holds goes only once that is on the disk: so a crash
    leaves the session whole or gone. What a crash leaves of one that is gone bears a name that no
    list shows, and is removed with the next session. Several may be removed at the same time.

    Raises:
        SyncError: a flush failed; the session is whole or gone.
        OSError: it is whole; or it is gone, and the error names what of it can't be removed.
    """
    root, name = os.path.split(folder)
    # Listed before the sync: what is renamed after it may come back whole with a loss of power.
    left_over = [each for each in os.listdir(root) if _is_left(each)]
    hidden = os.path.join(root, f"{_HIDDEN}{name}-{new_id('d')}")
    os.rename(folder, hidden)
    durable.sync_folder(root)
    _remove_tree(hidden)
    for each in left_over:
        with contextlib.suppress(OSError):  # it may be another user's, or damaged
            _remove_tree(os.path.join(root, each))


def _is_left(name: str) -> bool:
    """Whether this is what a crash has left of a session that is gone."""
    return name.startswith(_HIDDEN)


def _remove_tree(path: str) -> None:
    """Remove a folder and all that is in it; of a link the link, never what it leads to.

    What is gone already was removed by another delete, which clears up after crashes as this one does.
    """
    found, waiting = list[tuple[str, bool]](), [path]
    while waiting:
        each = waiting.pop()
        with contextlib.suppress(FileNotFoundError):
            is_folder = stat.S_ISDIR(os.lstat(each).st_mode)
            found.append((each, is_folder))
            if is_folder:
                waiting += [os.path.join(each, name) for name in os.listdir(each)]
    for each, is_folder in reversed(found):
        with contextlib.suppress(FileNotFoundError):
            if is_folder:
                os.rmdir(each)
            else:
                os.unlink(each)
