"""Teams: several agents that run, nest and are delegated to like a single `Agent`.

`members` starts and ends the agents of a team, as far as there is room. `pattern` wraps several
agents in one agent function; `combinators` has `pipeline`, `parallel` and `loop`. `handoff_team`
lets agents hand one conversation over to each other. `composite` makes one tool out of several.

`workflow` is a graph of functions and agents over one typed state: `workflow_graph` (nodes and
edges, and their checks), `workflow_state` (fields, reducers), `workflow_execution` (running the
steps) and `workflow_run` (records, and loading them).

`orchestrator` plans, gives subtasks to workers and answers with their results; `orchestrator_crew`
assigns subtasks to workers. `committee` puts one question to several agents, and has the strategies
that resolve their answers.

`topic` publishes messages to the mailboxes of all members; `agent_message` is such a message.
`blackboard` keeps values that several agents read and write.
"""

from greenroom.teams.agent_message import (
    AgentMessage as AgentMessage,
    ErrorReport as ErrorReport,
    Payload as Payload,
    SharedInformation as SharedInformation,
    StatusUpdate as StatusUpdate,
    TaskRequest as TaskRequest,
    TaskResponse as TaskResponse,
)
from greenroom.teams.blackboard import (
    Blackboard as Blackboard,
    BlackboardEntry as BlackboardEntry,
    BlackboardStatistics as BlackboardStatistics,
)
from greenroom.teams.combinators import (
    LOOP_ROUND as LOOP_ROUND,
    loop as loop,
    parallel as parallel,
    pipeline as pipeline,
)
from greenroom.teams.committee import (
    AgentAnswer as AgentAnswer,
    Opinion as Opinion,
    Resolution as Resolution,
    Strategy as Strategy,
    ask_person as ask_person,
    by_authority as by_authority,
    committee as committee,
    majority as majority,
    most_confident as most_confident,
    resolve as resolve,
    verify as verify,
    within as within,
)
from greenroom.teams.composite import Composite as Composite, composite as composite
from greenroom.teams.handoff_team import (
    HandoffTeam as HandoffTeam,
    TeamModel as TeamModel,
    handoff_team as handoff_team,
)
from greenroom.teams.members import (
    Member as Member,
    ask_member as ask_member,
    name_members as name_members,
    name_of as name_of,
    start_member as start_member,
)
from greenroom.teams.orchestrator import (
    AgentReport as AgentReport,
    Orchestrator as Orchestrator,
    Source as Source,
    TeamResult as TeamResult,
    orchestrator as orchestrator,
)
from greenroom.teams.orchestrator_crew import CrewMember as CrewMember
from greenroom.teams.pattern import (
    Pattern as Pattern,
    TeamTurn as TeamTurn,
    Work as Work,
    output_of as output_of,
)
from greenroom.teams.topic import (
    Delivery as Delivery,
    DeliveryStatus as DeliveryStatus,
    Topic as Topic,
    TopicStatistics as TopicStatistics,
    WhenFull as WhenFull,
)
from greenroom.teams.workflow import Workflow as Workflow, WorkflowStream as WorkflowStream
from greenroom.teams.workflow_execution import request_approval as request_approval
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
