"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.flow.agent_message import SharedInformation as SharedInformation
from greenroom.flow.blackboard import BlackboardEntry as BlackboardEntry
from greenroom.flow.error_context import (
    Component as Component,
    ErrorClass as ErrorClass,
    RecoveryDecision as RecoveryDecision,
)
from greenroom.flow.errors import (
    BlackboardFullError as BlackboardFullError,
    PlanError as PlanError,
    TeamError as TeamError,
    WorkflowError as WorkflowError,
    WorkflowLimitError as WorkflowLimitError,
)
from greenroom.flow.members import (
    Member as Member,
    ask_member as ask_member,
    start_member as start_member,
)
from greenroom.flow.orchestrator import TeamResult as TeamResult
from greenroom.flow.parse_action import Fault as Fault
from greenroom.flow.plan_run import (
    PLAN_STEP as PLAN_STEP,
    FailureReason as FailureReason,
    SubtaskState as SubtaskState,
    SubtaskStatus as SubtaskStatus,
)
from greenroom.flow.recovery_policy import RECOVERY_TABLE as RECOVERY_TABLE
from greenroom.flow.resume import Trace as Trace
from greenroom.flow.revision import SubtaskRecovery as SubtaskRecovery
from greenroom.flow.strategies import (
    AgentAnswer as AgentAnswer,
    Resolution as Resolution,
    find_contradictions as find_contradictions,
)
from greenroom.flow.topic import Delivery as Delivery, DeliveryStatus as DeliveryStatus
from greenroom.flow.wrapped_agent import WrappedAgent as WrappedAgent
