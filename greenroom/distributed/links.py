"""The ways from a program to agents on hosts: what the database holds, and the hosts' API."""

import logging
import math
import os
from collections import OrderedDict
from typing import TypeVar
from urllib.parse import quote

import trio

from greenroom.core import ConfigurationError, NetworkError, SessionStorageError
from greenroom.distributed import directory, mailbox, places
from greenroom.distributed.database import Database
from greenroom.distributed.host_client import HostClient, mailbox_path
from greenroom.distributed.signing import OTHER_HOST, TOO_EARLY
from greenroom.interop import RemoteError, RemoteLostError
from greenroom.runtime import AgentNotRunningError
from greenroom.session import AgentSession

T = TypeVar("T")

logger = logging.getLogger("greenroom.distributed")

SECRET = "GREENROOM_SECRET"  # noqa: S105 -- the name of the variable
"""The variable of the environment that has the secret where a program does not pass one."""

LOST = 60.0
"""Seconds for which an agent that no host answers for is asked again."""

_PASSING = (OTHER_HOST, TOO_EARLY, 503)  # the agent has moved or only starts, or the host ends
_LOOK = 0.25  # seconds between two looks at what no host can tell
_WAIT = 2.0  # seconds that a host that may be gone is waited for before the next look
_POKE = 1.0  # seconds for a poke, which is for speed alone
_MOST_KNOWN = 10_000  # agents whose hosts are remembered


