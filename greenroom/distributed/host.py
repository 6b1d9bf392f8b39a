"""`Host`: runs the agents that are placed on it, and takes over those of hosts that are gone."""

import ipaddress
import logging
import math
import os
import socket
import ssl
from collections.abc import Iterable
from functools import partial

import trio

from greenroom.core import ConfigurationError, SessionError, SessionStorageError
from greenroom.core._internal import log_error
from greenroom.distributed import mailbox, places
from greenroom.distributed.agent_types import AgentType, check_names
from greenroom.distributed.cluster import Cluster
from greenroom.distributed.host_api import make_server
from greenroom.distributed.hosted_agent import HostedAgent
from greenroom.distributed.pauses import Pauses
from greenroom.interop._internal import is_loopback
from greenroom.net._internal import server_context
from greenroom.runtime import AgentRuntime, RuntimeLimits
from greenroom.session import PostgresStore
from greenroom.session._internal import Connection, ensure_presence

logger = logging.getLogger("greenroom.distributed")

LOOK = 1.0
"""Seconds between two looks at the database, each for all agents of the host."""

_CLOSING = 1.0  # seconds for requests in hand when the host ends
_TIDY = 3600.0  # seconds between two looks for what is kept no longer
_SETTLED = 2  # looks with one presence before others may be counted as gone
_QUICKER = 8  # times, of the looks of a new host until then


class Host:
    """Runs agents of some types for a cluster, in this process.

    It is there as long as one connection to the database lasts; no agent of it has one. When it
    ends, however it does, the others take its agents over, with their sessions and their mailboxes.
    A host that the others count as gone writes nothing more, and comes back under a new number.

    Args:
        cluster: the cluster.
        agent_types: what it can run.
        name: what people call it; by default the name of the machine.
        capabilities: what it offers, such as "gpu".
        max_agents: how many agents it takes.
        grace: seconds for open turns when it ends.
        bind: HOST:PORT at which it answers the programs and hosts of the cluster over HTTP; port 0
            takes a free one. A name in place of an address is the one that others ask for.
        certificate: the path of a PEM file, to answer over TLS. Clients trust the authorities that
            `SSL_CERT_FILE` names. The file is read when the host is made.
        key: the path of the certificate's private key, unless the same file has it.
        insecure: whether it may answer other machines without TLS, since the network between them
            is private, or encrypts by itself.
        limits: the bounds of each agent.
        instruments: objects that watch the agents, such as a `Tracer`; see `greenroom.Instrument`.
        gates: objects that refuse calls of tools, such as an `Audit`; see `greenroom.core.Gate`.

    Raises:
        ConfigurationError: no type is given, or two have one name; other machines could reach the
            address, but the cluster has no secret, or there is neither a certificate nor
            `insecure`; or the certificate or its key can't be used.
        ValueError: a name is not printable, or a number negative, or the address is not one.

    Example:
        ```python
        async with Cluster() as cluster:
            await Host(cluster, [AgentType("coder", make_coder)]).run()
        ```
    """

    def __init__(
        self,
        cluster: Cluster,
        agent_types: Iterable[AgentType],
        *,
        name: str = "",
        capabilities: Iterable[str] = (),
        max_agents: int = 1000,
        grace: float = 5.0,
        bind: str = "127.0.0.1:0",
        certificate: str | None = None,
        key: str | None = None,
        insecure: bool = False,
        limits: RuntimeLimits | None = None,
        instruments: Iterable[object] = (),
        gates: Iterable[object] = (),
    ) -> None:
        types = tuple(agent_types)
        self._types = {each.name: each for each in types}
        if not types or len(self._types) < len(types):
            raise ConfigurationError(
                "a host runs at least one type of agent, and each has another name",
                hint="Host(cluster, [AgentType(name, make), …])",
            )
        self._name = name or socket.gethostname()
        self._capabilities = tuple(capabilities)
        check_names([self._name, *self._capabilities])
        if max_agents < 1 or not grace >= 0:
            raise ValueError("a host takes at least one agent, and grace is 0 seconds or more")
        self._address, self._port = _read_address(bind)
        self._tls = _read_certificate(certificate, key)
        if not is_loopback(self._address):
            _check_way(bind, cluster.links.given_secret, insecure or self._tls is not None)
        self._links = cluster.links
        self._database = cluster.database
        self._max_agents = max_agents
        self._grace = grace
        self._limits, self._instruments, self._gates = limits, tuple(instruments), tuple(gates)
        self._poked = trio.Event()
        self._is_ending = False

    def drain(self) -> None:
        """Let it take no more agents, give away those that it has, and end: `run` returns."""
        self._is_ending = True
        self._poked.set()

    async def run(self, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED) -> None:
        """Run agents until it is drained, or cancelled.

        Args:
            task_status: for `nursery.start`, which returns the host's number once it is there.

        Raises:
            SessionStorageError: the database can't be used from the beginning.
            SessionError: its tables are of a newer version.
        """
        has_been_there = False
        while True:
            async with (
                self._database.make_store() as store,
                AgentRuntime(
                    store, self._limits, instruments=self._instruments, gates=self._gates
                ) as runtime,
            ):
                life = _Life(self, store, runtime, task_status, has_been_there)
                if await life.run():
                    return
                has_been_there, task_status = True, trio.TASK_STATUS_IGNORED
            logger.warning("the host %s was counted as gone, and comes back", self._name)


