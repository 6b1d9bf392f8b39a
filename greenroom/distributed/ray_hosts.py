"""`RayHosts`: hosts of agents on the nodes of a Ray cluster.

Ray has the machines and the processes: it starts a host on each, and another one where a process or
a node has ended. What is true stays in the database, so Ray may lose anything, its head too: the
agents are then taken over by hosts that are left, or that are started again. What goes to Ray is
bytes of ours; the agents' types are named, and imported where they run.
"""

import logging
import os
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType, TracebackType
from typing import Self, cast

import trio

from greenroom.core import ConfigurationError, SessionStorageError
from greenroom.core._internal import log_error, serde
from greenroom.distributed.agent_types import AgentType, HostInfo
from greenroom.distributed.cluster import Cluster
from greenroom.distributed.host import Host

logger = logging.getLogger("greenroom.distributed")

_AGAIN = 5.0  # seconds until a host that had no database tries again
_ENDING = 10.0  # seconds for hosts to end, besides their grace


@dataclass(frozen=True)
class _Settings:
    """What a node is told of its host."""

    types: tuple[str, ...]
    name: str
    capabilities: tuple[str, ...]
    max_agents: int
    grace: float
    bind: str
    certificate: str | None
    key: str | None
    insecure: bool
    patience: float
    schema: str


class RayHosts:
    """Keeps hosts running on the nodes of a Ray cluster, while the block is open.

    Each host is an actor of Ray, spread over the nodes, which Ray starts again wherever one ends.
    At the end of the block they are drained: other hosts take their agents. Should this program
    end without that, Ray ends the actors.

    The nodes need Greenroom, the module with the types, and the variables of the environment that
    any host needs: `GREENROOM_DSN`, and off loopback `GREENROOM_SECRET`. Nothing secret goes
    through Ray. It needs the extra `greenroom[ray]` here too. Ray's statistics of usage are
    switched off unless `RAY_USAGE_STATS_ENABLED` says otherwise.

    Args:
        cluster: the cluster; its patience and its schema are those of the hosts.
        types: the agents' types as MODULE:NAME: a sequence of `AgentType`, or a function that
            returns one.
        hosts: how many.
        resources: what each takes of a node, by Ray's names: `{"CPU": 2, "GPU": 1}`; by default
            one CPU.
        name: what the hosts are called, with a number behind it.
        capabilities: what they offer.
        max_agents: how many agents each takes.
        grace: seconds for open turns when they end.
        bind: HOST:PORT at which each answers, as for `Host`.
        certificate: as for `Host`: a path on each node.
        key: as for `Host`: a path on each node.
        insecure: as for `Host`.

    Raises:
        ConfigurationError: Ray is not installed.
        ValueError: there is to be no host, or there are no types.

    Example:
        ```python
        async with Cluster() as cluster, RayHosts(cluster, ["shop.agents:types"], hosts=3):
            agent = await cluster.spawn(AgentSpec("coder"))
            print((await agent.ask("What does this project do?")).text)
        ```
    """

    def __init__(
        self,
        cluster: Cluster,
        types: Iterable[str],
        *,
        hosts: int,
        resources: Mapping[str, float] | None = None,
        name: str = "ray",
        capabilities: Iterable[str] = (),
        max_agents: int = 1000,
        grace: float = 5.0,
        bind: str = "127.0.0.1:0",
        certificate: str | None = None,
        key: str | None = None,
        insecure: bool = False,
    ) -> None:
        places = (types,) if isinstance(types, str) else tuple(types)
        if hosts < 1 or not places:
            raise ValueError("there is at least one host, with at least one MODULE:NAME of types")
        self._ray = _import_ray()
        self._cluster = cluster
        self._resources = {"CPU": 1.0, **(resources or {})}
        self._grace = grace
        self._settings = [
            _Settings(
                places,
                f"{name}-{number}",
                tuple(capabilities),
                max_agents,
                grace,
                bind,
                certificate,
                key,
                insecure,
                cluster.database.rules.patience,
                cluster.database.schema,
            )
            for number in range(1, hosts + 1)
        ]
        self._actors: list[object] = []
        self._ends: list[object] = []

    async def __aenter__(self) -> Self:
        """Connect to Ray, and let it start the hosts; they are there once `hosts` lists them.

        Raises:
            ConfigurationError: no Ray cluster can be reached or started.
        """
        await trio.to_thread.run_sync(self._start)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        seconds = self._grace + _ENDING
        with trio.move_on_after(seconds) as scope:
            scope.shield = True
            try:
                for each in await self.hosts():
                    await self._cluster.drain(each.id, self._grace)
            except SessionStorageError as failure:
                log_error(logger, "the hosts on Ray could not be drained", failure)
            else:
                await trio.to_thread.run_sync(self._wait_ends, seconds, abandon_on_cancel=True)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._kill)

    async def hosts(self) -> tuple[HostInfo, ...]:
        """Return those of its hosts that are there.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        names = {each.name for each in self._settings}
        return tuple(each for each in await self._cluster.hosts() if each.name in names)

    def _start(self) -> None:
        ray = self._ray
        try:
            if not ray.is_initialized():
                ray.init(log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise ConfigurationError(
                f"no Ray cluster can be used: {type(error).__name__}",
                hint="start one with `ray start --head`, or name it in RAY_ADDRESS",
            ) from error
        others = {name: amount for name, amount in self._resources.items() if name.isupper()}
        own = {name: each for name, each in self._resources.items() if name not in others}
        kind = ray.remote(_RayHost).options(
            num_cpus=others.pop("CPU", 1.0),
            num_gpus=others.pop("GPU", 0.0),
            resources={**own, **others},
            scheduling_strategy="SPREAD",
            max_restarts=-1,
            max_task_retries=-1,
        )
        for settings in self._settings:
            actor = kind.remote()
            self._actors.append(actor)
            self._ends.append(actor.run.remote(serde.encode(settings)))

    def _wait_ends(self, seconds: float) -> None:
        self._ray.wait(self._ends, num_returns=len(self._ends), timeout=seconds)

    def _kill(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor, no_restart=True)


class _RayHost:
    """The actor: a process of Ray that runs one host."""

    def run(self, settings: bytes) -> None:
        """Run it until it is drained."""
        trio.run(partial(_run_host, serde.decode(settings, _Settings)))


async def _run_host(settings: _Settings) -> None:
    types = [each for place in settings.types for each in _import_types(place)]
    while True:
        try:
            async with Cluster(patience=settings.patience, schema=settings.schema) as cluster:
                host = Host(
                    cluster,
                    types,
                    name=settings.name,
                    capabilities=settings.capabilities,
                    max_agents=settings.max_agents,
                    grace=settings.grace,
                    bind=settings.bind,
                    certificate=settings.certificate,
                    key=settings.key,
                    insecure=settings.insecure,
                )
                await host.run()
                return
        except SessionStorageError as error:
            log_error(logger, "a host on Ray has no database", error)
            await trio.sleep(_AGAIN)


def _import_types(place: str) -> tuple[AgentType, ...]:
    found = pkgutil.resolve_name(place)
    types = found() if callable(found) else found
    return (types,) if isinstance(types, AgentType) else tuple(cast("Iterable[AgentType]", types))


def _import_ray() -> ModuleType:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        return import_module("ray")
    except ImportError as error:
        raise ConfigurationError(
            "hosts on Ray need Ray, which is not installed", hint="pip install 'greenroom[ray]'"
        ) from error
