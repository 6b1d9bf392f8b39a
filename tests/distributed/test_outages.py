"""A database whose connections are cut or stuck: hosts come back, and take over what is to be."""

import threading

import pytest
import trio

from greenroom.core import Message, SessionStorageError
from greenroom.distributed import AgentSpec, AgentType, Host, host, places
from greenroom.session._internal import transaction
from tests.distributed.kinds import (
    ECHO,
    GOES_ON,
    asked,
    count_as_gone,
    spawn_and_freeze,
    wait_for,
    wait_host,
)


async def end_look(host):
    """Wait until a host begins to look anew."""
    event = host._poked

    async def has_turned():
        return host._poked is not event

    event.set()
    await wait_for(has_turned)


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
        frozen.update({first, second})  # none is passed over since it looks just then
        agents = [await cluster.spawn(AgentSpec("echo")) for _ in range(4)]
        frozen.clear()
        assert {(await agent.ask("one")).text for agent in agents} == {"one"}
        before = [(await agent.status()).host for agent in agents]
        assert set(before) == {first, second}
        monkeypatch.setattr(host, "LOOK", 60.0)  # from now on each looks when it is told to
        frozen.update({first, second})
        for each in hosts:  # one that looks while connections are cut takes others for gone
            await end_look(each)
        # Who looks while some are cut, and others not yet, takes those for gone.
        cut = """SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
            WHERE backend_start >= %s AND pid <> pg_backend_pid()"""
        await cluster.database.run(lambda each: each.execute(cut, [start]).fetchall())
        frozen.discard(first)
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


async def test_a_host_that_finds_another_gone_wakes_those_that_shall_take_a_part(
    cluster, nursery, frozen, monkeypatch
):
    hosts = [Host(cluster, [ECHO]) for _ in range(3)]
    numbers = [await nursery.start(each.run) for each in hosts]
    with trio.fail_after(60):
        for each in hosts:
            for _ in range(4):  # then it may count others as gone
                await end_look(each)
        frozen.update(numbers)
        for _ in range(12):
            await cluster.spawn(AgentSpec("echo"))
        assert [each.agents for each in await cluster.hosts()] == [4, 4, 4]
        monkeypatch.setattr(host, "LOOK", 60.0)
        for each in hosts:
            await end_look(each)
        query = "UPDATE hosts SET seen = seen - interval '1 hour' WHERE id = %s"
        await cluster.database.run(lambda each: each.execute(query, [numbers[2]]))
        frozen.difference_update(numbers[:2])
        hosts[0]._poked.set()

        async def are_taken():
            return [each.agents for each in await cluster.hosts()] == [6, 6]

        await wait_for(are_taken)


async def test_a_host_that_is_stopped_in_a_transaction_holds_nobody_up_for_long(
    cluster, make_cluster, nursery, frozen, work
):
    """Its locks go with its transaction once that was silent for as long as patience lasts."""
    is_locked, go_on = threading.Event(), threading.Event()

    def stop_in_transaction(connection):
        with transaction(connection):
            connection.execute("UPDATE hosts SET seen = seen")
            connection.execute("UPDATE agents SET epoch = epoch")
            is_locked.set()
            go_on.wait()

    async def stop(task_status):
        async with make_cluster(patience=0.0) as stopped:
            task_status.started()
            with pytest.raises(SessionStorageError):
                await stopped.database.run(stop_in_transaction)

    agent, first, second = await spawn_and_freeze(
        cluster, work, frozen, nursery, is_gone=False, **GOES_ON
    )
    work.held["a"].set()
    with trio.fail_after(60):
        await agent.answer("i1")
        await count_as_gone(cluster, first)
        await wait_host(agent, second)
        async with trio.open_nursery() as stopping:
            await stopping.start(stop)
            await trio.to_thread.run_sync(is_locked.wait)
            assert (await agent.ask("more")).text == "done by b"
            go_on.set()


async def test_a_host_whose_database_hangs_interrupts_its_turns_and_comes_back(
    make_cluster, nursery, monkeypatch
):
    """Whatever is on the way gives no error, so nothing is found out but by the time it takes."""
    look, hangs, go_on = places.look, threading.Event(), threading.Event()
    begun, stopped = trio.Event(), trio.Event()

    def look_or_hang(*args, **options):
        if hangs.is_set():
            go_on.wait()
        return look(*args, **options)

    async def work(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if message.text == "go":
                    begun.set()
                    try:
                        await trio.sleep_forever()
                    finally:
                        stopped.set()
                agent.session.add_message(Message.assistant(message.text))

    monkeypatch.setattr(places, "look", look_or_hang)
    with trio.fail_after(60):
        async with make_cluster(patience=1.0) as cluster:
            kind = AgentType("worker", lambda spec: (work, ()))
            number = await nursery.start(Host(cluster, [kind]).run)
            agent = await cluster.spawn(AgentSpec("worker"))
            await agent.send_input("go", id="i1")
            await begun.wait()
            hangs.set()
            await stopped.wait()  # while the database still hangs
            hangs.clear()
            go_on.set()
            assert (await agent.answer("i1")).status == "interrupted"
            assert (await agent.ask("more")).text == "more"
            assert (await agent.status()).host > number
            nursery.cancel_scope.cancel()


async def test_a_host_whose_database_hangs_from_the_beginning_says_so(make_cluster, monkeypatch):
    go_on = threading.Event()

    def hang(*args, **options):
        go_on.wait()

    monkeypatch.setattr(places, "look", hang)
    async with make_cluster(patience=0.2) as cluster, trio.open_nursery() as nursery:
        nursery.start_soon(set_later, go_on)
        with trio.fail_after(60), pytest.raises(SessionStorageError, match="did not answer"):
            await Host(cluster, [ECHO]).run()


async def set_later(event):
    """End what hangs once the host has given up: only then does its thread end."""
    await trio.sleep(1)
    event.set()


async def test_a_database_that_is_killed_under_load_loses_nothing(
    cluster, postgres_server, nursery
):
    for _ in range(2):
        await nursery.start(Host(cluster, [ECHO]).run)
    agents = [await cluster.spawn(AgentSpec("echo")) for _ in range(4)]
    receipts, enough = [], trio.Event()

    async def send(agent):
        for number in range(12):
            receipt = await agent.send_input(f"{number}", id=f"{agent.session_id}-{number}")
            receipts.append((agent, number, receipt))
            if len(receipts) == 8:
                enough.set()

    with trio.fail_after(120):
        async with trio.open_nursery() as sending:
            for agent in agents:
                sending.start_soon(send, agent)
            await enough.wait()
            postgres_server.kill()
            postgres_server.start()
        for agent, number, receipt in receipts:
            assert (await agent.answer(receipt)).text == f"{number}"
    assert len(receipts) == 48
    for agent in agents:
        assert await asked(agent) == [f"{number}" for number in range(12)]
