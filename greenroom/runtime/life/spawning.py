"""How agents are started: as roots under the runtime, as subagents under their parent."""

from typing import TYPE_CHECKING, TypeVarTuple, Unpack

from greenroom.core import AgentNotRunningError, SubAgentSpawned, TurnError, Workspace
from greenroom.runtime.actor import Actor, Unattended
from greenroom.runtime.budgets.tool_slot import hand_slot_to
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.life.lifecycle import run_agent
from greenroom.runtime.life.spawn_arguments import (
    check_agent_function,
    check_budget,
    check_session,
    check_unattended,
)
from greenroom.session import default_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import trio

    from greenroom.resilience import Budget
    from greenroom.runtime.internals import AgentInternals
    from greenroom.runtime.runtime import AgentRuntime
    from greenroom.session import AgentSession

__all__ = ["spawn_child", "spawn_root"]

Ts = TypeVarTuple("Ts")


def spawn_root(
    runtime: "AgentRuntime",
    session: "AgentSession",
    agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
    args: tuple[*Ts],
    *,
    unattended: Unattended,
    name: str | None,
    budget: "Budget | None",
) -> AgentHandle:
    """Start an agent under the runtime; `AgentRuntime.spawn` says what may be raised."""
    nursery = runtime._open_nursery()
    _refuse(runtime, session, agent_fn, budget)
    check_unattended(unattended)
    session.bind(runtime._store or default_store())
    actor = Actor(
        runtime,
        session,
        parent=None,
        name=name,
        unattended=unattended,
        workspace=Workspace(runtime._workspace),
        budget=budget,
    )
    return _start(actor, nursery, agent_fn, args)


def spawn_child(
    parent: Actor,
    session: "AgentSession",
    agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
    args: tuple[*Ts],
    *,
    detached: bool,
    name: str | None,
    budget: "Budget | None",
) -> AgentHandle:
    """Start an agent under another one; `AgentInternals.spawn` says what may be raised."""
    runtime = parent.runtime
    root_nursery = runtime._open_nursery()
    if parent.life.nursery is None:
        raise AgentNotRunningError(
            f"the agent {parent.name} has returned, and spawns no more", outcome=parent.outcome
        )
    _refuse_one_too_many(parent)
    _refuse(runtime, session, agent_fn, budget)
    if session.parent_session_id is None:
        session.adopt(parent.session.session_id, None)
    session.bind(parent.session.store or default_store())
    actor = Actor(
        runtime,
        session,
        parent=None if detached else parent,
        name=name,
        unattended=parent.unattended,
        workspace=parent.context.workspace.copy(),
        budget=budget,
    )
    hand_slot_to(actor)
    handle = _start(actor, root_nursery if detached else parent.life.nursery, agent_fn, args)
    parent.session.add_child_session(session.session_id)
    if not detached:
        parent.children.add(actor)
    parent.publish(
        SubAgentSpawned(
            session.session_id,
            session.agent_type,
            actor.name,
            session.parent_tool_use_id or "",
            detached,
        )
    )
    return handle


def _refuse_one_too_many(parent: Actor) -> None:
    limit = parent.limits.subagents
    if parent.children.unsettled >= limit:
        raise TurnError(
            f"{parent.name} has {limit} subagents already that are alive, "
            "or whose results it has not taken",
            hint="wait for some of them, or raise RuntimeLimits.subagents",
        )


def _refuse(
    runtime: "AgentRuntime", session: "AgentSession", agent_fn: object, budget: object
) -> None:
    check_session(session)
    runtime._registry.refuse(session)
    check_agent_function(agent_fn)
    check_budget(budget)


def _start(
    actor: Actor,
    nursery: "trio.Nursery",
    agent_fn: "Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]]",
    args: tuple[*Ts],
) -> AgentHandle:
    nursery.start_soon(run_agent, actor, agent_fn, args, name=f"agent {actor.name}")
    actor.runtime._registry.add(actor)
    return AgentHandle(actor)
