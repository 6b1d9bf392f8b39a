"""How the tree of a runtime is taken: one walk over its agents that changes nothing and never waits."""

import math
from typing import TYPE_CHECKING

import trio

from greenroom.runtime.introspection.tree import (
    AgentNode,
    OpenPrompt,
    OpenTool,
    OpenWait,
    RuntimeTree,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from greenroom.resilience import Budget
    from greenroom.runtime.actor import Actor
    from greenroom.runtime.registry import Registry


def take_tree(registry: "Registry", limit: int) -> RuntimeTree:
    """Describe the first `limit` agents, each with its subagents before the next root."""
    running = len(registry)
    if not running:
        return RuntimeTree(0, ())
    walk = _Walk(limit)
    agents = walk.nodes(registry.roots)
    return RuntimeTree(running, agents, running - walk.taken)


def budgets_left(actor: "Actor") -> "tuple[Mapping[str, float], ...]":
    """Say what is left of each budget that an agent has set, its time in seconds included."""
    return tuple(_left(budget) for budget in actor.budgets.own)


def _left(budget: "Budget") -> "dict[str, float]":
    left: dict[str, float] = dict(budget.left.items())
    if budget.deadline != math.inf:
        left["seconds"] = max(budget.deadline - trio.current_time(), 0.0)
    return left


def _supervisor(actor: "Actor") -> str:
    names = []
    above = actor.member.parent if actor.member else None
    while above is not None:
        names.append(above.name)
        above = above.parent
    return "/".join(reversed(names))


class _Walk:
    """A walk that ends after so many agents."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._now = trio.current_time()
        self.taken = 0

    def nodes(self, actors: "Iterable[Actor]") -> tuple[AgentNode, ...]:
        found = []
        for actor in actors:
            if self.taken >= self._limit:
                break
            self.taken += 1
            found.append(self._node(actor))
        return tuple(found)

    def _node(self, actor: "Actor") -> AgentNode:
        turn = actor.turns.current
        readers = tuple(actor.subscriptions)
        return AgentNode(
            session_id=actor.session.session_id,
            name=actor.name,
            agent_type=actor.session.agent_type,
            state=actor.state,
            turn=actor.turns.count if turn else None,
            step=turn.steps if turn else 0,
            tools=self._tools(actor),
            prompts=tuple(
                OpenPrompt(each.request_id, each.tool_name) for each in actor.approvals.open
            ),
            waits=tuple(
                OpenWait(wait.method, wait.target.session.session_id, self._now - wait.since)
                for wait in actor.waits
            ),
            mailbox=len(actor.mailbox),
            mailbox_limit=actor.limits.mailbox,
            subscribers=len(readers),
            largest_lag=max((reader.lag for reader in readers), default=0),
            budgets=budgets_left(actor),
            epoch=actor.epoch,
            usage=actor.output.usage,
            supervisor=_supervisor(actor),
            restarting=actor.member is not None and actor.member.is_parked,
            children=self.nodes(actor.children),
        )

    def _tools(self, actor: "Actor") -> tuple[OpenTool, ...]:
        return tuple(
            OpenTool(key, tool.name, self._now - tool.since)
            for key, tool in actor.output.open_tools.items()
        )
