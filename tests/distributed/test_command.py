"""`greenroom host` and `greenroom hosts`, as a user runs them."""

import json
import os
import signal
import subprocess
import sys
from functools import partial

import pytest
import trio

from greenroom.cli.cluster_command import list_hosts, print_trees
from greenroom.cli.command_options import HostOptions, TreeOptions
from greenroom.cli.dispatch import main
from greenroom.core import ConfigurationError
from greenroom.distributed import AgentSpec, AgentType, Cluster, Host
from tests.cli.test_serve_command import home, serving

__all__ = ["home"]  # a fixture

TYPES = """
from greenroom.core import Message
from greenroom.distributed import AgentType

async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            agent.session.add_message(Message.assistant(message.text))

def types():
    return [AgentType("echo", lambda spec: (echo, ()))]

NOTHING = 3
"""


@pytest.fixture
def own_types(tmp_path, monkeypatch):
    (tmp_path / "own_types.py").write_text(TYPES)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("own_types", None)


async def test_a_host_of_the_command_runs_agents_until_a_signal_drains_it(
    postgres_server, own_types, monkeypatch, capfd
):
    monkeypatch.setenv("GREENROOM_DSN", postgres_server.dsn)
    command = [sys.executable, "-m", "greenroom", "host", "--types", "own_types:types", "--json"]
    command += ["--name", "box", "--capability", "gpu", "--max-agents", "5"]
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery, Cluster() as cluster:
            process = await nursery.start(
                partial(trio.run_process, command, stdout=subprocess.PIPE, check=False)
            )
            number = json.loads(await process.stdout.receive_some())["host"]
            agent = await cluster.spawn(AgentSpec("echo", capabilities=("gpu",)))
            assert (await agent.ask("hello")).text == "hello"
            assert await list_hosts(HostOptions(json=True)) == 0
            shown = json.loads(capfd.readouterr().out)
            (listed,) = [each for each in shown["hosts"] if each["id"] == number]
            assert (listed["name"], listed["agents"], listed["max_agents"]) == ("box", 1, 5)
            await cluster.spawn(AgentSpec("echo"), session_id="low", parent=agent.session_id)
            assert await print_trees(TreeOptions(cluster=True)) == 0
            tree = capfd.readouterr().out
            assert f"echo {agent.session_id} on host {number}, 0 queued\n  echo low on" in tree
            assert await print_trees(TreeOptions(cluster=True, json=True)) == 0
            listed = json.loads(capfd.readouterr().out)["agents"]
            assert {"low": agent.session_id}.items() <= {
                each["id"]: each["parent"] for each in listed
            }.items()
            os.kill(process.pid, signal.SIGTERM)
            assert await process.wait() == 0
            assert number not in [each.id for each in await cluster.hosts()]
            assert (await agent.status()).host is None
            assert (await agent.status()).state == "live"


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("own_types:NOTHING", "no types of agents"),
        ("own_types:absent", "can't be imported"),
        ("own_types", "MODULE:NAME"),
    ],
)
def test_what_is_no_type_is_refused(place, told, own_types, monkeypatch, capsys):
    monkeypatch.setenv("GREENROOM_DSN", "host=/nowhere dbname=agents")
    assert main(["host", "--types", place]) == 2
    assert told in capsys.readouterr().err


async def test_without_a_database_the_command_says_how_to_name_one(monkeypatch):
    for name in ("GREENROOM_DSN", "PGHOST", "PGSERVICE", "PGDATABASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="no PostgreSQL server is named"):
        await list_hosts(HostOptions())


async def test_a_server_shows_the_hosts_of_its_cluster(postgres_server, home, monkeypatch, nursery):
    monkeypatch.setenv("GREENROOM_DSN", postgres_server.dsn)
    words = ["bots:echo", "--cluster", "--grace", "0.1"]
    with trio.fail_after(60):
        async with Cluster() as cluster, serving(home, *words) as (_, client):
            kind = AgentType("clerk", lambda spec: (None, ()))
            number = await nursery.start(Host(cluster, [kind], name="box").run)
            assert (await client.get("/api/agents")).json()["hosts"] is True
            listed = (await client.get("/api/hosts")).json()
            assert [each["name"] for each in listed if each["id"] == number] == ["box"]
            nursery.cancel_scope.cancel()
