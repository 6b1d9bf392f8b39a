"""Hosts that Ray starts, on one node: they are there, start again when killed, and are drained.

`GREENROOM_RAY=1` runs it, where Ray is installed: it takes a minute or two.
"""

import importlib.util
import os
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
import trio

from greenroom.core import ConfigurationError
from greenroom.distributed import AgentSpec, Cluster, RayHosts, ray_hosts
from tests.distributed.kinds import asked, wait_for

ROOT = Path(__file__).parents[2]
HAS_RAY = importlib.util.find_spec("ray") is not None


needs_ray = pytest.mark.skipif(
    not (HAS_RAY and os.environ.get("GREENROOM_RAY")),
    reason="GREENROOM_RAY is not set, or Ray is not installed",
)


@needs_ray
async def test_hosts_on_ray_are_started_again_and_drained(postgres_server, schema, monkeypatch):
    import ray

    monkeypatch.setenv("GREENROOM_DSN", postgres_server.dsn)
    async with Cluster(schema=schema, patience=3.0) as cluster:
        try:
            with trio.fail_after(150):
                types = "tests.distributed.kinds:TYPES"
                async with RayHosts(cluster, types, hosts=2, resources={"CPU": 0.5}) as on_ray:

                    async def are_there():
                        found = await on_ray.hosts()
                        return found if len(found) == 2 else None

                    first = await wait_for(are_there)
                    assert [each.name for each in first] == ["ray-1", "ray-2"] or len(first) == 2
                    agents = [await cluster.spawn(AgentSpec("echo")) for _ in range(4)]
                    assert {(await each.ask("one")).text for each in agents} == {"one"}
                    os.kill(first[0].pid, signal.SIGKILL)

                    async def is_another():
                        ids = {each.id for each in await on_ray.hosts()}
                        return len(ids) == 2 and first[0].id not in ids

                    await wait_for(is_another)
                    assert {(await each.ask("two")).text for each in agents} == {"two"}
                assert await cluster.hosts() == ()
        finally:
            await trio.to_thread.run_sync(ray.shutdown)


@needs_ray
async def test_nothing_is_lost_when_the_head_of_ray_is_killed(postgres_server, schema, monkeypatch):
    """The service stops with it, and is back once the program is started again."""
    monkeypatch.setenv("GREENROOM_DSN", postgres_server.dsn)
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
    with trio.fail_after(400):
        async with Cluster(schema=schema, patience=3.0) as cluster:

            async def are_there():
                return len(await cluster.hosts()) == 2

            async def are_gone():
                return not await cluster.hosts()

            async with start_program(schema) as program:
                await wait_for(are_there, 150)
                agents = [await cluster.spawn(AgentSpec("echo")) for _ in range(4)]
                assert {(await each.ask("one")).text for each in agents} == {"one"}
                end_below(program.pid, "gcs_server")
                await wait_for(are_gone, 150)
            receipts = [await each.send_input("two") for each in agents]
            async with start_program(schema):
                for each, receipt in zip(agents, receipts, strict=True):
                    assert (await each.answer(receipt)).text == "two"
                    assert await asked(each) == ["one", "two"]


@asynccontextmanager
async def start_program(schema):
    """Run the program for the block, with the Ray that it starts."""
    command = [sys.executable, "-m", "tests.distributed.ray_program", schema]
    nothing = subprocess.DEVNULL
    process = await trio.lowlevel.open_process(command, cwd=ROOT, stdout=nothing, stderr=nothing)
    try:
        yield process
    finally:
        end_below(process.pid)
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def end_below(pid, name=""):
    """Kill the processes below one, or those with this name."""
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, path.read_text().split()):
            with suppress(OSError):
                end_below(child, name)
                if name in Path(f"/proc/{child}/cmdline").read_text():
                    os.kill(child, signal.SIGKILL)


async def test_without_ray_it_says_how_to_get_it(cluster, monkeypatch):
    def find_nothing(name):
        raise ImportError(name)

    monkeypatch.setattr(ray_hosts, "import_module", find_nothing)
    with pytest.raises(ConfigurationError, match="not installed"):
        RayHosts(cluster, "shop:types", hosts=1)
    for options in ({"types": (), "hosts": 1}, {"types": "shop:types", "hosts": 0}):
        with pytest.raises(ValueError, match="at least one"):
            RayHosts(cluster, **options)
