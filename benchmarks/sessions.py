"""What sessions cost as they grow: in length and in number, in each store.

python benchmarks/sessions.py

An append to a long session is compared with one to an empty session, by turns on the same disk, and
its last page with a load of all of it. A list is compared with its floor, the bare reading of the
same descriptions, and with a list of sessions whose histories are long.

Exits with 1 where a bound is broken.
"""

import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import trio

from greenroom import AgentSession, FileStore, InMemoryStore, Message, SessionStore, SQLiteStore
from greenroom.session._internal import read_last

MESSAGES = 100_000
PER_LINE = 50  # how many messages one commit holds while the long session is made
APPENDS = 300
PAGE = 50  # messages of a last page
SESSIONS = 10_000
ROUNDS = 5
LONG = 32_768  # bytes of the histories that a list must not read
MAX_APPEND = 1.5  # times an append to an empty session
MAX_PAGE = 1 / 20  # of a load of all
MAX_LIST = 4.0  # times the bare reading
MAX_GROWTH = 1.5  # times a list of short sessions
PERSON = Message.user("What does this function do, and who calls it? " * 4)


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin


async def grown(store: SessionStore, messages: int) -> AgentSession:
    """Store a session of so many messages, and hold it open as an agent does."""
    session = AgentSession.new("coder", store=store)
    await session.open()
    for number in range(messages):
        session.add_message(PERSON)
        if number % PER_LINE == 0:
            await session.save(flush=False)
    await session.save()
    return session


async def append_by_turns(store: SessionStore) -> tuple[float, float, str]:
    """Return the seconds of an append to a long session and an empty one, and the long one's id."""
    sessions = [await grown(store, MESSAGES), await grown(store, 1)]
    costs: list[list[float]] = [[], []]

    for _ in range(APPENDS):
        for session, cost in zip(sessions, costs, strict=True):
            begin = time.perf_counter()
            session.add_message(PERSON)
            await session.save()
            cost.append(time.perf_counter() - begin)
    for session in sessions:
        await session.close()
    return statistics.median(costs[0]), statistics.median(costs[1]), sessions[0].session_id


async def page_and_load(store: SessionStore, session_id: str) -> tuple[float, float]:
    """Return what the last page of a long session costs, in seconds, and a load of all of it."""
    # One after the other: what a load leaves to be collected is not the page's to pay.
    pages = [await timed(lambda: read_last(session_id, PAGE, store=store)) for _ in range(ROUNDS)]
    loads = [await timed(lambda: AgentSession.load(session_id, store=store)) for _ in range(ROUNDS)]
    return statistics.median(pages), statistics.median(loads)


def description(session_id: str) -> bytes:
    at = "2026-01-14T10:30:00Z"
    described = {"session_id": session_id, "agent_type": "coder", "created_at": at}
    return json.dumps(described | {"updated_at": at, "metadata": {"title": "mine"}}).encode()


def fill_folder(folder: Path, history: int) -> None:
    """Make the sessions by hand: each costs a save otherwise."""
    folder.mkdir()
    shared = folder.parent / f"{folder.name}.jsonl"
    shared.write_bytes(b"x" * history)
    for number in range(SESSIONS):
        session = folder / f"s{number}"
        session.mkdir()
        (session / "metadata.json").write_bytes(description(session.name))
        os.link(shared, session / "history.jsonl")


def fill_database(path: Path, history: int) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        for number in range(SESSIONS):
            values = (f"s{number}", description(f"s{number}"), history)
            query = "INSERT INTO sessions (session_id, metadata, size) VALUES (?, ?, ?)"
            key = database.execute(query, values).lastrowid
            database.execute("INSERT INTO lines VALUES (?, 0, ?)", (key, b"x" * history))


def read_folder(folder: Path) -> None:
    """The floor: every description, read and decoded by the standard library."""
    for name in os.listdir(folder):
        with open(os.path.join(folder, name, "metadata.json"), "rb") as file:
            json.load(file)


def read_database(path: Path) -> None:
    with closing(sqlite3.connect(path)) as database:
        for (metadata,) in database.execute("SELECT metadata FROM sessions"):
            json.loads(metadata)


async def in_thread(work: Callable[[], None]) -> None:
    await trio.to_thread.run_sync(work)


async def list_files(folder: Path) -> tuple[float, float, float]:
    for name, history in (("short", 1), ("long", LONG)):
        fill_folder(folder / name, history)
    return await listed(
        FileStore(folder / "short"),
        FileStore(folder / "long"),
        lambda: read_folder(folder / "short"),
    )


async def list_database(folder: Path) -> tuple[float, float, float]:
    stores = [SQLiteStore(folder / "short.db"), SQLiteStore(folder / "long.db")]
    for store, name, history in zip(stores, ("short", "long"), (1, LONG), strict=True):
        session = await grown(store, 1)  # which makes the tables
        await session.close()
        fill_database(folder / f"{name}.db", history)
    found = await listed(*stores, lambda: read_database(folder / "short.db"))
    for store in stores:
        await store.aclose()
    return found


async def listed(
    short: SessionStore, long: SessionStore, floor: Callable[[], None]
) -> tuple[float, float, float]:
    """Return the seconds of a list, and its ratios to the floor and to a list of long sessions."""
    assert len(await short.list_all()) >= SESSIONS
    rounds = [
        (
            await timed(short.list_all),
            await timed(long.list_all),
            await timed(lambda: in_thread(floor)),
        )
        for _ in range(ROUNDS)
    ]
    return (
        statistics.median(mine for mine, _, _ in rounds),
        statistics.median(mine / bare for mine, _, bare in rounds),
        statistics.median(slow / mine for mine, slow, _ in rounds),
    )


async def grows(folder: Path) -> bool:
    """Print what the length of a session costs; return whether that is within the bounds."""
    holds = True
    database = SQLiteStore(folder / "append.db")
    for store in (FileStore(folder / "append"), database, InMemoryStore()):
        long, empty, session_id = await append_by_turns(store)
        page, load = await page_and_load(store, session_id)
        name = type(store).__name__
        print(
            f"{name:12} append to {MESSAGES:,} messages {1e3 * long:8.3f} ms  "
            f"{long / empty:5.2f} × to an empty one  (bound {MAX_APPEND})\n"
            f"{name:12} last {PAGE} of {MESSAGES:,}     {1e3 * page:8.3f} ms  "
            f"1/{load / page:.0f} of a load of all  (bound 1/{1 / MAX_PAGE:.0f})"
        )
        holds = holds and long / empty <= MAX_APPEND and page / load <= MAX_PAGE
    await database.aclose()
    return holds


async def multiplies(folder: Path) -> bool:
    """Print what the number of sessions costs; return whether that is within the bounds."""
    holds = True
    for name, work in (("FileStore", list_files), ("SQLiteStore", list_database)):
        seconds, ratio, growth = await work(folder)
        print(
            f"{name:12} list {SESSIONS:,} sessions      {1e3 * seconds:8.1f} ms  "
            f"{ratio:5.2f} × floor  (bound {MAX_LIST}), "
            f"{growth:.2f} × with histories of {LONG:,} bytes  (bound {MAX_GROWTH})"
        )
        holds = holds and ratio <= MAX_LIST and growth <= MAX_GROWTH
    return holds


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        holds = [await grows(Path(folder)), await multiplies(Path(folder))]
    if not all(holds):
        sys.exit("a bound is broken")


if __name__ == "__main__":
    trio.run(main)
