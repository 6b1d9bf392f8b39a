"""Work of several steps or several agents that lasts: plans, workflows, teams.

A run is made of units of work (`unit`), whose starts and ends are records of the session of the
agent that runs them. `resume` finds out what a unit that was cut off left behind, and asks a person
where that is in doubt. `members` starts agents, as far as there is room.

`graph` checks and draws graphs of names. `plan` is one of subtasks; `plan_run` is their state.
`execute` carries a plan out: `subtask_runner` runs one subtask once, and `references` puts results
into goals and arguments. `revision` defines planners and when a plan is revised, `model_planner`
asks a model, and `review` a person; `escalate` asks the next one where somebody is silent. `undo`
undoes what a failed plan has done.
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

from greenroom.flow.agent_message import (
    AgentMessage as AgentMessage,
    ErrorReport as ErrorReport,
    Payload as Payload,
    SharedInformation as SharedInformation,
    StatusUpdate as StatusUpdate,
    TaskRequest as TaskRequest,
    TaskResponse as TaskResponse,
)
from greenroom.flow.blackboard import Blackboard as Blackboard, BlackboardEntry as BlackboardEntry
from greenroom.flow.combinators import loop as loop, parallel as parallel, pipeline as pipeline
from greenroom.flow.committee import Ruling as Ruling, committee as committee
from greenroom.flow.composite import Composite as Composite, composite as composite
from greenroom.flow.error_context import (
    Component as Component,
    ErrorClass as ErrorClass,
    ErrorContext as ErrorContext,
    RecoveryDecision as RecoveryDecision,
    Severity as Severity,
    classify as classify,
)
from greenroom.flow.escalation import escalate as escalate
from greenroom.flow.execute import execute_plan as execute_plan
from greenroom.flow.handoff_team import HandoffTeam as HandoffTeam, handoff_team as handoff_team
from greenroom.flow.members import (
    Member as Member,
    ask_member as ask_member,
    start_member as start_member,
)
from greenroom.flow.model_planner import ModelPlanner as ModelPlanner
from greenroom.flow.orchestrator import (
    AgentReport as AgentReport,
    Source as Source,
    TeamResult as TeamResult,
    orchestrator as orchestrator,
)
from greenroom.flow.parse_action import (
    Action as Action,
    Fault as Fault,
    FinalAnswer as FinalAnswer,
    parse_action as parse_action,
)
from greenroom.flow.pattern import Pattern as Pattern, TeamTurn as TeamTurn, Work as Work
from greenroom.flow.plan import Plan as Plan, Subtask as Subtask
from greenroom.flow.plan_and_execute import (
    plan_and_execute as plan_and_execute,
    run_task as run_task,
)
from greenroom.flow.plan_run import (
    PLAN_STEP as PLAN_STEP,
    FailureReason as FailureReason,
    PlanRun as PlanRun,
    SubtaskState as SubtaskState,
    SubtaskStatus as SubtaskStatus,
)
from greenroom.flow.react import React as React, react as react
from greenroom.flow.recovery_policy import (
    RECOVERY_TABLE as RECOVERY_TABLE,
    RecoveryPolicy as RecoveryPolicy,
)
from greenroom.flow.resume import is_answered as is_answered
from greenroom.flow.review import ReviewPoint as ReviewPoint
from greenroom.flow.revision import (
    Failure as Failure,
    Planner as Planner,
    ReplanPolicy as ReplanPolicy,
    SubtaskDecision as SubtaskDecision,
    SubtaskRecovery as SubtaskRecovery,
)
from greenroom.flow.strategies import (
    AgentAnswer as AgentAnswer,
    Contradiction as Contradiction,
    Opinion as Opinion,
    Resolution as Resolution,
    Strategy as Strategy,
    TrackRecord as TrackRecord,
    ask_person as ask_person,
    by_authority as by_authority,
    find_contradictions as find_contradictions,
    majority as majority,
    most_confident as most_confident,
    resolve as resolve,
    verify as verify,
    within as within,
)
from greenroom.flow.task_queue import TaskQueue as TaskQueue
from greenroom.flow.text_tools import TextTools as TextTools
from greenroom.flow.topic import (
    Delivery as Delivery,
    DeliveryStatus as DeliveryStatus,
    Topic as Topic,
    TopicStatistics as TopicStatistics,
    WhenFull as WhenFull,
)
from greenroom.flow.undo import Undo as Undo, undo_plan as undo_plan
from greenroom.flow.workflow import Workflow as Workflow, WorkflowOptions as WorkflowOptions
from greenroom.flow.workflow_execution import request_approval as request_approval
from greenroom.flow.workflow_run import WorkflowRun as WorkflowRun, WorkflowStep as WorkflowStep
from greenroom.flow.workflow_state import END as END, START as START, add_messages as add_messages
from greenroom.flow.workflow_stream import WorkflowStream as WorkflowStream
