"""Files that belong to a session: long results, artifacts, whatever is too large for its history.

Each store keeps them beside the session: whole or not at all, under names that lead nowhere else.
They go with the session when it is deleted, and are copied when it is forked.
"""

from datetime import datetime
from io import BytesIO
from typing import Protocol, runtime_checkable

import msgspec

from greenroom.core import SessionError, SessionNotFoundError
from greenroom.core._internal import compile_later

LONGEST_FILE = 16 << 20
"""Bytes of one file: 16 MB."""

CHECKPOINT_FILES = "checkpoint-"
"""How the names of those files begin that the session keeps for itself: contents from before tools
changed them. Tools don't see them, since they may hold what the tools may not read, and forks don't
get them, since they can't undo what happened before.
"""

_NAME = compile_later(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SessionFile(msgspec.Struct, frozen=True):
    """A file of a session, as lists show it.

    Attributes:
        name: its name.
        size: its bytes.
        changed: when it was written, in UTC.
    """

    name: str
    size: int
    changed: datetime

    @staticmethod
    def check_name(name: str) -> str:
        """Return the name of a file if it leads nowhere else.

        Raises:
            ValueError: it may, or it is longer than 100 characters.
        """
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"{name[:120]!r} can't name a file of a session: use up to 100 letters, digits, "
                "'.', '_' and '-', and begin with a letter or digit"
            )
        return name

    @classmethod
    def check(cls, session_id: str, name: str, data: bytes) -> None:
        """Check what a store is to keep.

        Raises:
            ValueError: the name leads elsewhere.
            SessionError: the file is too long.
        """
        cls.check_name(name)
        if len(data) > LONGEST_FILE:
            raise SessionError(
                f"{name} has {len(data):,} bytes, and a file of a session at most {LONGEST_FILE:,}",
                session_id=session_id,
                hint="keep a part of it, or several files",
            )


@runtime_checkable
class KeepsFiles(Protocol):
    """The part of a store that keeps files; it needs no lock."""

    async def put_file(self, session_id: str, name: str, data: bytes) -> None:
        """Keep a file, in place of one of this name; durable when it returns, or nothing changed.

        The session need not be stored yet.

        Args:
            session_id: whose file it is.
            name: up to 100 letters, digits, `.`, `_` and `-`, the first a letter or digit.
            data: at most 16 MB.

        Raises:
            ValueError: the name is another.
            SessionError: the file is too long.
            SessionStorageError: the disk refused.
        """

    async def open_file(self, session_id: str, name: str) -> BytesIO:
        """Return a file's content, as a file to read.

        Raises:
            ValueError: the name is not allowed.
            SessionNotFoundError: the session does not have this file.
            SessionStorageError: it can't be read.
        """

    async def list_files(self, session_id: str) -> tuple[SessionFile, ...]:
        """Describe a session's files, by their names.

        Raises:
            SessionStorageError: they can't be read.
        """

    async def remove_file(self, session_id: str, name: str) -> None:
        """Remove a file, if there is one of this name.

        Raises:
            ValueError: the name is not allowed.
            SessionStorageError: the disk refused.
        """


def no_file_error(session_id: str, name: str) -> SessionNotFoundError:
    """Return the error for a file that a session lacks."""
    return SessionNotFoundError(
        f"session {session_id!r} has no file {name!r}",
        session_id=session_id,
        hint="store.list_files shows what there is",
    )


async def copy_files(store: object, session_id: str, to: str) -> None:
    """Give a session the files of another, but not those of its checkpoints, one at a time.

    Raises:
        SessionStorageError: the disk refused.
    """
    if isinstance(store, KeepsFiles):
        for each in await store.list_files(session_id):
            if each.name.startswith(CHECKPOINT_FILES):
                continue
            data = await store.open_file(session_id, each.name)
            await store.put_file(to, each.name, data.getvalue())
