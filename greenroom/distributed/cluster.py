"""`Cluster`: the hosts of one database, and the agents on them."""

import secrets
import weakref
from types import TracebackType
from typing import Self

import trio

from greenroom.core._internal import check_session_id, new_id
from greenroom.distributed import directory, mailbox, places
from greenroom.distributed.agent_types import AgentSpec, HostInfo
from greenroom.distributed.database import Database
from greenroom.distributed.links import Links
from greenroom.distributed.remote_agent import RemoteAgent
from greenroom.distributed.shared import SharedBlackboard, SharedTopic

_MOST_LISTED = 1_000


class Cluster:
    """Finds and starts agents on the hosts that share a PostgreSQL database.

    Any number of programs may have one, and none is special: what is true stands in the database,
    beside the sessions. `Host` runs the agents.

    It needs the extra `greenroom[postgres]`. The connection string is as for `PostgresStore`.

    Args:
        dsn: a connection string of libpq; by default that of the variable `GREENROOM_DSN`.
        secret: what hosts and programs prove to each other that they belong together; None for that
            of the variable `GREENROOM_SECRET`. Whoever has it acts for any name.
        patience: seconds to wait for a database that is away, before it is an error; and seconds
            of silence after which a host counts as gone. It is the same for all of them.
        schema: where the tables are.

    Raises:
        ConfigurationError: no server is named, the string can't be read, what is sent could be read
            by others on the way, or psycopg is not installed.
        ValueError: the schema has another name, or the patience is negative.

    Example:
        ```python
        async with Cluster() as cluster:
            agent = await cluster.spawn(AgentSpec("coder"))
            print((await agent.ask("What does this project do?")).text)
        ```
    """

    def __init__(
        self,
        dsn: str | None = None,
        *,
        secret: str | None = None,
        patience: float = 10.0,
        schema: str = "greenroom",
    ) -> None:
        self.database = Database(dsn, schema, patience)
        """The tables, for hosts."""
        self.links = Links(self.database, secret)
        """The ways to agents and hosts, for hosts."""
        weakref.finalize(self, self.database.close)

    def __repr__(self) -> str:
        return f"Cluster({self.database})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the next use opens others. Agents and hosts are not touched."""
        with trio.CancelScope(shield=True):
            await self.links.aclose()
            await self.database.aclose()

    async def spawn(
        self, spec: AgentSpec, *, session_id: str | None = None, parent: str | None = None
    ) -> RemoteAgent:
        """Start an agent on the least loaded host that can run it.

        It is placed when this returns, in one transaction: its host starts it, and if that ends,
        another one. A session that is stored already goes on.

        Args:
            spec: what it is like.
            session_id: the id of its session; by default a new one.
            parent: the session that it was started for, if any; for people and lists.

        Raises:
            NoHostError: no host has its type, or its capabilities, or room.
            SessionLockedError: an agent of this session runs already.
            InvalidSessionIdError: the id is not valid.
            SessionStorageError: the database refused, or was away for too long.
        """
        id_ = new_id("s") if session_id is None else check_session_id(session_id)
        token = secrets.token_hex(8)
        rules = self.database.rules
        target = await self.database.run(
            lambda each: places.place_agent(each, rules, id_, parent, spec, token)
        )
        await self.links.announce(id_, target)
        return RemoteAgent(id_, spec.type, self.links)

    async def get(self, session_id: str) -> RemoteAgent | None:
        """Return an agent, also one that has ended; None if hosts never had one of this session.

        Raises:
            InvalidSessionIdError: the id is not valid.
            SessionStorageError: the database refused, or was away for too long.
        """
        placed = await self.links.find(check_session_id(session_id))
        if placed is None:
            return None
        return RemoteAgent(session_id, placed.type, self.links)

    async def hosts(self) -> tuple[HostInfo, ...]:
        """Return the hosts that are there, by their numbers.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        return await self.database.run(lambda each: places.read_hosts(each, self.database.rules))

    async def agents(self, after: str = "", limit: int = 100) -> tuple[RemoteAgent, ...]:
        """Return agents that have not ended, by the ids of their sessions.

        Args:
            after: the id behind which to begin: the last one of the page before.
            limit: how many at most, up to 1,000.

        Raises:
            ValueError: the limit is not from 1 to 1,000.
            SessionStorageError: the database refused, or was away for too long.
        """
        if not 0 < limit <= _MOST_LISTED:
            raise ValueError(f"a page has 1 to {_MOST_LISTED:,} agents, not {limit}")
        found = await self.database.run(lambda each: directory.read_agents(each, after, limit))
        return tuple(RemoteAgent(each.session_id, each.type, self.links) for each in found)

    def topic(self, name: str) -> SharedTopic:
        """Return a topic, to which any agents on hosts may be made members.

        Raises:
            ValueError: the name is not printable, or longer than 100 characters.
        """
        return SharedTopic(name, self.links)

    def blackboard(self, name: str) -> SharedBlackboard:
        """Return a blackboard, which any program and agent may read and write.

        Raises:
            ValueError: the name is not printable.
        """
        return SharedBlackboard(name, self.links)

    async def set_aside(self, limit: int = 100) -> tuple[tuple[str, str], ...]:
        """Return session and id of inputs that had three hosts end, the newest first.

        Raises:
            SessionStorageError: the database refused, or was away for too long.
        """
        return await self.database.run(lambda each: mailbox.read_aside(each, limit))

    async def drain(self, host_id: int, grace: float = 5.0) -> bool:
        """Let a host take no more agents, give away those that it has, and end.

        It returns at once; the host ends within a second and the grace.

        Args:
            host_id: its number, as `HostInfo.id`.
            grace: seconds for the turns that are open; what is open then is cut off.

        Returns:
            Whether there is such a host.

        Raises:
            ValueError: the grace is negative.
            SessionStorageError: the database refused, or was away for too long.
        """
        if not grace >= 0:
            raise ValueError("grace is seconds, 0 or more")
        return await self.database.run(lambda each: places.drain_host(each, host_id, grace))
