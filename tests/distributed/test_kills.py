"""Hosts that are killed, or stopped and continued, at any moment: nothing lost, nothing twice.

`GREENROOM_HOST_KILLS` is how many hosts are ended, and `GREENROOM_HOST_KILLS_SEED` says which.
"""

import os
import random
import signal
import statistics
import subprocess
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
import trio

from greenroom.distributed import AgentSpec, Cluster, host
from tests.distributed.kinds import wait_for
from tests.warm_python import start_warm

ROUNDS = int(os.environ.get("GREENROOM_HOST_KILLS", "20"))
SEED = int(os.environ.get("GREENROOM_HOST_KILLS_SEED", "1"))
ROOT = Path(__file__).parents[2]
# What is measured in the long form holds for hosts as they are.
PATIENCE, LOOK = (4.0, host.LOOK) if ROUNDS > 20 else (1.5, 0.2)
AGENTS = 6
FEWEST = 2  # hosts, before another one is started


class Hosts:
    """Hosts in processes of their own."""

    def __init__(self, dsn, schema, path):
        self._command = ["-m", "tests.distributed.host_program", path, schema, PATIENCE, LOOK]
        self.environment = {**os.environ, "GREENROOM_DSN": dsn}
        self.processes = {}

    async def start(self):
        """Start one; on a busy machine the database may be too slow for one, which then ends."""
        for _ in range(5):
            process = start_warm(self._command, ROOT, self.environment, stderr=subprocess.DEVNULL)
            await trio.lowlevel.wait_readable(process.stdout)
            if os.read(process.stdout.fileno(), 100):
                self.processes[process.pid] = process
                return
            process.wait()
            process.stdout.close()
        raise AssertionError("no host could be started")

    def close(self):
        for process in self.processes.values():
            process.kill()
            process.wait()
            process.stdout.close()


async def send_until(over, agents, order, receipts):
    """Send inputs to agents in turn, each of them as soon as the one before is stored."""
    while not over.is_set():
        agent = order.choice(agents)
        receipt = await agent.send_input(f"{len(receipts)}", id=f"i{len(receipts)}")
        receipts.append((agent, receipt))
        await trio.sleep(0.03)  # a load that two slow cores can bear


async def end_one(hosts, cluster, agents, order, times, *, is_stop):
    """End or stop a host that has agents, and wait until others have them all."""
    info = order.choice([each for each in await cluster.hosts() if each.agents])
    process, number = hosts.processes[info.pid], info.id
    process.send_signal(signal.SIGSTOP if is_stop else signal.SIGKILL)
    start = trio.current_time()

    async def have_moved():
        found = [(await agent.status()).host for agent in agents]
        return number not in found and None not in found

    await wait_for(have_moved)
    times["stopped" if is_stop else "killed"].append(trio.current_time() - start)
    if is_stop:
        process.send_signal(signal.SIGCONT)  # it comes back under another number
    else:
        del hosts.processes[info.pid]
        process.wait()
        process.stdout.close()
    if len(hosts.processes) < FEWEST:
        await hosts.start()


@pytest.fixture
def hosts(postgres_server, schema, tmp_path):
    path = tmp_path / "effects"
    path.touch()
    with closing(Hosts(postgres_server.dsn, schema, path)) as hosts:
        yield hosts


async def test_nothing_is_lost_or_done_twice_when_hosts_end(
    hosts, postgres_server, schema, tmp_path
):
    order, receipts, over = random.Random(SEED), [], trio.Event()
    times = {"killed": [], "stopped": []}
    hosts.environment["MOST_ENDS"] = "1000"  # that three of them end by chance is no input's fault
    async with Cluster(postgres_server.dsn, schema=schema, patience=PATIENCE) as cluster:
        async with trio.open_nursery() as starting:
            for _ in range(3):
                starting.start_soon(hosts.start)
        spec = AgentSpec("worker", workspace="shared", on_cut_off="continue")
        agents = [await cluster.spawn(spec) for _ in range(AGENTS)]
        async with trio.open_nursery() as sending:
            sending.start_soon(send_until, over, agents, order, receipts)
            for number in range(ROUNDS):
                await end_one(hosts, cluster, agents, order, times, is_stop=number % 3 == 1)
            over.set()
        with trio.fail_after(60 + 3 * ROUNDS):  # thousands may wait by then
            results = [await agent.answer(receipt) for agent, receipt in receipts]
        effects = Counter((tmp_path / "effects").read_text().split())
        assert max(effects.values()) == 1
        assert {result.status for result in results} == {"completed"}
        for agent in agents:
            sent = [receipt.input_id for owner, receipt in receipts if owner is agent]
            joined = [each.id for each in await agent.history() if each.id in set(sent)]
            assert joined == sent
        assert await cluster.set_aside() == ()
    for kind, taken in times.items():
        if taken:
            late = sorted(taken)[(99 * len(taken) - 1) // 100]
            print(
                f"{kind}: {len(taken)}, median {statistics.median(taken):.2f} s, p99 {late:.2f} s"
            )
    print(f"{len(receipts)} inputs, {len(effects)} effects")


async def test_turns_that_the_end_of_a_host_cuts_off_each_wait_for_a_person(
    hosts, postgres_server, schema
):
    async with Cluster(postgres_server.dsn, schema=schema, patience=PATIENCE) as cluster:
        async with trio.open_nursery() as starting:
            for _ in range(2):
                starting.start_soon(hosts.start)
        spec = AgentSpec("worker", workspace="shared", on_cut_off="ask")
        agents = [await cluster.spawn(spec) for _ in range(4)]
        for agent in agents:
            await agent.send_input("wait", id="i1")
            await wait_for(agent.history)
        ended, alive = await cluster.hosts()
        places = {agent.session_id: (await agent.status()).host for agent in agents}
        hosts.processes[ended.pid].kill()
        hit = [each for each in agents if places[each.session_id] == ended.id]
        assert 0 < len(hit) < len(agents)
        with trio.fail_after(60):
            for number, agent in enumerate(hit):
                (question,) = await wait_for(agent.pending)
                decision = "allow" if number % 2 == 0 else "deny"
                assert await agent.respond_permission(question.request_id, decision)
                result = await agent.answer("i1")
                assert result.status == ("completed" if decision == "allow" else "failed")
        for agent in agents:
            if agent not in hit:
                assert ((await agent.status()).host, await agent.pending()) == (alive.id, ())


async def test_an_input_that_ends_its_host_is_set_aside_after_three_hosts(
    hosts, postgres_server, schema
):
    async with Cluster(postgres_server.dsn, schema=schema, patience=PATIENCE) as cluster:
        async with trio.open_nursery() as starting:
            for _ in range(4):
                starting.start_soon(hosts.start)
        spec = AgentSpec("worker", workspace="shared", on_cut_off="continue")
        agent = await cluster.spawn(spec)
        await agent.send_input("poison", id="bad")
        with trio.fail_after(60):
            result = await agent.answer("bad")
            assert (result.status, "set aside" in result.error) == ("failed", True)
            assert (await agent.ask("and now?")).text == "done"
        assert await cluster.set_aside() == ((agent.session_id, "bad"),)
        ended = [each for each in hosts.processes.values() if each.poll() is not None]
        assert len(ended) == 3
