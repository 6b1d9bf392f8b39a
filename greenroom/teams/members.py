"""The members of a team at work: the one place where they are started, wait for room, and are ended.

Whatever starts several agents for one piece of work does it here: patterns, and all else that has more to
start than an agent may have subagents. A member waits for room, and for nothing else, so it must never
wait for another one that is not started yet.
"""

import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import trio

from greenroom.core import ConfigurationError, ContentBlock, check_sender
from greenroom.runtime import AgentHandle, AgentInternals, TurnResult, check_agent_function, try_ask
from greenroom.session import AgentSession

Member: TypeAlias = Callable[[AgentInternals], Awaitable[object]]
"""An agent function: an `Agent`, several as one, or a function of yours."""


@asynccontextmanager
async def start_member(
    agent: AgentInternals, member: Member, *, name: str, session: AgentSession | None = None
) -> AsyncIterator[AgentHandle]:
    """Start a member of a team as a subagent, and end it with the block.

    Where the agent has no room for one more (`RuntimeLimits.subagents`), it waits until another member has
    ended; the one who waits longest is next, and nobody who comes later is before it. Room that is taken by other subagents is not waited for, since
    nobody knows whether they end: without a member that works, it is refused.

    Args:
        agent: whose subagent it is.
        member: its function.
        name: for people and logs.
        session: its conversation; by default a new one.

    Raises:
        TurnError: there is no room, and no member is at work.
        SessionError: and others, as `AgentInternals.spawn`.

    Example:
        ```python
        async with start_member(agent, researcher, name="researcher") as handle:
            print((await handle.ask("How long do cats sleep?")).text)
        ```
    """
    queue = _Queue.of(agent)
    await queue.enter()
    try:
        handle = agent.spawn(session or AgentSession.new(name), member, report=False, name=name)
        try:
            yield handle
            await handle.shutdown()
        except BaseException:
            with trio.CancelScope(shield=True):
                await handle.shutdown(grace=0)
            raise
    finally:
        queue.leave()


async def ask_member(
    agent: AgentInternals,
    member: Member,
    content: str | Iterable[ContentBlock],
    *,
    name: str,
    session: AgentSession | None = None,
    sender: str = "",
    metadata: Mapping[str, object] | None = None,
    timeout: float | None = None,
) -> TurnResult:
    """Start a member as `start_member` does, ask it this, and return what it answers.

    A failure is a value: a member that crashes or ends without an answer has a result with the status
    failed, and the reason in `error`.

    Args:
        agent: whose subagent it is.
        member: its function.
        content: what it is asked.
        name: for people and logs.
        session: its conversation; by default a new one.
        sender: who speaks, as for `AgentHandle.ask`.
        metadata: JSON facts for its function, which a model does not see.
        timeout: seconds until its turn is interrupted; the wait for room does not count.

    Raises:
        TurnError: as `start_member`.
    """
    async with start_member(agent, member, name=name, session=session) as handle:
        return await try_ask(handle, content, timeout, sender=sender, metadata=metadata)


def has_room(agent: AgentInternals) -> bool:
    """Whether `start_member` would start a member now, without a wait."""
    return _Queue.of(agent).has_room


class _Queue:
    """The members that one agent has at work, and those that wait for room."""

    def __init__(self, agent: AgentInternals) -> None:
        self._agent = agent
        self._active = 0
        self._next_in_line = trio.StrictFIFOLock()  # who holds it is next, and looks for room
        self._departures = trio.lowlevel.ParkingLot()

    @classmethod
    def of(cls, agent: AgentInternals) -> "_Queue":
        """Return the agent's own; there is one, whatever it has to start."""
        resources = agent.context.resources
        found = resources.get(cls)
        if found is None or found._agent is not agent:
            found = cls(agent)
            resources.insert(found)
        return found

    async def enter(self) -> None:
        """Wait for room; the caller has to take it before its next checkpoint, and to `leave` after all."""
        if not self.has_room:
            async with self._next_in_line:
                while self._is_full:
                    await self._departures.park()
        self._active += 1

    def leave(self) -> None:
        """Give a place back, or one that was not taken: who is next looks again."""
        self._active -= 1
        self._departures.unpark()

    @property
    def has_room(self) -> bool:
        """Whether there is room, and nobody who waits for it."""
        return not self._next_in_line.locked() and not self._is_full

    @property
    def _is_full(self) -> bool:
        return self._active > 0 and not self._agent.subagent_room


def name_members(members: Iterable[Member]) -> dict[str, Member]:
    """Return members by names of their own: a second "writer" is "writer 2".

    Raises:
        ConfigurationError: there are none, or one has a name that nobody can be called by.
        TypeError: one of them is not an agent function.
    """
    found: dict[str, Member] = {}
    for member in members:
        check_agent_function(member)
        name = name_of(member)
        try:
            check_sender(name)
        except ValueError as error:
            raise ConfigurationError(f"{name!r} can't be the name of a member: {error}") from None
        free = (f"{name} {number}" for number in itertools.count(2))
        found[name if name not in found else next(each for each in free if each not in found)] = (
            member
        )
    if not found:
        raise ConfigurationError("a team has at least one member")
    return found


def name_of(member: object) -> str:
    """Return the name of an agent, or of a function, also of one that a partial has bound."""
    while isinstance(member, functools.partial):
        member = member.func
    name: object = getattr(member, "name", None) or getattr(member, "__name__", None)
    return name if isinstance(name, str) else type(member).__name__
