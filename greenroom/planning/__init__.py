"""Plans, their execution, and tools for models without native tool calls.

`plan` is a graph of subtasks; `plan_run` is their state, and records it in the session. `execute`
carries a plan out: `subtask_runner` runs one subtask once, `references` puts results into goals and
arguments, and `trace` finds out what an interrupted subtask left behind. `revision` defines
planners and when a plan is revised; `model_planner` asks a model. `recovery_policy` is the table of
what to do about errors, `error_context` its vocabulary, and `watched_model` applies it to a model's
mistakes.

`text_tools` gives tools to a model without native tool calls; `parse_action` parses its replies,
and `almost_json` the JSON in them. `agent_functions` has the agents built from all of these:
`plan_and_execute`, `run_task` and `react`.
"""

from greenroom.planning.agent_functions import (
    find_goal as find_goal,
    find_open_run as find_open_run,
    is_answered as is_answered,
    plan_and_execute as plan_and_execute,
    react as react,
    run_task as run_task,
)
from greenroom.planning.error_context import (
    Cause as Cause,
    Component as Component,
    ErrorClass as ErrorClass,
    ErrorContext as ErrorContext,
    RecoveryDecision as RecoveryDecision,
    Severity as Severity,
    classify as classify,
)
from greenroom.planning.execute import execute_plan as execute_plan
from greenroom.planning.model_planner import (
    ModelPlanner as ModelPlanner,
    describe_errors as describe_errors,
)
from greenroom.planning.parse_action import (
    Action as Action,
    Fault as Fault,
    FinalAnswer as FinalAnswer,
    parse_action as parse_action,
)
from greenroom.planning.plan import Plan as Plan, Subtask as Subtask
from greenroom.planning.plan_run import (
    PLAN_STEP as PLAN_STEP,
    FailureReason as FailureReason,
    PlanRun as PlanRun,
    SubtaskState as SubtaskState,
    SubtaskStatus as SubtaskStatus,
)
from greenroom.planning.recovery_policy import (
    RECOVERY_TABLE as RECOVERY_TABLE,
    RecoveryPolicy as RecoveryPolicy,
)
from greenroom.planning.references import fill as fill, references_in as references_in
from greenroom.planning.revision import (
    Failure as Failure,
    Planner as Planner,
    ReplanPolicy as ReplanPolicy,
    SubtaskDecision as SubtaskDecision,
    SubtaskRecovery as SubtaskRecovery,
)
from greenroom.planning.text_tools import TextTools as TextTools
from greenroom.planning.trace import (
    Trace as Trace,
    find_trace as find_trace,
    reopen as reopen,
    trace_worker as trace_worker,
)
