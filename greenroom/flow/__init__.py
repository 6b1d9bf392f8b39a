"""Work of several steps or several agents that lasts: plans, workflows, teams.

A run is made of units of work (`unit`), whose starts and ends are records of the session of the
agent that runs them. `resume` finds out what a unit that was cut off left behind, and asks a person
where that is in doubt. `members` starts agents, as far as there is room.

`graph` checks and draws graphs of names. `plan` is one of subtasks; `plan_run` is their state.
`execute` carries a plan out: `subtask_runner` runs one subtask once, and `references` puts results
into goals and arguments. `revision` defines planners and when a plan is revised, `model_planner`
asks a model, and `review` asks a person; `escalate` asks the next person if one does not answer.
`plan_and_execute` is an agent made of all of these.

`workflow` is a graph of functions and agents over one typed state: `workflow_graph` (nodes and
edges, and their checks), `workflow_state` (fields, reducers), `workflow_execution` (running the
steps) and `workflow_run` (records, and loading them).

`pattern` wraps several agents in one agent function, which asks them in `talk`s; `combinators` has
`pipeline`, `parallel` and `loop`. `handoff_team` lets agents hand one conversation over to each
other. `composite` makes one tool out of several. `orchestrator` plans, gives subtasks to workers
and answers with their results; `orchestrator_crew` assigns subtasks to workers. `committee` puts
one question to several agents, and has the strategies that resolve their answers.

`recovery_policy` is the table of what to do about errors, `error_context` its vocabulary, and
`watched_model` applies it to a model's mistakes. `topic` publishes messages to the mailboxes of all
members; `agent_message` is such a message. `blackboard` keeps values that several agents read and
write. `text_tools` gives tools to a model without native tool calls, `react` is an agent with them;
`parse_action` parses replies, and `almost_json` the JSON in them.
"""

from greenroom.flow.agent_message import AgentMessage, TaskRequest
from greenroom.flow.blackboard import Blackboard
from greenroom.flow.combinators import loop, parallel, pipeline
from greenroom.flow.committee import committee
from greenroom.flow.composite import composite
from greenroom.flow.errors import ConflictError, StaleWriteError
from greenroom.flow.escalation import escalate
from greenroom.flow.execute import execute_plan
from greenroom.flow.handoff_team import handoff_team
from greenroom.flow.model_planner import ModelPlanner
from greenroom.flow.orchestrator import orchestrator
from greenroom.flow.parse_action import Action, FinalAnswer, parse_action
from greenroom.flow.pattern import Pattern, TeamTurn
from greenroom.flow.plan import Plan, Subtask
from greenroom.flow.plan_and_execute import plan_and_execute, run_task
from greenroom.flow.plan_run import PlanRun
from greenroom.flow.react import react
from greenroom.flow.recovery_policy import RecoveryPolicy
from greenroom.flow.revision import Failure, Planner, ReplanPolicy
from greenroom.flow.strategies import (
    Opinion,
    TrackRecord,
    ask_person,
    by_authority,
    majority,
    most_confident,
    resolve,
    verify,
    within,
)
from greenroom.flow.task_queue import TaskQueue
from greenroom.flow.text_tools import TextTools
from greenroom.flow.topic import Topic
from greenroom.flow.workflow import Workflow
from greenroom.flow.workflow_execution import request_approval
from greenroom.flow.workflow_run import WorkflowRun
from greenroom.flow.workflow_state import END, START, add_messages

__all__ = [
    "END",
    "START",
    "Action",
    "AgentMessage",
    "Blackboard",
    "ConflictError",
    "Failure",
    "FinalAnswer",
    "ModelPlanner",
    "Opinion",
    "Pattern",
    "Plan",
    "PlanRun",
    "Planner",
    "RecoveryPolicy",
    "ReplanPolicy",
    "StaleWriteError",
    "Subtask",
    "TaskQueue",
    "TaskRequest",
    "TeamTurn",
    "TextTools",
    "Topic",
    "TrackRecord",
    "Workflow",
    "WorkflowRun",
    "add_messages",
    "ask_person",
    "by_authority",
    "committee",
    "composite",
    "escalate",
    "execute_plan",
    "handoff_team",
    "loop",
    "majority",
    "most_confident",
    "orchestrator",
    "parallel",
    "parse_action",
    "pipeline",
    "plan_and_execute",
    "react",
    "request_approval",
    "resolve",
    "run_task",
    "verify",
    "within",
]
