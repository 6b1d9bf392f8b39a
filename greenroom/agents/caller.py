"""The caller: what holds for the agent in whose tool call an `Agent` is run, and in whose an agent is."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from greenroom.agents.agent_result import RunReport
from greenroom.core import AgentContext, ConfigurationError
from greenroom.permissions import PermissionManager

if TYPE_CHECKING:
    from greenroom.runtime import AgentInternals
    from greenroom.session import SessionStore

__all__ = [
    "MAX_DEPTH",
    "Caller",
    "calling",
    "chain",
    "current_caller",
    "current_report",
    "join_chain",
    "reporting_to",
    "under_caller",
]

MAX_DEPTH = 8
"""How many `Agent`s may run inside of each other; a tool that runs its own agent would never end."""


@dataclass(frozen=True)
class Caller:
    """What an agent that runs tools passes down to the agents that these run.

    Attributes:
        permissions: what its calls are held to.
        context: for whom its rules are asked.
        store: where its session lives.
    """

    permissions: PermissionManager
    context: AgentContext
    store: "SessionStore | None"


_caller: ContextVar[Caller | None] = ContextVar("greenroom_caller", default=None)
_report: ContextVar[RunReport | None] = ContextVar("greenroom_report", default=None)
_chain: ContextVar[tuple[object, ...]] = ContextVar("greenroom_chain", default=())


@contextmanager
def calling(agent: "AgentInternals", permissions: PermissionManager) -> Iterator[None]:
    """Let these permissions hold for whatever agents the block runs."""
    token = _caller.set(Caller(permissions, agent.context, agent.session.store))
    try:
        yield
    finally:
        _caller.reset(token)


def current_caller() -> Caller | None:
    """Return what the calling agent passes down; for code of a subagent only.

    A task of the application's may inherit it without being part of that agent.
    """
    return _caller.get()


def under_caller(
    own: PermissionManager, context: AgentContext, consents: Iterable[str]
) -> PermissionManager:
    """Return what holds for an agent: its own permissions, and for a subagent those of its caller too.

    Args:
        own: its own.
        context: the agent's.
        consents: names of the functions that the program has passed, and so agreed to.
    """
    caller = current_caller() if context.parent_session_id is not None else None
    if caller is None:
        return own
    return own.beneath(caller.permissions, context=caller.context, consents=consents)


@contextmanager
def reporting_to(report: RunReport) -> Iterator[None]:
    """Let the agents that the block runs tell this report of their denials."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def current_report() -> RunReport | None:
    """Return the report of the calling agent; meant for subagents alone, as `current_caller` is."""
    return _report.get()


def chain() -> tuple[object, ...]:
    """Return the `Agent`s inside of which the code runs, from the outermost."""
    return _chain.get()


def join_chain(agent: object, above: tuple[object, ...]) -> None:
    """Say that this task, and all that it starts, is part of an `Agent`, below these others.

    Raises:
        ConfigurationError: too many run inside of each other.
    """
    if len(above) >= MAX_DEPTH:
        names = " → ".join(str(getattr(each, "name", each)) for each in (*above, agent))
        raise ConfigurationError(
            f"{MAX_DEPTH} agents run inside of each other: {names}",
            hint="does an agent run itself, over one of its tools?",
        )
    _chain.set((*above, agent))