class _Life:
    """A host under one number: from when it joins until it leaves, or is counted as gone.

    Attributes:
        number: the number; 0 until it has joined.
    """

    def __init__(
        self,
        host: Host,
        store: PostgresStore,
        runtime: AgentRuntime,
        task_status: trio.TaskStatus[int],
        has_been_there: bool,
    ) -> None:
        self._host = host
        self._has_been_there = has_been_there
        self._database = host._database
        self._store = store
        self._runtime = runtime
        self._task_status = task_status
        self._agents: dict[str, HostedAgent] = {}
        self.number = 0
        self._holder = 0
        self._looks = 0
        self._was_cut = False
        self._tidied = -math.inf
        self._failure: SessionError | None = None
        self._pauses = Pauses(LOOK)
        self._reach = trio.CancelScope()

    async def run(self) -> bool:
        """Do what the looks say; return whether it has left by itself.

        Raises:
            SessionStorageError: the database can't be used at the first look.
            ConfigurationError: the address can't be had, or hypercorn is not installed.
        """
        host, has_left = self._host, False
        secret = await host._links.secret()
        own = socket.gethostname().lower()
        server = make_server(self._runtime, self, secret, host._address, (own,))
        with self._reach:
            async with trio.open_nursery() as nursery:
                address = await nursery.start(
                    partial(server.serve, host._address, host._port, grace=_CLOSING, tls=host._tls)
                )
                try:
                    await self._join(_reachable(address, host._address))
                    has_left = await self._live(nursery)
                except SessionError as error:
                    self._failure = error
                nursery.cancel_scope.cancel()
        if self._reach.cancel_called:
            self._failure = SessionStorageError("the database did not answer for too long")
        if self._failure is not None:
            is_away = isinstance(self._failure, SessionStorageError)
            if not self._has_been_there or not is_away:
                raise self._failure
            log_error(logger, "the host has lost the database", self._failure)
        return has_left

    async def _join(self, address: str) -> None:
        host = self._host

        def join(connection: Connection) -> int:
            joining = places.Joining(
                host._name,
                ensure_presence(self._store),
                tuple(host._types),
                host._capabilities,
                host._max_agents,
                os.getpid(),
                address,
            )
            return places.join_hosts(connection, joining)

        self.number = await self._database.run(join)

    async def _live(self, nursery: trio.Nursery) -> bool:
        """Look once a second; return whether it has left by itself."""
        host = self._host
        while (found := await self._look()) is not None:
            self._follow(found, nursery)
            self._has_been_there = True
            self._task_status.started(self.number)
            self._task_status = trio.TASK_STATUS_IGNORED
            if host._is_ending or found.state == "draining":
                await self._leave(found)
                return True
            if trio.current_time() - self._tidied > _TIDY:
                self._tidied = trio.current_time()
                await self._database.run(mailbox.forget_inputs)
            for target in found.others:  # who would look a second later
                nursery.start_soon(host._links.wake, target)
            with trio.move_on_after(self._pause()):
                await host._poked.wait()
            host._poked = trio.Event()
        return False

    def _pause(self) -> float:
        """Return seconds until the next look: a new host soon knows which others are there.

        One that was cut off itself gives the others the time to come back as well.
        """
        has_swept = self._looks > _SETTLED
        return LOOK if has_swept or self._was_cut else LOOK / _QUICKER

    def has(self, session_id: str) -> bool:
        """Whether an agent runs here."""
        return session_id in self._agents

    def poke(self, session_id: str) -> bool:
        """Look into an agent's mailbox, or for the agent; whether it runs here."""
        if session_id in self._agents:
            self._agents[session_id].wake()
            return True
        self._host._poked.set()
        return False

    async def wait_done(self, session_id: str, input_id: str) -> None:
        """Wait until something comes of an input of an agent, or that is not here."""
        if session_id in self._agents:
            await self._agents[session_id].wait_done(input_id)

    async def _look(self) -> places.Look | None:
        """Look, within the patience of the cluster: a database that hangs gives no error."""
        self._reach.deadline = trio.current_time() + self._database.rules.patience + LOOK
        found = await self._look_once()
        self._reach.deadline = math.inf
        return found

    async def _look_once(self) -> places.Look | None:
        is_settled = self._looks >= _SETTLED
        takes = not self._host._is_ending
        leaves = self._pauses.waiting()

        def look(connection: Connection) -> tuple[int, places.Look | None]:
            holder = ensure_presence(self._store)
            # After an outage all are gone for a moment: the others get time to come back.
            sweeps = is_settled and takes and holder == self._holder
            rules = self._database.rules
            found = places.look(
                connection,
                rules,
                self.number,
                holder,
                sweeps=sweeps,
                takes=takes,
                leaves=leaves,
            )
            return holder, found

        holder, found = await self._database.run(look)
        self._was_cut = self._was_cut or holder != self._holder != 0
        self._looks = self._looks + 1 if holder == self._holder else 0
        self._holder = holder
        return found

    def _follow(self, found: places.Look, nursery: trio.Nursery) -> None:
        for session_id, agent in self._agents.items():
            if found.agents.get(session_id) != agent.epoch:
                agent.lose()
        for session_id, epoch in found.agents.items():
            if session_id not in self._agents:
                agent = HostedAgent(
                    self._database,
                    self._runtime,
                    self._host._types,
                    self.number,
                    session_id,
                    epoch,
                )
                self._agents[session_id] = agent
                nursery.start_soon(self._run, session_id, agent)
        for session_id in found.waiting:
            if session_id in self._agents:
                self._agents[session_id].wake()

    async def _run(self, session_id: str, agent: HostedAgent) -> None:
        try:
            await agent.run()
        finally:
            del self._agents[session_id]
        problem = agent.problem
        if problem is not None and self._pauses.note(session_id, str(problem)):
            log_error(logger, f"the agent of {session_id} could not go on here", problem)

    async def _leave(self, found: places.Look) -> None:
        """Give all agents away, and leave."""
        grace = found.grace if found.state == "draining" else self._host._grace
        drain = self._database.run
        await drain(lambda each: places.drain_host(each, self.number, grace))
        async with trio.open_nursery() as nursery:
            for agent in tuple(self._agents.values()):
                nursery.start_soon(agent.move, grace)
        await self._database.run(lambda each: places.leave_hosts(each, self.number))


