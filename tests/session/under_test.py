"""This project's own stores, as the suite wants to be told of them."""

import os
import shutil
import sqlite3
import weakref
from pathlib import Path

import psycopg

from greenroom.core._internal import new_id
from greenroom.session import FileStore, InMemoryStore, PostgresStore, SQLiteStore
from greenroom.testing import StoreUnderTest


def damaged(data):
    """Change one byte of a line so that it is no record any more."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


class Ours(StoreUnderTest):
    async def open(self):
        return self.make()


class Files(Ours):
    def __init__(self, folder):
        self.folder = folder / "sessions"

    def make(self):
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


class SQLite(Ours):
    def __init__(self, folder):
        self.path = folder / "sessions.db"

    def make(self):
        return SQLiteStore(self.path)

    async def lose_lock(self, session_id):
        os.unlink(f"{self.path}-locks/{session_id}/lock")

    async def remove(self, session_id):
        lines = "DELETE FROM lines WHERE session = (SELECT key FROM sessions WHERE session_id = ?)"
        self.execute(lines, session_id)
        self.execute("DELETE FROM sessions WHERE session_id = ?", session_id)

    async def damage(self, session_id, line):
        where = "session = (SELECT key FROM sessions WHERE session_id = ?) AND number = ?"
        ((data,),) = self.execute(f"SELECT line FROM lines WHERE {where}", session_id, line)
        self.execute(f"UPDATE lines SET line = ? WHERE {where}", damaged(data), session_id, line)

    def execute(self, query, *values):
        connection = sqlite3.connect(self.path, isolation_level=None)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()


class Postgres(Ours):
    """Sessions in a schema of their own."""

    def __init__(self, server, patience=10.0):
        self.server = server
        self.schema = new_id("s").replace("-", "_").lower()
        self.patience = patience
        self.stores = weakref.WeakSet()

    def make(self):
        store = PostgresStore(self.server.dsn, schema=self.schema, patience=self.patience)
        self.stores.add(store)
        return store

    def close(self):
        for store in list(self.stores):
            store._finalizer()

    async def lose_lock(self, session_id):
        self.execute("UPDATE sessions SET holder = NULL WHERE session_id = %s", session_id)

    async def remove(self, session_id):
        lines = "DELETE FROM lines WHERE session = (SELECT key FROM sessions WHERE session_id = %s)"
        self.execute(lines, session_id)
        self.execute("DELETE FROM sessions WHERE session_id = %s", session_id)

    async def damage(self, session_id, line):
        where = "session = (SELECT key FROM sessions WHERE session_id = %s) AND number = %s"
        ((data,),) = self.execute(f"SELECT line FROM lines WHERE {where}", session_id, line)
        query = f"UPDATE lines SET line = %s WHERE {where}"
        self.execute(query, damaged(data), session_id, line)

    def put(self, lines):
        """Put these lines in the place of those of the one session."""
        with psycopg.connect(self.server.dsn) as connection:
            connection.execute(f"SET search_path = {self.schema}")
            ((key,),) = connection.execute("SELECT key FROM sessions").fetchall()
            connection.execute("DELETE FROM lines")
            copied = "COPY lines (session, number, line) FROM STDIN"
            with connection.cursor().copy(copied) as copy:
                for number, line in enumerate(lines):
                    copy.write_row((key, number, line))
            connection.execute("UPDATE sessions SET size = %s", [len(b"".join(lines))])

    def execute(self, query, *values):
        with psycopg.connect(self.server.dsn, autocommit=True) as connection:
            connection.execute(f"SET search_path = {self.schema}")
            found = connection.execute(query, values)
            return found.fetchall() if found.description else found.rowcount


class Memory(Ours):
    def __init__(self, folder):
        self.store = InMemoryStore()

    def make(self):
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
