"""How agents are started: as roots under the runtime, as subagents under their parent.

The arguments of `spawn` and of a runtime are checked here too, with hints about usual mistakes.
"""

import inspect
from collections.abc import Awaitable, Callable
from typing import (
    TYPE_CHECKING,
    Literal,
    Protocol,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    Unpack,
    cast,
    get_args,
)

import trio

from greenroom.core import ConfigurationError, OutputChunk, SubAgentSpawned, TurnError
from greenroom.core._internal import strip_partials
from greenroom.resilience import Budget
from greenroom.runtime.actor import Actor
from greenroom.runtime.approvals import Unattended
from greenroom.runtime.calls import current_call
from greenroom.runtime.errors import AgentNotRunningError
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.kernel import Kernel
from greenroom.runtime.lifecycle import run_agent
from greenroom.runtime.views import find_view
from greenroom.session import AgentSession, InMemoryStore, SessionStore
from greenroom.session._internal import default_store

if TYPE_CHECKING:
    from greenroom.runtime.ties import AgentFunction

Ts = TypeVarTuple("Ts")


class Internals(Protocol):
    """What makes the first argument of an agent function `AgentInternals`, and nothing else."""

    async def step(self) -> None:
        """Mark the boundary between two steps."""

    async def send(self, chunk: OutputChunk) -> None:
        """Publish a chunk."""


AgentT = TypeVar("AgentT", bound=Internals)
"""`AgentInternals`, whose module is above this one because it spawns too."""

Scope: TypeAlias = Literal["turn", "agent"]
"""What a subagent ends with: the turn that spawned it, should that fail or be interrupted, or only
the agent."""


@trio.lowlevel.enable_ki_protection  # no agent runs that is on no list
def spawn_root(
    kernel: Kernel[Actor],
    session: AgentSession,
    agent_fn: Callable[[AgentT, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
    *,
    unattended: Unattended,
    name: str | None,
    budget: Budget | None,
) -> AgentHandle:
    """Start an agent under the runtime; `AgentRuntime.spawn` says what may be raised."""
    nursery = kernel.require_nursery()
    _refuse(kernel, session, agent_fn, budget)
    _check_unattended(unattended)
    session.journal.bind(kernel.store or default_store())
    actor = Actor(
        kernel,
        session,
        parent=None,
        name=name,
        unattended=unattended,
        workspace=kernel.workspace,
        budget=budget,
    )
    return _start(actor, nursery, agent_fn, args)


@trio.lowlevel.enable_ki_protection
def spawn_child(
    parent: Actor,
    session: AgentSession,
    agent_fn: Callable[[AgentT, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
    *,
    detached: bool = False,
    scope: Scope = "turn",
    report: bool = True,
    name: str | None,
    budget: Budget | None,
) -> AgentHandle:
    """Start an agent under another one; `AgentInternals.spawn` says what may be raised."""
    root_nursery = parent.kernel.require_nursery()
    if parent.life.nursery is None:
        raise AgentNotRunningError(
            f"the agent {parent.name} has returned, and spawns no more", outcome=parent.outcome
        )
    _refuse_one_too_many(parent)
    _refuse(parent.kernel, session, agent_fn, budget)
    _check_scope(scope)
    if session.parent_session_id != parent.session_id:
        session.description.set_parent(parent.session_id, current_call(parent))
    session.journal.bind(parent.session.store or default_store())
    actor = Actor(
        parent.kernel,
        session,
        parent=None if detached else parent,
        name=name,
        unattended=parent.unattended,
        workspace=parent.context.workspace.copy(),
        budget=budget,
        spawn_turn=None if detached or scope == "agent" else parent.turns.current,
        reports=report,
    )
    handle = _start(actor, root_nursery if detached else parent.life.nursery, agent_fn, args)
    if not detached:
        parent.children.add(actor)
    parent.session.description.add_child(session.session_id)
    _publish_spawn(parent, actor, detached)
    return handle


def _publish_spawn(parent: Actor, child: Actor, detached: bool) -> None:
    session = child.session
    call = session.parent_tool_use_id or ""
    parent.publish(
        SubAgentSpawned(session.session_id, session.agent_type, child.name, call, detached)
    )


def _refuse_one_too_many(parent: Actor) -> None:
    limit = parent.limits.subagents
    if parent.children.used_room >= limit:
        raise TurnError(
            f"{parent.name} has {limit} subagents already that are alive, "
            "or whose results it has not taken",
            hint="wait for some of them, or raise RuntimeLimits.subagents",
        )


def _refuse(kernel: Kernel[Actor], session: AgentSession, agent_fn: object, budget: object) -> None:
    _check_session(session)
    kernel.registry.refuse(session)
    _check_place(session, kernel.store)
    check_agent_function(agent_fn)
    _check_budget(budget)


def _start(
    actor: Actor,
    nursery: trio.Nursery,
    agent_fn: Callable[[AgentT, Unpack[Ts]], Awaitable[object]],
    args: tuple[*Ts],
) -> AgentHandle:
    actor.elsewhere = find_view(agent_fn, actor.session)
    actor.function, actor.arguments = cast("AgentFunction", agent_fn), args
    nursery.start_soon(run_agent, actor, name=f"the life of agent {actor.name}")
    actor.kernel.registry.add(actor)
    return AgentHandle(actor)


def _check_session(session: object) -> None:
    """Refuse what is not a session."""
    if not isinstance(session, AgentSession):
        raise TypeError(
            f"the first argument of spawn is a session, not {session!r}: write "
            "spawn(AgentSession.new('coder'), fn, x), or load one by its id"
        )


def _check_place(session: AgentSession, store: SessionStore | None) -> None:
    """Refuse a session that is kept elsewhere than the runtime keeps its own.

    One in memory is kept nowhere: it is for agents that are not to be stored with the others.
    """
    own = session.store
    if store is not None and not (own is None or own == store or isinstance(own, InMemoryStore)):
        raise ConfigurationError(
            f"session {session.session_id!r} is kept in {own!r}, and this runtime's "
            f"sessions in {store!r}",
            hint="give AgentSession.new, load or fork the runtime's store, even where a session is "
            "saved or opened before it is spawned",
        )


def check_agent_function(function: object) -> None:
    """Refuse what is not an async function; partials and objects with an async `__call__` are.

    Raises:
        TypeError: it is something else; the message says what was probably meant.
    """
    if inspect.iscoroutine(function):
        function.close()
        raise TypeError(
            "spawn was given a coroutine: write spawn(session, fn, x), not spawn(session, fn(x))"
        )
    function = strip_partials(function)
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 (an object with an async __call__)
    ):
        raise TypeError(
            f"an agent is an async function, not {function!r}: write "
            "`async def fn(agent, x)`, without a yield"
        )


def _check_budget(budget: object) -> None:
    """Refuse what is not a budget."""
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"{budget!r} is not a budget: write budget=Budget(tokens=100_000)")


def _check_unattended(unattended: object) -> None:
    """Refuse an unknown word."""
    if unattended not in get_args(Unattended):
        raise ConfigurationError(
            f"unattended={unattended!r} is not one of {', '.join(map(repr, get_args(Unattended)))}",
            hint="to allow calls, write rules",
        )


def _check_scope(scope: object) -> None:
    """Refuse an unknown word."""
    if scope not in ("turn", "agent"):
        raise ConfigurationError(
            f"scope={scope!r} is neither 'turn' nor 'agent'",
            hint="'turn' ends the subagent with a turn that fails; to outlive this agent,"
            " pass detached=True",
        )
