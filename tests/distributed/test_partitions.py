"""Hosts in network namespaces of their own, cut off by firewall rules: fenced, and nothing lost.

`GREENROOM_HOST_PARTITION` is how many seconds each cut takes, such as 30. It needs root, and the
programs `ip`, `nft` and `openssl`.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
import trio

from greenroom.distributed import AgentSpec, Cluster
from tests import postgres_server as servers
from tests.distributed.kinds import wait_for

SECONDS = float(os.environ.get("GREENROOM_HOST_PARTITION", "0"))
ROOT = Path(__file__).parents[2]
SECRET = "a secret of the tests' own"
PATIENCE = 2.0
LOOK = 0.2
AGENTS = 6
NET = f"10.{40 + os.getpid() % 200}"
MISSING = [each for each in ("ip", "nft", "openssl") if not shutil.which(each)]

pytestmark = [
    pytest.mark.skipif(not SECONDS, reason="GREENROOM_HOST_PARTITION says for how long to cut"),
    pytest.mark.skipif(os.geteuid() != 0 or bool(MISSING), reason=f"root, and {MISSING}"),
]


def run(command, *more):
    subprocess.run([*command.split(), *more], check=True, capture_output=True)


class Place:
    """A network of one machine, which a wire joins to ours."""

    def __init__(self, number, stack):
        self.name, self.address = f"gr{os.getpid()}-{number}", f"{NET}.{number}.2"
        wire = f"gr{number}-{os.getpid()}"[:15]
        run(f"ip netns add {self.name}")
        stack.callback(run, f"ip netns del {self.name}")
        run(f"ip link add {wire} type veth peer name eth0 netns {self.name}")
        run(f"ip addr add {NET}.{number}.1/24 dev {wire}")
        run(f"ip link set {wire} up")
        for command in (
            f"addr add {self.address}/24 dev eth0",
            "link set eth0 up",
            "link set lo up",
            f"route add default via {NET}.{number}.1",
        ):
            run(f"ip -n {self.name} {command}")
        self.gate = f"{NET}.{number}.1"

    def cut(self):
        """Let nothing in or out, and say nothing."""
        rules = "".join(
            f"add chain inet cut {each} {{ type filter hook {each} priority 0; policy drop; }}\n"
            for each in ("input", "output")
        )
        command = ["ip", "netns", "exec", self.name, "nft", "-f", "-"]
        text = f"add table inet cut\n{rules}".encode()
        subprocess.run(command, input=text, check=True, capture_output=True)

    def heal(self):
        run(f"ip netns exec {self.name} nft delete table inet cut")


class Server(servers.PostgresServer):
    """A server that others reach over the network, by TLS."""

    def start(self):
        data = self.folder / "data"
        key, certificate = data / "tls.key", data / "tls.crt"
        run(
            f"openssl req -x509 -nodes -newkey rsa:2048 -keyout {key} -out {certificate} -days 2",
            "-subj",
            "/CN=tests",
        )
        key.chmod(0o600)
        for each in (key, certificate) if self.account else ():
            shutil.chown(each, *self.account)
        with open(data / "pg_hba.conf", "a") as rules:
            rules.write(f"hostssl all all {NET}.0.0/16 trust\n")
        self._command += ["-c", "ssl=on", "-c", f"ssl_cert_file={certificate}"]
        self._command += ["-c", f"ssl_key_file={key}", "-c", "listen_addresses=*"]
        self._command += ["-c", f"port={20_000 + os.getpid() % 10_000}"]
        super().start()

    @property
    def port(self):
        return 20_000 + os.getpid() % 10_000


@pytest.fixture
def world(tmp_path_factory):
    template = tmp_path_factory.getbasetemp() / "partition-template"
    with ExitStack() as stack:
        server = Server(template)
        stack.callback(server.stop)
        yield server, [Place(number, stack) for number in (1, 2)]


async def start_host(nursery, server, place, path, schema):
    """Start a host on another machine, and return its number."""
    dsn = f"host={place.gate} port={server.port} user=tests dbname=postgres sslmode=require"
    environment = {**os.environ, "GREENROOM_DSN": dsn, "GREENROOM_SECRET": SECRET}
    arguments = [path, schema, PATIENCE, LOOK, f"{place.address}:0"]
    command = ["ip", "netns", "exec", place.name, sys.executable, "-m"]
    command += ["tests.distributed.host_program", *map(str, arguments)]
    process = await nursery.start(
        partial(
            trio.run_process, command, cwd=ROOT, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    )  # fmt: skip
    return int(await process.stdout.receive_some())


async def test_a_host_that_is_cut_off_is_fenced_and_nothing_is_lost(world, tmp_path, schema):
    server, places = world
    path = tmp_path / "effects"
    path.touch()
    dsn = f"host={server.folder} port={server.port} user=tests dbname=postgres"
    receipts, moved = [], []

    async def send_for(seconds, agents):
        with trio.move_on_after(seconds):
            while True:
                for agent in agents:
                    with trio.CancelScope(shield=True):
                        number = f"i{len(receipts)}"
                        receipts.append((agent, await agent.send_input(number, id=number)))
                await trio.sleep(0.05)

    async with (
        Cluster(dsn, schema=schema, patience=PATIENCE, secret=SECRET) as cluster,
        trio.open_nursery() as nursery,
    ):
        first, second = [await start_host(nursery, server, place, path, schema) for place in places]
        spec = AgentSpec("worker", workspace="shared", on_cut_off="continue")
        agents = [await cluster.spawn(spec) for _ in range(AGENTS)]
        assert {(await each.status()).host for each in agents} == {first, second}
        for place, other in zip(places, reversed(places), strict=True):
            async with trio.open_nursery() as cutting:
                cutting.start_soon(send_for, SECONDS, agents)
                await trio.sleep(1.0)
                start = trio.current_time()
                lost = await host_at(cluster, place)
                place.cut()
                kept = await host_at(cluster, other)

                async def have_moved(kept=kept):
                    return {(await each.status()).host for each in agents} == {kept.id}

                await wait_for(have_moved)
                moved.append(trio.current_time() - start)
            place.heal()

            async def is_back(place=place, lost=lost):
                found = await host_at(cluster, place)
                return found is not None and found.id != lost.id

            await wait_for(is_back)
        with trio.fail_after(120):
            results = [await agent.answer(receipt) for agent, receipt in receipts]
        assert {str(each.status) for each in results} == {"completed"}
        for agent in agents:
            sent = [receipt.input_id for owner, receipt in receipts if owner is agent]
            joined = [each.id for each in await agent.history() if each.id in set(sent)]
            assert joined == sent
        nursery.cancel_scope.cancel()
    effects = Counter(path.read_text().split())
    assert max(effects.values()) == 1
    assert max(moved) < PATIENCE + 10
    print(f"{len(receipts)} inputs, {len(effects)} effects, moved after {moved} s")


async def host_at(cluster, place):
    found = [each for each in await cluster.hosts() if place.address in each.address]
    return found[-1] if found else None
