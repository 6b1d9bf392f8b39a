"""What an orchestrator answers with: the text, who has found what, and what each agent has done."""

from collections.abc import Iterable, Sequence

import msgspec

from greenroom.core import Usage, Wire
from greenroom.planning import PlanRun
from greenroom.session import AgentSession

WORK = "team.work"
"""The kind of the records."""


class Stint(Wire, frozen=True):
    """What one agent has done in one go: a record in the orchestrator's session, when it begins and when it ends.

    So it is known whose result that is which is found after a kill; of what it has used, nothing is known then.

    Attributes:
        agent: its name.
        run: which plan of the session that was, from 1 on.
        subtask: on which subtask it has worked; empty where it has helped another agent.
        session_id: its conversation.
        seconds: how long that took.
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
        agent: who has completed it; empty where a power failure has left the result and not that.
        session_id: the conversation in which it was found; empty as well then.
        result: what it came to, a JSON value.
    """

    subtask: str
    agent: str
    session_id: str
    result: object


class AgentReport(Wire, frozen=True):
    """What one agent has done.

    Attributes:
        agent: its name.
        completed: the ids of the subtasks that it has completed.
        failed: how often it did not come to a result: it crashed, failed, was silent, or was interrupted.
        helped: how often it has helped another agent.
        seconds: how long it has worked.
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
        sources: the results that it rests on, in the plan's order.
        reports: what each agent has done, in the team's order; those that were not needed as well.
        missing: what could not be done, and why, by the subtasks' ids.
    """

    answer: str
    sources: tuple[Source, ...]
    reports: tuple[AgentReport, ...]
    missing: dict[str, str] = {}


def read_stints(session: AgentSession, number: int) -> tuple[Stint, ...]:
    """Return what has been done for a run, oldest first; of each stint what was written last."""
    stints = (msgspec.convert(record, Stint) for record in session.records(WORK))
    return tuple({each.session_id: each for each in stints if each.run == number}.values())


def find_sources(run: PlanRun, stints: Iterable[Stint]) -> tuple[Source, ...]:
    """Say who has completed what, in the plan's order."""
    last = {stint.subtask: stint for stint in stints}
    unknown = Stint("", 0, "", "", 0.0)
    found = ((last.get(id_, unknown), id_, result) for id_, result in run.results.items())
    return tuple(Source(id_, by.agent, by.session_id, result) for by, id_, result in found)


def make_report(agent: str, stints: Sequence[Stint], sources: Sequence[Source]) -> AgentReport:
    """Say what one agent has done."""
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
