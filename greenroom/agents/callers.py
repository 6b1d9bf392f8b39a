"""What an agent passes down to the agents that its tools run: rules, report, session.

`Caller` is a value in a context variable, so a tool of the program needs to know nothing of it.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

import msgspec
from msgspec.structs import replace

from greenroom.agents.agent_result import RunReport
from greenroom.agents.cut_off import NestedRuns
from greenroom.core import AgentContext, ConfigurationError
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentInternals
from greenroom.session import AgentSession, SessionStore

MAX_DEPTH = 8
"""How deep `Agent`s may be nested: a tool that runs its own agent would never end."""


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent passes down to the agents that its tools run.

    Attributes:
        permissions: the permissions that hold for its calls.
        context: the context that its rules are applied in.
        session: its session.
        report: the report of the innermost `Agent`, linked to those of the agents above.
        runs: the runs of the tool call that the code is in.
    """

    permissions: PermissionManager | None = None
    context: AgentContext | None = None
    session: AgentSession | None = None
    report: RunReport | None = None
    runs: NestedRuns | None = None

    @property
    def store(self) -> SessionStore | None:
        """Where its session lives."""
        return self.session.store if self.session else None

    @property
    def agents(self) -> tuple[object, ...]:
        """The `Agent`s that the code runs inside, from the outermost."""
        return self.report.agents if self.report else ()


_NO_CALLER = Caller()
_caller: ContextVar[Caller] = ContextVar("greenroom_caller", default=_NO_CALLER)


def pass_permissions(
    agent: AgentInternals, permissions: PermissionManager
) -> AbstractContextManager[None]:
    """Apply these permissions to the agents that the block runs."""
    context, session = agent.context, agent.session
    caller = replace(
        current_caller(), permissions=permissions, context=context, session=session, runs=None
    )
    return _PassDown(caller)


def continue_runs(*source: str) -> AbstractContextManager[None]:
    """Let agents that the block runs go on in the sessions of those that it ran before a kill.

    Args:
        *source: ids that tell this piece of work from others of the session, such as that of a
            call; if there are none, agents begin new sessions.
    """
    caller = current_caller()
    runs = NestedRuns(caller.session, source) if caller.session else None
    return _PassDown(replace(caller, runs=runs))


def report_to(report: RunReport) -> AbstractContextManager[None]:
    """List the denials of agents that the block runs in this report as well."""
    return _PassDown(replace(current_caller(), report=report))


class _PassDown:
    """Pass this down to the agents that the block runs."""

    __slots__ = ("_caller", "_token")

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def __enter__(self) -> None:
        self._token = _caller.set(self._caller)

    def __exit__(self, *_error: object) -> None:
        _caller.reset(self._token)


def current_caller() -> Caller:
    """Return what the agent around the code passes down.

    A task of the application may inherit it without being part of that agent: see `find_caller`.
    """
    return _caller.get()


def find_caller(context: AgentContext) -> Caller:
    """Return what is passed down to an agent; an empty `Caller` if it is not a subagent."""
    return _NO_CALLER if context.parent_session_id is None else current_caller()


def limit_to_caller(
    own: PermissionManager, context: AgentContext, consents: Iterable[str]
) -> PermissionManager:
    """Return an agent's permissions, which for a subagent are limited by its caller's.

    Args:
        own: the agent's own permissions.
        context: the agent's context.
        consents: the names of functions that the program consented to by passing them.
    """
    caller = find_caller(context)
    if caller.permissions is None or caller.context is None:
        return own
    return own.beneath(caller.permissions, context=caller.context, consents=consents)


@contextmanager
def track_turn(report: RunReport, agent: object, context: AgentContext) -> Iterator[None]:
    """Report the block as a turn of an agent: who waits for it, what is denied, how it ends."""
    # A root agent that another agent's tool started is not held to that agent's rules.
    caller = find_caller(context)
    report.above, report.agent = caller.report, agent
    try:
        with _PassDown(replace(caller, report=report)):
            yield
    except BaseException as error:
        report.fail(error)
        raise


def find_cycle(agent: object) -> str:
    """Return the cycle of waiting agents that a run of this one would close, or an empty text."""
    waiting = current_caller().agents
    identities = [getattr(each, "identity", each) for each in waiting]
    if getattr(agent, "identity", agent) not in identities:
        return ""
    return " → ".join(str(getattr(each, "name", each)) for each in (*waiting, agent))


def check_depth(agent: object, above: tuple[object, ...]) -> None:
    """Refuse to run an agent inside too many others.

    Raises:
        ConfigurationError: there are too many.
    """
    if len(above) >= MAX_DEPTH:
        names = " → ".join(str(getattr(each, "name", each)) for each in (*above, agent))
        raise ConfigurationError(
            f"{MAX_DEPTH} agents run inside each other: {names}",
            hint="check whether an agent runs itself through one of its tools",
        )
