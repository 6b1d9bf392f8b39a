"""The files of an agent's session, as its tools see them."""

from greenroom.core._internal import KeptFiles
from greenroom.session._internal import CHECKPOINT_FILES, LONGEST_FILE, KeepsFiles


class SessionFiles:
    """Keeps files of one session in its store."""

    longest = LONGEST_FILE

    def __init__(self, store: KeepsFiles, session_id: str) -> None:
        self._store = store
        self._session_id = session_id

    async def put(self, name: str, data: bytes) -> None:
        """Keep a file, whole or not at all."""
        await self._store.put_file(self._session_id, _check(name), data)

    async def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (await self._store.open_file(self._session_id, _check(name))).getvalue()

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of each file by its name, the oldest first."""
        found = await self._store.list_files(self._session_id)
        seen = (each for each in found if not each.name.startswith(CHECKPOINT_FILES))
        return {each.name: each.size for each in sorted(seen, key=lambda each: each.changed)}

    async def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        await self._store.remove_file(self._session_id, _check(name))


def _check(name: str) -> str:
    if name.startswith(CHECKPOINT_FILES):
        raise ValueError(f"{name!r} is not for tools: it is of the session's checkpoints")
    return name


def files_of(store: object, session_id: str) -> KeptFiles | None:
    """Return the files of a session, if its store keeps any."""
    return SessionFiles(store, session_id) if isinstance(store, KeepsFiles) else None
