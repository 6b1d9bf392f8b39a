"""This project's own stores, as the suite wants to be told of them."""

import os
import shutil
from pathlib import Path

from greenroom.session import FileStore, MemoryStore
from greenroom.testing import StoreUnderTest


def damaged(data):
    """Change one byte of a line so that it is no record any more."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


class Files(StoreUnderTest):
    def __init__(self, folder):
        self.folder = folder / "sessions"

    async def open(self):
        return FileStore(self.folder)

    async def lose_lock(self, session_id):
        os.unlink(self.folder / session_id / "lock")

    async def remove(self, session_id):
        shutil.rmtree(self.folder / session_id)

    async def damage(self, session_id, line):
        path = Path(self.folder / session_id / "history.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
        lines[line] = damaged(lines[line])
        path.write_bytes(b"".join(lines))


class Memory(StoreUnderTest):
    def __init__(self, folder):
        self.store = MemoryStore()

    async def open(self):
        return self.store

    async def lose_lock(self, session_id):
        self.store._sessions[session_id].is_locked = False

    async def remove(self, session_id):
        del self.store._sessions[session_id]

    async def damage(self, session_id, line):
        history = self.store._sessions[session_id].history
        lines = bytes(history).splitlines(keepends=True)
        lines[line] = damaged(lines[line])
        history[:] = b"".join(lines)