class Links:
    """What the handles of a program's agents share."""

    def __init__(self, database: Database, secret: str | None) -> None:
        """Use a database, and for hosts this secret."""
        self.database = database
        self.given_secret = os.environ.get(SECRET) or None if secret is None else secret
        """The secret of the cluster; None for the one that the database keeps."""
        if self.given_secret is not None and len(self.given_secret) < 16:
            raise ConfigurationError(
                "a cluster's secret has at least 16 characters",
                hint="make one with `openssl rand -hex 32`",
            )
        self._store = database.make_store()
        self._made: HostClient | None = None
        self._known = OrderedDict[str, places.Target]()  # the agents' hosts
        self._announcing = dict[places.Target, bool]()  # whether there is something new for it
        self._has_complained = False

    async def aclose(self) -> None:
        """Close the connections."""
        await self._store.aclose()
        if self._made is not None:
            await self._made.aclose()

    async def secret(self) -> str:
        """Return the secret of the cluster."""
        if self.given_secret is not None:
            return self.given_secret
        return await self.database.run(places.read_secret)

    async def client(self) -> HostClient:
        """Return what asks hosts."""
        if self._made is None:
            secret = await self.secret()
            # Another task may have been faster meanwhile.
            self._made = self._made or HostClient(secret, "program")
        return self._made

    async def find(self, session_id: str) -> directory.Placed | None:
        """Return where an agent is, or None if there never was one."""
        placed = await self.database.run(lambda each: directory.read_agent(each, session_id))
        if placed is not None and placed.target is not None:
            self._note(session_id, placed.target)
        return placed

    def _note(self, session_id: str, target: places.Target) -> None:
        self._known[session_id] = target
        if len(self._known) > _MOST_KNOWN:
            self._known.popitem(last=False)

    async def announce(self, session_id: str, target: places.Target | None) -> None:
        """Tell a host that an agent was placed there; what comes while it is told is told with it.

        So of many that are placed at once each needs no request of its own.
        """
        if target is None or not target.address:
            return
        self._note(session_id, target)
        is_told = target in self._announcing
        self._announcing[target] = True
        if is_told:
            return
        try:
            while self._announcing[target]:
                self._announcing[target] = False
                await self.poke(session_id)
        finally:
            del self._announcing[target]

    async def load(self, session_id: str) -> AgentSession:
        """Return an agent's session as it is stored; nothing is locked.

        Raises:
            SessionNotFoundError: nothing of it is stored yet.
        """
        return await AgentSession.load(session_id, store=self._store, keep_open=True)

    async def poke(self, session_id: str) -> None:
        """Tell an agent's host that there is something new, which it would find a second later.

        What is new is stored by then, so a database that has gone away meanwhile is not an error.
        """
        try:
            if session_id not in self._known and await self.find(session_id) is None:
                return
        except SessionStorageError:
            return
        target = self._known.get(session_id)
        if target is not None and not await self.wake(target, session_id):
            self._known.pop(session_id, None)  # it may have moved

    async def wake(self, target: places.Target, session_id: str = "") -> bool:
        """Let a host look at once, for an agent or for all; whether it has the agent."""
        try:
            with trio.move_on_after(_POKE):
                client, path = await self.client(), mailbox_path(session_id)
                told = await client.ask(target, "POST", path, dict[str, bool], {})
                return told.get("here", False)
        except (NetworkError, RemoteError, SessionStorageError):  # the last, for the secret
            pass
        except ConfigurationError as error:
            self._complain(error)
        return False

    def _complain(self, error: ConfigurationError) -> None:
        """Say once that hosts refuse us."""
        if not self._has_complained:
            self._has_complained = True
            logger.warning("%s", error)

    async def is_answered(self, session_id: str, input_id: str) -> bool:
        """Whether an input is done."""
        found = await self.database.run(
            lambda each: mailbox.read_answer(each, session_id, input_id)
        )
        return found is None or found.status != "waiting"

    async def wait_answer(
        self, session_id: str, input_id: str, limit: float
    ) -> mailbox.Answered | None:
        """Wait until an input is done, and return what came of it; None if it was never stored.

        Raises:
            TooSlowError: it is not done after so many seconds.
        """
        deadline = trio.current_time() + limit
        while True:
            found = await self.database.run(
                lambda each: mailbox.read_answer(each, session_id, input_id)
            )
            if found is None or found.status != "waiting":
                return found
            if trio.current_time() >= deadline:
                raise trio.TooSlowError
            with trio.move_on_at(deadline):
                await self.wait_change(session_id, input_id)

    async def wait_end(self, session_id: str) -> directory.Placed | None:
        """Wait until an agent has ended."""
        while True:
            placed = await self.find(session_id)
            if placed is None or placed.state != "live":
                return placed
            await self.wait_change(session_id)

    async def wait_change(self, session_id: str, input_id: str = "") -> None:
        """Wait until something may have come of an agent's input, or of the agent."""
        target = self._known.get(session_id)
        if target is not None:
            path = f"{mailbox_path(session_id)}?wait={_WAIT:g}&input={quote(input_id, safe='')}"
            try:
                with trio.move_on_after(2 * _WAIT):
                    client = await self.client()
                    told = await client.ask(target, "GET", path, dict[str, bool], wait=_WAIT)
                    if told.get("here"):
                        return
            except (NetworkError, RemoteError):
                pass
            except ConfigurationError as error:
                self._complain(error)
            self._known.pop(session_id, None)
        await trio.sleep(_LOOK)
        await self.find(session_id)

    async def ask_host(
        self,
        session_id: str,
        method: str,
        path: str,
        kind: type[T],
        body: object = None,
        wait: float = 0.0,
        placed: directory.Placed | None = None,
    ) -> T:
        """Ask the host that has an agent, whichever that is by then; first where it was just found.

        Raises:
            AgentNotRunningError: the agent has ended.
            RemoteLostError: no host has it for a minute, or none can be reached.
            RemoteError: the host refuses.
            ConfigurationError: its secret or its clock is another.
        """
        deadline, reason = trio.current_time() + LOST, "no host has it"
        client = await self.client()
        while True:
            placed = placed or await self.find(session_id)
            if placed is None or placed.state != "live":
                raise AgentNotRunningError(f"the agent of the session {session_id!r} has ended")
            if placed.target is not None:
                try:
                    return await client.ask(placed.target, method, path, kind, body, wait)
                except NetworkError as error:
                    reason = error.message
                except RemoteError as error:
                    if error.status not in _PASSING:
                        raise
                    reason = error.message
            if trio.current_time() > deadline:
                raise RemoteLostError(f"the agent of {session_id!r} can't be reached: {reason}")
            placed = None
            await trio.sleep(_LOOK)


def check_seconds(seconds: float) -> float:
    """Return seconds that somebody passed.

    Raises:
        ValueError: they are negative, or not a number.
    """
    if not (seconds >= 0 and math.isfinite(seconds)):
        raise ValueError(f"{seconds!r} is not a number of seconds, 0 or more")
    return seconds
