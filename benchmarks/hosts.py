"""What agents on hosts cost beside what they are made of: a bare POST, and the store of sessions.

python -m benchmarks.hosts

It starts a database and a host of its own. A call of a handle is compared with a bare POST to the
same host, by turns; what is read of a stream is timed by chunk; agents are started as fast as they
go, and compared with sessions that are acquired and saved by the store; and the transactions and
connections are counted at the database while 1,000 agents have nothing to do.

Exits with 1 where a bound is broken.
"""

import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import psycopg
import trio

from greenroom import AgentSession, Message
from greenroom.core import Done, TextDelta
from greenroom.distributed import AgentSpec, AgentType, Cluster, Host, RemoteAgent
from greenroom.distributed.host_client import mailbox_path
from greenroom.runtime import AgentInternals
from greenroom.session import PostgresStore
from tests.postgres_server import PostgresServer

CALLS = 400
CHUNKS = 20_000
SPAWNS = 300
AT_ONCE = 8
IDLE = 1_000
SECONDS = 10.0
MAX_CALL = 2.0  # times a bare POST
MAX_CHUNK = 0.1  # ms
MIN_SPAWN = 0.8  # of the rate of the store
MAX_TRANSACTIONS = 3.0  # a second, of all idle agents
MAX_CONNECTIONS = 16


async def talk(agent: AgentInternals) -> None:
    """Answer with as many chunks as it is told."""
    async for message in agent.inputs():
        async with agent.turn(message):
            for number in range(int(message.text)):
                await agent.send(TextDelta(f"word {number} "))
            agent.session.add_message(Message.assistant("done"))


async def run_host(dsn: str) -> None:
    """Run the host, in a process of its own."""
    async with Cluster(dsn) as cluster, trio.open_nursery() as nursery:
        kind = AgentType("talking", lambda spec: (talk, ()))
        print(await nursery.start(Host(cluster, [kind], max_agents=10_000).run), flush=True)


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await work()
    return time.perf_counter() - begin


async def calls(cluster: Cluster, agent: RemoteAgent) -> bool:
    links = cluster.links
    placed, client = await links.find(agent.session_id), await links.client()
    assert placed is not None
    assert placed.target is not None
    path = mailbox_path(agent.session_id)
    post = partial(client.ask, placed.target, "POST", path, dict[str, bool], {})
    costs: list[list[float]] = [[], [], []]
    for _ in range(CALLS):
        for work, cost in zip((agent.interrupt, agent.pending, post), costs, strict=True):
            cost.append(await timed(work))
    interrupt, pending, bare = map(statistics.median, costs)
    print(
        f"a call of a handle {1e3 * interrupt:8.3f} ms  {interrupt / bare:5.2f} × a POST "
        f"({1e3 * bare:.3f} ms; bound {MAX_CALL}); pending {pending / bare:.2f} ×"
    )
    return interrupt / bare <= MAX_CALL


async def chunks(agent: RemoteAgent) -> bool:
    async with agent.subscribe("none") as reader:
        await agent.send_input(f"{CHUNKS}")
        count, begin = 0, 0.0
        async for chunk in reader:
            begin = begin or time.perf_counter()
            count += isinstance(chunk, TextDelta)
            if isinstance(chunk, Done):
                break
    each = 1e3 * (time.perf_counter() - begin) / count
    print(f"a chunk            {each:8.4f} ms  of {count:,} (bound {MAX_CHUNK})")
    return each <= MAX_CHUNK


async def rate(works: list[Callable[[], Awaitable[object]]]) -> float:
    """Return how many of these are done in a second, a few at the same time."""
    waiting = list(works)

    async def work_off() -> None:
        while waiting:
            await waiting.pop()()

    async def all_of_them() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(AT_ONCE):
                nursery.start_soon(work_off)

    return len(works) / await timed(all_of_them)


async def take_and_save(store: PostgresStore) -> None:
    session = AgentSession.new("talking", store=store)
    await session.open()
    session.add_message(Message.user("What does this function do?"))
    await session.save()
    await session.close()


async def spawns(cluster: Cluster, dsn: str) -> bool:
    async with PostgresStore(dsn) as store:
        best = await rate([partial(take_and_save, store)] * SPAWNS)
    ours = await rate([partial(cluster.spawn, AgentSpec("talking"))] * SPAWNS)
    best = max(best, 1e-9)
    print(
        f"agents started     {ours:8.0f} /s  {ours / best:5.2f} of the rate of acquire and save "
        f"({best:.0f} /s; bound {MIN_SPAWN})"
    )
    return ours / best >= MIN_SPAWN


def count(connection: psycopg.Connection[tuple[int, ...]]) -> tuple[int, int]:
    """Count transactions so far, and connections of others."""
    connection.execute("SELECT pg_stat_force_next_flush()")
    query = """SELECT xact_commit + xact_rollback FROM pg_stat_database
        WHERE datname = current_database()"""
    ((transactions,),) = connection.execute(query).fetchall()
    query = """SELECT count(*) FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"""
    ((connections,),) = connection.execute(query).fetchall()
    return transactions, connections


async def idle(cluster: Cluster, dsn: str) -> bool:
    started = SPAWNS + 1
    await rate([partial(cluster.spawn, AgentSpec("talking"))] * (IDLE - started))
    (host,) = await cluster.hosts()
    await cluster.aclose()
    with psycopg.connect(dsn, autocommit=True) as connection:
        await trio.sleep(15.0)  # until each of them has started, and the counts are written
        before, _ = count(connection)
        await trio.sleep(SECONDS)
        after, connections = count(connection)
    each = (after - before - 3) / SECONDS  # those of the count are no agent's
    print(
        f"{host.agents:,} idle agents  {each:6.1f} transactions a second (bound "
        f"{MAX_TRANSACTIONS}), {connections} connections (bound {MAX_CONNECTIONS})"
    )
    return each <= MAX_TRANSACTIONS and connections <= MAX_CONNECTIONS


async def measure(dsn: str) -> bool:
    async with Cluster(dsn) as cluster:
        agent = await cluster.spawn(AgentSpec("talking"))
        await agent.ask("1")
        return all(
            [
                await calls(cluster, agent),
                await chunks(agent),
                await spawns(cluster, dsn),
                await idle(cluster, dsn),
            ]
        )


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        server = PostgresServer(Path(folder) / "template")
        command = [sys.executable, "-m", "benchmarks.hosts", server.dsn]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as host:
            try:
                assert host.stdout is not None
                host.stdout.readline()
                is_within = trio.run(measure, server.dsn)
            finally:
                host.kill()
                server.stop()
    return 0 if is_within else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        trio.run(run_host, sys.argv[1])
    else:
        sys.exit(main())
