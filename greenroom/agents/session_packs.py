"""The packs of a session: contents of files from before tools changed them, kept by its store.

A store with a folder for each session keeps them there, under `checkpoints/`. Any other keeps each
pack as a file of the session (`KeepsFiles`), which neither tools nor forks of the session see.
"""

import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TypeVar

import trio

from greenroom.core import SessionError
from greenroom.session import AgentSession
from greenroom.session._internal import CHECKPOINT_FILES, LONGEST_FILE, KeepsFiles
from greenroom.tools._internal import Packs

T = TypeVar("T")


def packs_folder(session: AgentSession) -> str:
    """Return the folder for a session's packs, or "" if its store has no folder."""
    folder = session.store.folder(session.session_id) if session.store is not None else ""
    return os.path.join(folder, "checkpoints") if folder else ""


def packs_of(session: AgentSession) -> Packs | None:
    """Return the packs of a session, to be used in threads; None if its store keeps no files."""
    if folder := packs_folder(session):
        return Packs(folder)
    store = session.store
    return Packs(SessionPacks(store, session.session_id)) if isinstance(store, KeepsFiles) else None


class SessionPacks:
    """Keeps packs as files of a session, up to 16 MB each.

    The last pack that was read stays in memory, since a restore reads one content after the other.
    """

    longest = LONGEST_FILE

    def __init__(self, store: KeepsFiles, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._last: tuple[str, BytesIO] | None = None

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each pack, by its name."""
        files = _run(lambda: self._store.list_files(self._session_id))
        return {
            each.name.removeprefix(CHECKPOINT_FILES): each.size
            for each in files
            if each.name.startswith(CHECKPOINT_FILES)
        }

    def open(self, name: str) -> BytesIO:
        """Return a pack, to read."""
        if self._last is None or self._last[0] != name:
            file = f"{CHECKPOINT_FILES}{name}"
            self._last = name, _run(lambda: self._store.open_file(self._session_id, file))
        return BytesIO(self._last[1].getvalue())

    @contextmanager
    def create(self, name: str, *, flush: bool) -> Iterator[BytesIO]:
        """Collect a pack in memory, and hand it to the store, which always makes it durable."""
        file = BytesIO()
        yield file
        if file.tell():
            kept = f"{CHECKPOINT_FILES}{name}"
            _run(lambda: self._store.put_file(self._session_id, kept, file.getvalue()))

    def remove(self, name: str) -> None:
        """Remove a pack, if it is there."""
        _run(lambda: self._store.remove_file(self._session_id, f"{CHECKPOINT_FILES}{name}"))


def _run(work: Callable[[], Awaitable[T]]) -> T:
    """Have the event loop do the store's work, and wait for it in this thread.

    Raises:
        OSError: the store failed.
    """
    try:
        return trio.from_thread.run(work)
    except SessionError as error:
        raise OSError(error.message) from error
