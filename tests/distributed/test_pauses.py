"""Agents that a host can't run: it tries them again ever more seldom, and says so once."""

import trio

from greenroom.core._internal import InvalidJSONError
from greenroom.distributed import AgentSpec, Host, directory
from greenroom.distributed.pauses import LONGEST, Pauses
from tests.distributed.kinds import ECHO, wait_for, wait_host

NEWER = b'{"type": "echo", "unattended": "as a newer version says"}'


async def test_pauses_grow_to_a_minute_and_begin_again_after_the_agent_has_run(autojump_clock):
    pauses, told = Pauses(1.0), []
    for pause in (1, 2, 4, 8, 16, 32, LONGEST, LONGEST, LONGEST):
        told.append(pauses.note("s1", "locked"))
        await trio.sleep(pause - 0.1)
        assert pauses.waiting() == ["s1"]
        await trio.sleep(0.2)
        assert pauses.waiting() == []
    assert told == [True, *[False] * 8]
    assert pauses.note("s1", "damaged")  # another problem is told, too
    await trio.sleep(2 * LONGEST + 1)
    assert pauses.note("s1", "damaged")
    await trio.sleep(1.5)
    assert not pauses.waiting()


async def test_of_many_agents_the_last_are_left_alone(autojump_clock):
    pauses = Pauses(60.0)
    for number in range(1_100):
        assert pauses.note(f"s{number}", "locked")
    assert pauses.waiting() == [f"s{number}" for number in range(100, 1_100)]


async def test_a_spec_that_no_host_can_read_is_said_once_and_tried_until_one_can(
    cluster, nursery, caplog
):
    await nursery.start(Host(cluster, [ECHO]).run)
    agent = await cluster.spawn(AgentSpec("echo"))
    with trio.fail_after(60):
        assert (await agent.ask("one")).text == "one"
        ((spec,),) = await change(cluster, "SELECT spec FROM agents", fetch=True)
        query = "UPDATE agents SET spec = %s, host = NULL, epoch = epoch + 1"
        await change(cluster, query, NEWER)

        async def has_failed():
            return (await agent.status()).epoch >= 6

        await wait_for(has_failed)
        assert caplog.text.count("could not go on") == 1
        assert [each.session_id for each in await cluster.agents()] == [agent.session_id]
        assert (await cluster.get(agent.session_id)).agent_type == "echo"
        await change(cluster, "UPDATE agents SET spec = %s", spec)
        assert (await agent.ask("two")).text == "two"


async def test_an_agent_that_an_older_host_can_not_read_comes_to_one_that_can(
    cluster, nursery, monkeypatch
):
    older = await nursery.start(Host(cluster, [ECHO]).run)
    newer = await nursery.start(Host(cluster, [ECHO], max_agents=1).run)
    read_spec = directory.Placed.read_spec

    def read_unless_older(placed):
        if placed.host == older:
            raise InvalidJSONError("of a newer version")
        return read_spec(placed)

    monkeypatch.setattr(directory.Placed, "read_spec", read_unless_older)
    with trio.fail_after(60):
        agent = await cluster.spawn(AgentSpec("echo"))
        assert (await agent.ask("one")).text == "one"
        await wait_host(agent, newer)


async def change(cluster, query, *values, fetch=False):
    def work(connection):
        found = connection.execute(query, values, binary=True)
        return found.fetchall() if fetch else None

    return await cluster.database.run(work)
