"""Start and end the members of a team, as far as the agent has room for subagents.

Everything that starts several agents for one task uses this module: patterns, and anything else
that may start more agents than the limit of subagents. A member only waits for room, so a member
must never depend on one that has not started yet.
"""

import functools
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TypeAlias

import trio

from greenroom.agents import Runnable
from greenroom.core import ConfigurationError, ContentBlock, SessionError
from greenroom.core._internal import check_sender, strip_partials
from greenroom.runtime import AgentHandle, AgentInternals, TurnResult
from greenroom.runtime._internal import check_agent_function, try_ask
from greenroom.session import AgentSession

Member: TypeAlias = Callable[[AgentInternals], Awaitable[object]]
"""An agent function: an `Agent`, a pattern, or your own function."""


class RecordedMember:
    """A member whose first act is to record that it starts; without a record it does nothing."""

    def __init__(self, member: Member, record: Callable[[], Awaitable[None]]) -> None:
        self._member = member
        self._record = record
        self._failure: SessionError | None = None

    async def __call__(self, internals: AgentInternals) -> None:
        """Record the start, then run the member."""
        try:
            await self._record()
        except SessionError as error:
            self._failure = error
        else:
            await self._member(internals)

    def check(self) -> None:
        """Raise the error of a start that could not be recorded."""
        if self._failure is not None:
            raise self._failure


@asynccontextmanager
async def start_member(
    agent: AgentInternals, member: Member, *, name: str, session: AgentSession | None = None
) -> AsyncIterator[AgentHandle]:
    """Start a member of a team as a subagent, and end it with the block.

    If the agent has no room for another subagent (`RuntimeLimits.subagents`), it waits until
    another member ends, in the order of arrival. It does not wait for other subagents, since they
    may never end: if no member is running, it raises an error.

    Args:
        agent: whose subagent it is.
        member: its function.
        name: the name for people and logs.
        session: its conversation; by default a new one.

    Raises:
        TurnError: there is no room, and no member is running.
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
    """Start a member as `start_member` does, ask it, and return its answer.

    Failures are not raised: if the member crashes or ends without an answer, the result has the
    status failed, and the reason in `error`.

    `agent`, `member`, `name` and `session` are those of `start_member`; `content`, `sender` and
    `metadata` those of `AgentHandle.ask`. After `timeout` seconds its turn is interrupted; the wait
    for room does not count.

    Raises:
        TurnError: as `start_member`.
    """
    async with start_member(agent, member, name=name, session=session) as handle:
        return await try_ask(handle, content, timeout, sender=sender, metadata=metadata)


def has_room(agent: AgentInternals) -> bool:
    """Whether `start_member` would start a member without waiting."""
    return _Queue.of(agent).has_room


class _Queue:
    """The running members of one agent, and the tasks that wait for room."""

    def __init__(self, agent: AgentInternals) -> None:
        self._agent = agent
        self._active = 0
        self._next_in_line = trio.StrictFIFOLock()  # held by the task that gets the next place
        self._departures = trio.lowlevel.ParkingLot()

    @classmethod
    def of(cls, agent: AgentInternals) -> "_Queue":
        """Return the queue of an agent, which it has only one of."""
        resources = agent.context.resources
        found = resources.get(cls)
        if found is None or found._agent is not agent:
            found = cls(agent)
            resources.insert(found)
        return found

    async def enter(self) -> None:
        """Wait for room; the caller must use it before its next checkpoint, and `leave` later."""
        if not self.has_room:
            async with self._next_in_line:
                while self._is_full:
                    await self._departures.park()
        self._active += 1

    def leave(self) -> None:
        """Give a place back, and wake the next task."""
        self._active -= 1
        self._departures.unpark()

    @property
    def has_room(self) -> bool:
        """Whether there is room, and no task is waiting for it."""
        return not self._next_in_line.locked() and not self._is_full

    @property
    def _is_full(self) -> bool:
        return self._active > 0 and not self._agent.subagent_room


def name_members(members: Iterable[Member]) -> dict[str, Member]:
    """Return members by unique names: a second "writer" becomes "writer 2".

    Raises:
        ConfigurationError: there are no members, or one has an invalid name.
        TypeError: a member is not an agent function.
    """
    members_by_name: dict[str, Member] = {}
    for member in members:
        if isinstance(member, list | tuple):
            raise ConfigurationError(
                "members are given one by one, not as a list", hint="put a star before it: *agents"
            )
        check_agent_function(member)
        name = name_of(member)
        try:
            check_sender(name)
        except ValueError as error:
            raise ConfigurationError(f"{name!r} can't be the name of a member: {error}") from None
        names = itertools.chain([name], (f"{name} {number}" for number in itertools.count(2)))
        members_by_name[next(each for each in names if each not in members_by_name)] = member
    if not members_by_name:
        raise ConfigurationError("a team needs at least one member")
    return members_by_name


def name_of(member: object) -> str:
    """Return the name of an agent or function, also inside a `partial`."""
    member = strip_partials(member)
    name: object = getattr(member, "name", None) or getattr(member, "__name__", None)
    return name if isinstance(name, str) else type(member).__name__


def bind_deps(member: Member, deps: object) -> Member:
    """Return a member with the dependencies of a run, if it is a `Runnable` without its own."""
    has_own = isinstance(member, functools.partial) and "deps" in member.keywords
    if has_own or not isinstance(strip_partials(member), Runnable):
        return member
    return functools.partial(member, deps=deps)  # type: ignore[call-arg]  # a `Runnable` takes it
