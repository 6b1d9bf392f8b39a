"""What sessions in PostgreSQL cost beside the bare statements, by psycopg from trio's threads.

python -m benchmarks.postgres

It starts a server of its own, in memory, where our part weighs most: an append is compared with the
one statement that it is, by turns; 16 that append at once with 8 connections that run that
statement, in many short rounds; and a page of 100 among 100,000 sessions with a SELECT of as many
rows by the same index, by turns. What `AgentSession.save` takes, which also makes the line, is
printed beside it, and what the page takes of the SELECT alone, without the thread around it.

Exits with 1 where a bound is broken.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import psycopg
import trio

from greenroom import AgentSession, Message
from greenroom.session import Position, PostgresStore, SessionWriter
from greenroom.session.postgres_tables import append_line, take_session
from tests.postgres_server import PostgresServer

APPENDS = 500
AT_ONCE = 16  # sessions
CONNECTIONS = 8
EACH = 60  # saves of each session
SESSIONS = 100_000
PAGE = 100
ROUNDS = 15
PAGES = 200
MAX_APPEND = 1.6  # times the statement
MIN_RATE = 0.7  # of the rate of the statement
MAX_PAGE = 5.0  # times the SELECT
PERSON = Message.user("What does this function do, and who calls it? " * 4)
SELECT = """SELECT session_id, metadata FROM sessions
    ORDER BY greatest(updated, changed) DESC, session_id DESC LIMIT %s"""


class Ours:
    """The writer of one session, which appends lines of the same length."""

    def __init__(self, writer: SessionWriter, line: bytes) -> None:
        self._line, self._at = line, Position()
        self._writer = writer

    async def append(self) -> None:
        await self._writer.append(self._line, self._at)
        self._at = after(self._at, self._line)

    async def close(self) -> None:
        await self._writer.release()


class Bare:
    """One connection that appends lines of the same length to a session, without anything else."""

    def __init__(self, dsn: str, name: str, line: bytes) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True, options="-c search_path=greenroom")
        self._name, self._line, self._at = name, line, Position()
        self._epoch = take_session(self._connection, name, 1, 0, [], 0) or 0

    async def append(self) -> None:
        await trio.to_thread.run_sync(self._append)

    def _append(self) -> None:
        assert append_line(self._connection, self._name, self._epoch, self._line, self._at)
        self._at = after(self._at, self._line)

    def close(self) -> None:
        self._connection.close()


def after(at: Position, line: bytes) -> Position:
    return Position(at.lines + 1, at.size + len(line))


async def open_session(store: PostgresStore) -> AgentSession:
    session = AgentSession.new("coder", store=store)
    await session.open()
    await say(session)
    return session


async def say(session: AgentSession) -> None:
    session.add_message(PERSON)
    await session.save()


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin


async def appends(store: PostgresStore, dsn: str, line: bytes) -> bool:
    session, bare = await open_session(store), Bare(dsn, "bare", line)
    ours = Ours(await store.acquire("ours"), line)
    works = (ours.append, partial(say, session), bare.append)
    costs: list[list[float]] = [[], [], []]
    for _ in range(APPENDS):
        for work, cost in zip(works, costs, strict=True):
            cost.append(await timed(work))
    bare.close()
    await ours.close()
    await session.close()
    mine, saved, least = map(statistics.median, costs)
    print(
        f"an append            {1e3 * mine:8.3f} ms  {mine / least:5.2f} × the statement"
        f"  (bound {MAX_APPEND}); a save {saved / least:.2f} ×"
    )
    return mine / least <= MAX_APPEND


async def repeat(work: Callable[[], Awaitable[None]], times: int) -> None:
    for _ in range(times):
        await work()


async def rate(works: list[Callable[[], Awaitable[None]]]) -> float:
    """Return how many of these are done in a second, each again and again at the same time."""
    times = EACH * AT_ONCE // len(works)

    async def all_at_once() -> None:
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(repeat, work, times)

    return len(works) * times / await timed(all_at_once)


async def rates(store: PostgresStore, dsn: str, line: bytes) -> bool:
    sessions = [await open_session(store) for _ in range(AT_ONCE)]
    ours = [Ours(await store.acquire(f"ours-{number}"), line) for number in range(AT_ONCE)]
    bare = [Bare(dsn, f"bare-{number}", line) for number in range(CONNECTIONS)]
    found = []
    for _ in range(ROUNDS):
        mine = await rate([each.append for each in ours])
        saved = await rate([partial(say, session) for session in sessions])
        floor = await rate([each.append for each in bare])
        found.append((mine / floor, saved / floor, mine))
    for each in bare:
        each.close()
    for one in ours:
        await one.close()
    for session in sessions:
        await session.close()
    share, saved, mine = map(statistics.median, zip(*found, strict=True))
    print(
        f"{AT_ONCE} at once           {mine:8.0f} /s  {share:5.2f} of {CONNECTIONS} connections"
        f"  (bound {MIN_RATE}); saves {saved:.2f}"
    )
    return share >= MIN_RATE


async def pages(dsn: str) -> bool:
    async with PostgresStore(dsn, schema="pages") as store:
        await (await open_session(store)).close()
        with psycopg.connect(dsn, autocommit=True, options="-c search_path=pages") as connection:
            fill(connection)

            def select() -> None:
                assert len(connection.execute(SELECT, [PAGE], binary=True).fetchall()) == PAGE

            async def list_page() -> None:
                assert len((await store.list_page(limit=PAGE)).sessions) == PAGE

            async def select_at_once() -> None:
                select()

            works = (list_page, partial(trio.to_thread.run_sync, select), select_at_once)
            costs: list[list[float]] = [[], [], []]
            for _ in range(PAGES):
                for work, cost in zip(works, costs, strict=True):
                    cost.append(await timed(work))
    ours, floor, alone = map(statistics.median, costs)
    print(
        f"{PAGE} of {SESSIONS:,}       {1e3 * ours:8.3f} ms  {ours / floor:5.2f} × the SELECT"
        f"  (bound {MAX_PAGE}); {ours / alone:.2f} × without its thread"
    )
    return ours / floor <= MAX_PAGE


def fill(connection: psycopg.Connection) -> None:
    """Add sessions like the one that is there, each changed a second after the one before."""
    connection.execute(
        """INSERT INTO sessions (session_id, metadata, size, updated, epoch)
        SELECT 's' || n, convert_to(replace(convert_from(metadata, 'UTF8'), session_id, 's' || n),
            'UTF8'), 0, n, 1
        FROM sessions, generate_series(1, %s) AS n""",
        [SESSIONS],
    )
    connection.execute("ANALYZE sessions")


async def measure(dsn: str) -> bool:
    async with PostgresStore(dsn) as store:
        session = await open_session(store)
        with psycopg.connect(dsn) as connection:
            query = "SELECT line FROM greenroom.lines"
            line = max((each for (each,) in connection.execute(query)), key=len)
        await session.close()
        return all(
            [
                await appends(store, dsn, line),
                await rates(store, dsn, line),
                await pages(dsn),
            ]
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        server = PostgresServer(Path(folder) / "template")
        try:
            holds = trio.run(measure, server.dsn)
        finally:
            server.stop()
    if not holds:
        sys.exit("a bound is broken")


if __name__ == "__main__":
    main()
