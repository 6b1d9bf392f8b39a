"""Plans, their execution, and tools for models without native tool calls.

`plan` is a graph of subtasks, `plan_run` their state, which is stored in the session. `execute`
carries a plan out, with `progress` (recording each change), `attempt` (one run of one subtask),
`references` (results in goals and arguments), `silence` (interrupting an agent that does nothing)
and `trace` (what an interrupted subtask left behind). `revision` defines planners and when a plan
is revised; `model_planner` asks a model, and `merge` reduces the number of subtasks. `recovery` is
the table of what to do about errors, `error_context` its vocabulary, and `watched_model` applies it
to a model's mistakes. `plan_and_execute` is an agent built from all of these.

`react` is an agent that thinks, acts and observes in plain text; `text_tools` gives tools to a
model without native tool calls, with `tool_prompt` (how the prompt describes them) and `live_text`
(what can be shown of a reply while it streams). `parse_action` parses a reply, with `outcome` (its
possible meanings) and `almost_json` (lenient JSON).
"""

from greenroom.planning.error_context import (
    Cause as Cause,
    Component as Component,
    Decision as Decision,
    ErrorClass as ErrorClass,
    ErrorContext as ErrorContext,
    Severity as Severity,
    classify as classify,
)
from greenroom.planning.execute import execute_plan as execute_plan
from greenroom.planning.model_planner import (
    ModelPlanner as ModelPlanner,
    describe_errors as describe_errors,
)
from greenroom.planning.outcome import Action as Action, Fault as Fault, FinalAnswer as FinalAnswer
from greenroom.planning.parse_action import parse_action as parse_action
from greenroom.planning.plan import Plan as Plan, Subtask as Subtask
from greenroom.planning.plan_and_execute import (
    find_open_run as find_open_run,
    is_answered as is_answered,
    plan_and_execute as plan_and_execute,
    run_task as run_task,
)
from greenroom.planning.plan_run import (
    PLAN_STEP as PLAN_STEP,
    FailureReason as FailureReason,
    PlanRun as PlanRun,
    SubtaskState as SubtaskState,
    SubtaskStatus as SubtaskStatus,
)
from greenroom.planning.react import react as react
from greenroom.planning.recovery import (
    RECOVERY_TABLE as RECOVERY_TABLE,
    RecoveryPolicy as RecoveryPolicy,
)
from greenroom.planning.references import fill as fill, references_in as references_in
from greenroom.planning.revision import (
    Failure as Failure,
    Planner as Planner,
    Recovered as Recovered,
    Recovery as Recovery,
    ReplanPolicy as ReplanPolicy,
)
from greenroom.planning.text_tools import TextTools as TextTools
from greenroom.planning.trace import (
    Trace as Trace,
    find_trace as find_trace,
    reopen as reopen,
    trace_worker as trace_worker,
)