def _read_address(bind: str) -> tuple[str, int]:
    host, colon, port = bind.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535 or not host:
        raise ValueError(f"{bind!r} is not an address: write HOST:PORT, such as 127.0.0.1:0")
    return host.strip("[]"), int(port)


def _read_certificate(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    if certificate is not None:
        return server_context(certificate, key)
    if key is not None:
        raise ConfigurationError("a key needs its certificate", hint="name both, or neither")
    return None


def _check_way(bind: str, secret: str | None, is_private: bool) -> None:
    """Refuse to answer other machines in a way that a third one could use."""
    if secret is None:
        raise ConfigurationError(
            f"other machines can reach {bind}, and the cluster has no secret of its own",
            hint="give all of them the same: Cluster(secret=…), or the variable GREENROOM_SECRET",
        )
    if not is_private:
        raise ConfigurationError(
            f"what goes to and from {bind} is signed, but not encrypted",
            hint="give it a certificate and its key; or put hosts on a network that encrypts, and "
            "say so: insecure=True, or --insecure",
        )


def _reachable(address: str, asked: str) -> str:
    """Return the address for others: the name at which it listens, everywhere the machine's."""
    name = socket.gethostname().lower()
    try:
        if not ipaddress.ip_address(asked).is_unspecified:
            return address
    except ValueError:  # it is a name
        if is_loopback(asked):
            return address
        name = asked
    scheme, _, place = address.partition("://")
    return f"{scheme}://{name}:{place.rpartition(':')[2]}"
