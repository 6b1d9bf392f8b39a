"""A database that cuts all connections off: hosts come back, and nobody is counted as gone."""

import trio

from greenroom.distributed import AgentSpec, Host, host
from tests.distributed.kinds import ECHO, wait_for


async def test_hosts_keep_their_agents_when_all_connections_are_cut(
    cluster, nursery, frozen, monkeypatch
):
    query = "SELECT clock_timestamp()"
    ((start,),) = await cluster.database.run(lambda each: each.execute(query).fetchall())
    hosts = [Host(cluster, [ECHO]) for _ in range(2)]
    first, second = [await nursery.start(each.run) for each in hosts]

    async def find_hosts():
        return [each.id for each in await cluster.hosts()]

    async def is_back():
        return first in await find_hosts()

    async def are_back():
        return await find_hosts() == [first, second]

    with trio.fail_after(60):
        agents = [await cluster.spawn(AgentSpec("echo")) for _ in range(4)]
        assert {(await agent.ask("one")).text for agent in agents} == {"one"}
        before = [(await agent.status()).host for agent in agents]
        assert set(before) == {first, second}
        monkeypatch.setattr(host, "LOOK", 60.0)  # from now on each looks when it is told to
        frozen.add(second)
        cut = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE backend_start >= %s AND pid <> pg_backend_pid()"""
        await cluster.database.run(lambda each: each.execute(cut, [start]).fetchall())
        hosts[0]._poked.set()  # its first look since then, in which nobody is counted as gone
        await wait_for(is_back)
        frozen.clear()
        hosts[1]._poked.set()
        await wait_for(are_back)
        monkeypatch.setattr(host, "LOOK", 0.02)
        for each in hosts:
            each._poked.set()
        assert {(await agent.ask("two")).text for agent in agents} == {"two"}
    assert [(await agent.status()).host for agent in agents] == before
