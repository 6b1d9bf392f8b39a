"""Several agents: each pattern is a function that returns an agent function, so they nest.

`orchestrator` plans, gives subtasks to workers and answers with what they find: `orchestrator_crew` says who
does what, and who takes over; `orchestrator_report` has what it comes to. `committee` puts one question to
several agents, and `conflict` has the strategies that make one answer of theirs. `worker` is what a team
knows of an agent.
"""

from greenroom.teams.committee import Committee as Committee, committee as committee
from greenroom.teams.conflict import (
    AgentAnswer as AgentAnswer,
    Opinion as Opinion,
    Resolution as Resolution,
    Strategy as Strategy,
    ask_person as ask_person,
    by_authority as by_authority,
    majority as majority,
    most_confident as most_confident,
    resolve as resolve,
    verify as verify,
    within as within,
)
from greenroom.teams.orchestrator import Orchestrator as Orchestrator, orchestrator as orchestrator
from greenroom.teams.orchestrator_report import (
    AgentReport as AgentReport,
    Source as Source,
    TeamResult as TeamResult,
)
from greenroom.teams.worker import AgentFunction as AgentFunction, Worker as Worker

__all__ = [
    "AgentAnswer",
    "AgentFunction",
    "AgentReport",
    "Committee",
    "Opinion",
    "Orchestrator",
    "Resolution",
    "Source",
    "Strategy",
    "TeamResult",
    "Worker",
    "ask_person",
    "by_authority",
    "committee",
    "majority",
    "most_confident",
    "orchestrator",
    "resolve",
    "verify",
    "within",
]
