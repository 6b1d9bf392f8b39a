"""The files of an agent's session, as its tools see them."""

from greenroom.core import KeptFiles
from greenroom.session import LONGEST_FILE, KeepsFiles


class SessionFiles:
    """Keeps files of one session in its store."""

    longest = LONGEST_FILE

    def __init__(self, store: KeepsFiles, session_id: str) -> None:
        """Use this store for the files of this session."""
        self._store = store
        self._session_id = session_id

    async def put(self, name: str, data: bytes) -> None:
        """Keep a file, whole or not at all."""
        await self._store.put_file(self._session_id, name, data)

    async def read(self, name: str) -> bytes:
        """Return a file's content."""
        return (await self._store.open_file(self._session_id, name)).getvalue()

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of each file by its name, the oldest first."""
        found = await self._store.list_files(self._session_id)
        return {each.name: each.size for each in sorted(found, key=lambda each: each.changed)}

    async def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        await self._store.remove_file(self._session_id, name)


def files_of(store: object, session_id: str) -> KeptFiles | None:
    """Return the files of a session, if its store keeps any."""
    return SessionFiles(store, session_id) if isinstance(store, KeepsFiles) else None
