"""The result of an orchestrator: the answer, its sources, and a report about each agent."""

from collections.abc import Iterable, Sequence

import msgspec

from greenroom.core import Usage, Wire
from greenroom.planning import PlanRun
from greenroom.session import AgentSession

WORK = "team.work"
"""The kind of the records."""


class Stint(Wire, frozen=True):
    """One stretch of work of an agent, recorded in the orchestrator's session when it begins and ends.

    After a kill, the record shows which agent produced a result, but not its usage.

    Attributes:
        agent: its name.
        run: the number of the plan in the session, from 1.
        subtask: its subtask; empty if it helped another agent.
        session_id: its conversation.
        seconds: how long it took.
        usage: tokens of its model calls.
    """

    agent: str
    run: int
    subtask: str
    session_id: str
    seconds: float
    usage: Usage = Usage()


class Source(Wire, frozen=True):
    """Where a part of the answer comes from.

    Attributes:
        subtask: the subtask's id.
        agent: the agent that completed it; empty if the record was lost in a power failure.
        session_id: its conversation; likewise.
        result: the result, a JSON value.
    """

    subtask: str
    agent: str
    session_id: str
    result: object


class AgentReport(Wire, frozen=True):
    """A report about one agent.

    Attributes:
        agent: its name.
        completed: the ids of the subtasks that it completed.
        failed: how often it gave no result: it crashed, failed, was silent, or was interrupted.
        helped: how often it helped another agent.
        seconds: how long it worked.
        usage: tokens of its model calls.
    """

    agent: str
    completed: tuple[str, ...] = ()
    failed: int = 0
    helped: int = 0
    seconds: float = 0.0
    usage: Usage = Usage()


class TeamResult(Wire, frozen=True):
    """The result of an orchestrator's turn.

    Attributes:
        answer: the answer, a text.
        sources: the results that it is based on, in the plan's order.
        reports: a report about every agent, in the team's order.
        missing: why subtasks could not be done, by id.
    """

    answer: str
    sources: tuple[Source, ...]
    reports: tuple[AgentReport, ...]
    missing: dict[str, str] = {}


def read_stints(session: AgentSession, number: int) -> tuple[Stint, ...]:
    """Return the stints of a run, oldest first, each by its last record."""
    stints = (msgspec.convert(record, Stint) for record in session.records(WORK))
    return tuple({each.session_id: each for each in stints if each.run == number}.values())


def find_sources(run: PlanRun, stints: Iterable[Stint]) -> tuple[Source, ...]:
    """Return the source of each result, in the plan's order."""
    last = {stint.subtask: stint for stint in stints}
    unknown = Stint("", 0, "", "", 0.0)
    found = ((last.get(id_, unknown), id_, result) for id_, result in run.results.items())
    return tuple(Source(id_, by.agent, by.session_id, result) for by, id_, result in found)


def make_report(agent: str, stints: Sequence[Stint], sources: Sequence[Source]) -> AgentReport:
    """Return the report about one agent."""
    own = [stint for stint in stints if stint.agent == agent]
    completed = tuple(source.subtask for source in sources if source.agent == agent)
    helped = sum(not stint.subtask for stint in own)
    return AgentReport(
        agent,
        completed,
        len(own) - helped - len(completed),
        helped,
        sum(stint.seconds for stint in own),
        sum((stint.usage for stint in own), Usage()),
    )
