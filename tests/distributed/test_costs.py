"""What agents that have nothing to do cost the database: one look of their host, and no more."""

import trio

from greenroom.distributed import AgentSpec, Host, database, places
from tests.distributed.kinds import ECHO

AGENTS = 20


async def test_idle_agents_cost_one_look_of_their_host(cluster, nursery, monkeypatch):
    query = "SELECT clock_timestamp()"
    ((start,),) = await cluster.database.run(lambda each: each.execute(query).fetchall())
    await nursery.start(Host(cluster, [ECHO]).run)
    agents = [await cluster.spawn(AgentSpec("echo")) for _ in range(AGENTS)]
    with trio.fail_after(60):
        assert {(await agent.ask("hello")).text for agent in agents} == {"hello"}
        runs, looks, enough = [], [], trio.Event()
        run, look = database.Database.run, places.look
        loop = trio.lowlevel.current_trio_token()

        async def count_run(own, work):
            runs.append(work)
            return await run(own, work)

        def count_look(*args, **options):
            looks.append(1)
            if len(looks) == 10:
                loop.run_sync_soon(enough.set)
            return look(*args, **options)

        monkeypatch.setattr(database.Database, "run", count_run)
        monkeypatch.setattr(places, "look", count_look)
        await enough.wait()
        assert len(runs) <= len(looks) + 1
        query = "SELECT count(*) FROM pg_stat_activity WHERE backend_start >= %s"
        ((connections,),) = await cluster.database.run(
            lambda each: each.execute(query, [start]).fetchall()
        )
    assert connections <= 16  # the pools of the cluster and of its store, and the presence
