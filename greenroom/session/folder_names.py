"""The name of a session's folder: its id where that is plain, else a readable part and a hash.

Two ids never have the same folder, on disks that fold case or normalize Unicode either: a plain id
has small ASCII letters only, and no plain id has the `~` that stands before a hash. Before any text
could be an id, capital letters and up to 128 characters were plain too, so such a folder may exist.
"""

import hashlib
import os
import re

from greenroom.core._internal import check_session_id, compile_later

_PLAIN = compile_later(r"[a-z0-9][a-z0-9._-]{0,99}")
_PLAIN_BEFORE = compile_later(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_HASHED = compile_later(r"[a-z0-9._-]{0,40}~[0-9a-f]{32}")
_READABLE = 40


def folder_name(session_id: str) -> str:
    """Return the name of the folder in which a new session with this id is kept.

    Raises:
        InvalidSessionIdError: the id is not valid.

    Example:
        >>> folder_name("s-7k2m9q4x1zt0"), folder_name("ann@x.org")
        ('s-7k2m9q4x1zt0', 'ann-x.org~367a1e74302c7324855afeeba387d3c5')
    """
    check_session_id(session_id)
    if _PLAIN.fullmatch(session_id):
        return session_id
    readable = re.sub(r"[^a-z0-9._-]+", "-", session_id.lower()).strip("-.")[:_READABLE]
    digest = hashlib.sha256(session_id.encode()).hexdigest()[:32]
    return f"{readable or 'id'}~{digest}"


def was_plain(session_id: str) -> bool:
    """Whether an older version may have given a session with this id a folder of this name."""
    is_now = _PLAIN.fullmatch(session_id)
    return not is_now and _PLAIN_BEFORE.fullmatch(session_id) is not None


def is_hashed(name: str) -> bool:
    """Whether a folder's name does not tell the id of its session."""
    return _HASHED.fullmatch(name) is not None


def may_be_folder(name: str) -> bool:
    """Whether a folder of this name may be a session's."""
    return bool(_PLAIN.fullmatch(name)) or was_plain(name) or is_hashed(name)


def has_name(root: str, name: str) -> bool:
    """Whether the listing of a folder has exactly this name, also on a disk that folds case.

    Raises:
        OSError: it can't be listed.
    """
    return os.path.lexists(os.path.join(root, name)) and name in os.listdir(root)
