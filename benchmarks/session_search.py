"""What searching many sessions costs, in each store that outlives a process.

python benchmarks/session_search.py

A search that finds nothing reads every history. Its floor is the bare reading of the same histories
with the standard library: each line decoded, and looked through as text. The first hit of a search
is timed as well, and how much memory a search adds to that of the list that it works through.
"""

import json
import os
import sqlite3
import statistics
import tempfile
import time
import tracemalloc
from contextlib import closing
from pathlib import Path

import trio

from greenroom import AgentSession, FileStore, Message, SessionStore, SQLiteStore
from greenroom.session._internal import SessionSearch

SESSIONS = 10_000
MESSAGES = 20
ROUNDS = 3
SAID = "What does this function do, and who calls it? " * 10
NOWHERE = "a roof that leaks"


async def template(store: SessionStore) -> None:
    session = AgentSession.new("coder", session_id="template", store=store)
    for number in range(MESSAGES):
        session.add_message(Message.assistant(SAID) if number % 2 else Message.user(SAID))
        await session.save(flush=False)
    await session.save()


def multiply_folder(folder: Path) -> None:
    """Make the others by hand: each would cost a save."""
    metadata = (folder / "template" / "metadata.json").read_text()
    for number in range(SESSIONS - 1):
        session = folder / f"s{number}"
        session.mkdir()
        (session / "metadata.json").write_text(metadata.replace("template", session.name))
        os.link(folder / "template" / "history.jsonl", session / "history.jsonl")


def multiply_rows(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        ((key, text, size),) = database.execute(
            "SELECT key, CAST(metadata AS TEXT), size FROM sessions"
        ).fetchall()
        for number in range(SESSIONS - 1):
            values = (f"s{number}", text.replace("template", f"s{number}").encode(), size)
            query = "INSERT INTO sessions (session_id, metadata, size) VALUES (?, ?, ?)"
            new = database.execute(query, values).lastrowid
            lines = "INSERT INTO lines SELECT ?, number, line FROM lines WHERE session = ?"
            database.execute(lines, (new, key))


def is_in(data: bytes) -> bool:
    return any(NOWHERE in str(json.loads(line)).lower() for line in data.splitlines())


def read_folder(folder: Path) -> int:
    """The floor: every history, read and decoded by the standard library."""
    return sum(is_in((folder / name / "history.jsonl").read_bytes()) for name in os.listdir(folder))


def read_rows(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT CAST(line AS BLOB) FROM lines")
        return sum(is_in(line) for (line,) in rows)


async def timed_search(store: SessionStore, text: str) -> float:
    begin = time.perf_counter()
    search = SessionSearch(text, await AgentSession.list_all(store=store), store)
    found = await anext(search, None)
    assert (found is None) == (text == NOWHERE)
    assert not search.damaged
    return time.perf_counter() - begin


async def memory_of(store: SessionStore) -> int:
    """Return the most bytes that a search holds at once, the list not counted."""
    listed = (await AgentSession.list_all(store=store))[:500]
    tracemalloc.start()
    search = SessionSearch(NOWHERE, listed, store)
    assert await anext(search, None) is None
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        database = SQLiteStore(root / "sessions.db")
        for store, path, multiply, floor in (
            (FileStore(root / "files"), root / "files", multiply_folder, read_folder),
            (database, root / "sessions.db", multiply_rows, read_rows),
        ):
            await template(store)
            multiply(path)
            rounds = []
            for _ in range(ROUNDS):
                mine = await timed_search(store, NOWHERE)
                begin = time.perf_counter()
                await trio.to_thread.run_sync(floor, path)
                rounds.append((mine, time.perf_counter() - begin))
            mine = statistics.median(mine for mine, _ in rounds)
            ratio = statistics.median(mine / bare for mine, bare in rounds)
            first = await timed_search(store, "WHO CALLS IT")
            print(
                f"{type(store).__name__:12} search {SESSIONS:,} sessions of {MESSAGES} messages "
                f"{mine:6.2f} s  {ratio:5.2f} × floor, first hit {1e3 * first:6.1f} ms, "
                f"{await memory_of(store) / 1024:,.0f} KiB at once"
            )
        await database.aclose()


if __name__ == "__main__":
    trio.run(main)
