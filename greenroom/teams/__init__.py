"""Several agents as one: they run, nest and are delegated to like an `Agent`.

`members` starts agents where there is room for them, and ends them: the one place for all that start
several. `pattern` is several agents as one agent function; `patterns` has those that are one after the
other, side by side, and again until it is good. `handoff_team` passes one conversation on, also to several as one (`team_model`). `composite`
makes one tool of several.

`workflow` is a graph of functions and agents over one typed state: `workflow_graph` (its nodes and edges, and
whether they make sense), `workflow_state` (fields, reducers), `workflow_execution` (step by step) and
`workflow_run` (what is on record, and read back).
"""

from greenroom.teams.composite import Composite as Composite, composite as composite
from greenroom.teams.handoff_team import HandoffTeam as HandoffTeam, handoff_team as handoff_team
from greenroom.teams.members import (
    Member as Member,
    ask_member as ask_member,
    name_members as name_members,
    name_of as name_of,
    working as working,
)
from greenroom.teams.pattern import (
    Pattern as Pattern,
    TeamTurn as TeamTurn,
    Work as Work,
    as_text as as_text,
    output_of as output_of,
)
from greenroom.teams.patterns import (
    LOOP_ROUND as LOOP_ROUND,
    loop as loop,
    parallel as parallel,
    pipeline as pipeline,
)
from greenroom.teams.team_model import TeamModel as TeamModel
from greenroom.teams.workflow import Workflow as Workflow, WorkflowStream as WorkflowStream
from greenroom.teams.workflow_execution import ask_person as ask_person
from greenroom.teams.workflow_run import (
    WORKFLOW_NODE as WORKFLOW_NODE,
    WORKFLOW_STEP as WORKFLOW_STEP,
    WorkflowRun as WorkflowRun,
    WorkflowStep as WorkflowStep,
)
from greenroom.teams.workflow_state import (
    END as END,
    START as START,
    add_messages as add_messages,
)

__all__ = [
    "END",
    "LOOP_ROUND",
    "START",
    "WORKFLOW_NODE",
    "WORKFLOW_STEP",
    "Composite",
    "HandoffTeam",
    "Member",
    "Pattern",
    "TeamModel",
    "TeamTurn",
    "Work",
    "Workflow",
    "WorkflowRun",
    "WorkflowStep",
    "WorkflowStream",
    "add_messages",
    "as_text",
    "ask_member",
    "ask_person",
    "composite",
    "handoff_team",
    "loop",
    "name_members",
    "name_of",
    "output_of",
    "parallel",
    "pipeline",
    "working",
]
