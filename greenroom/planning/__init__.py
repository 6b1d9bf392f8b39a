"""From a goal to finished work: plans, what carries them out, and tools for models that have none.

`plan` is a graph of subtasks, `plan_run` what became of them, a value that is read back from the session.
`execute` carries a plan out, with `progress` (the run, written down as it changes), `attempt` (one subtask,
run once), `references` (results in goals and arguments), `silence` (an agent that does nothing) and `trace`
(what a subtask that was cut off has left behind). `revision` says who makes and revises plans and when;
`model_planner` lets a model do it, and `merge` makes fewer subtasks of too many. `recovery` is the table of
what is done about errors, `error_context` its words, and `watched_model` looks up in it what a model does
wrong.
`plan_and_execute` is an agent of all of these.

`react` is an agent that thinks, acts and observes in words; `text_tools` gives tools to a model that
has none of its own, with `tool_prompt` (how the prompt describes them) and `live_text` (what of a reply may be shown
while it comes). `parse_action` reads what a reply means to do: `outcome` (what that can be, and what an
object says of it) and `almost_json` (objects as models write them).
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
