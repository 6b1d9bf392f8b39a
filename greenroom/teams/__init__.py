"""Several agents: what lets them work on one thing together.

`workflow` is a graph of functions and agents over one typed state: `workflow_graph` (its nodes and edges, and
whether they make sense), `workflow_state` (fields, reducers), `workflow_execution` (step by step) and
`workflow_run` (what is on record, and read back).
"""

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
    "START",
    "WORKFLOW_NODE",
    "WORKFLOW_STEP",
    "Workflow",
    "WorkflowRun",
    "WorkflowStep",
    "WorkflowStream",
    "add_messages",
    "ask_person",
]
