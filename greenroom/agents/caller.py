"""The caller: what an agent passes down to the agents that its tools and functions run."""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from greenroom.agents.agent_result import RunReport
from greenroom.core import AgentContext, ConfigurationError
from greenroom.permissions import PermissionManager

if TYPE_CHECKING:
    from greenroom.runtime import AgentInternals
    from greenroom.session import SessionStore

MAX_DEPTH = 8
"""How many `Agent`s may run inside of each other; a tool that runs its own agent would never end."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """What an agent that runs tools passes down to the agents that these run.

    Attributes:
        permissions: what its calls are held to.
        context: for whom its rules are asked.
        store: where its session lives.
        report: that of the innermost `Agent`; it gets the denials, and links to the reports above.
    """

    permissions: PermissionManager | None = None
    context: AgentContext | None = None
    store: "SessionStore | None" = None
    report: RunReport | None = None

    @property
    def agents(self) -> tuple[object, ...]:
        """The `Agent`s inside of which the code runs, from the outermost."""
        return self.report.agents if self.report else ()


_NOBODY = Caller()
_caller: ContextVar[Caller] = ContextVar("greenroom_caller", default=_NOBODY)


def pass_permissions(
    agent: "AgentInternals", permissions: PermissionManager
) -> AbstractContextManager[None]:
    """Let these permissions hold for the agents that the block runs."""
    store = agent.session.store
    caller = replace(current_caller(), permissions=permissions, context=agent.context, store=store)
    return _pass_down(caller)


def report_to(report: RunReport) -> AbstractContextManager[None]:
    """Let the agents that the block runs tell this report of their denials."""
    return _pass_down(replace(current_caller(), report=report))


@contextmanager
def _pass_down(caller: Caller) -> Iterator[None]:
    token = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(token)


def current_caller() -> Caller:
    """Return what the agent around the code passes down.

    A task of the application's may inherit it without being part of that agent: see `caller_of`.
    """
    return _caller.get()


def caller_of(context: AgentContext) -> Caller:
    """Return what is passed down to an agent; nothing if it is not a subagent."""
    return _NOBODY if context.parent_session_id is None else current_caller()


def under_caller(
    own: PermissionManager, context: AgentContext, consents: Iterable[str]
) -> PermissionManager:
    """Return what holds for an agent: its own permissions, and for a subagent those of its caller too.

    Args:
        own: its own.
        context: the agent's.
        consents: names of the functions that the program has passed, and so agreed to.
    """
    caller = caller_of(context)
    if caller.permissions is None or caller.context is None:
        return own
    return own.beneath(caller.permissions, context=caller.context, consents=consents)


@contextmanager
def note_turn(report: RunReport, agent: object, context: AgentContext) -> Iterator[None]:
    """Let the block be a turn of an agent: write down who waits, what is denied to whom, and what ends it."""
    caller = caller_of(
        context
    )  # a root that another agent's tool has started is held to none of its rules
    report.above, report.agent = caller.report, agent
    try:
        with _pass_down(replace(caller, report=report)):
            yield
    except BaseException as error:
        report.fail(error)
        raise


def find_circle(agent: object) -> str:
    """Return the chain of agents that wait for each other, if it would lead to one of them; else nothing."""
    waiting = current_caller().agents
    speakers = [getattr(each, "speaker", each) for each in waiting]
    if getattr(agent, "speaker", agent) not in speakers:
        return ""
    return " → ".join(str(getattr(each, "name", each)) for each in (*waiting, agent))


def check_depth(agent: object, above: tuple[object, ...]) -> None:
    """Refuse to run an agent inside of too many others.

    Raises:
        ConfigurationError: there are too many.
    """
    if len(above) >= MAX_DEPTH:
        names = " → ".join(str(getattr(each, "name", each)) for each in (*above, agent))
        raise ConfigurationError(
            f"{MAX_DEPTH} agents run inside of each other: {names}",
            hint="does an agent run itself, over one of its tools?",
        )
