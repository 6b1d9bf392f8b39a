"""From a goal to finished work: plans, what carries them out, and what makes and revises them.

`plan` is a graph of subtasks, `plan_run` what became of them, a value that is read back from the session.
`execute` carries a plan out, with `references` (results in goals and arguments), `subtask_call` (a subtask
with a tool) and `trace` (what a subtask that was cut off has left behind). `revision` says who makes and
revises plans and when; `model_planner` lets a model do it, and `merge` makes fewer subtasks of too many.
`plan_and_execute` is an agent of all of these.
"""

from greenroom.planning.execute import execute_plan as execute_plan
from greenroom.planning.model_planner import ModelPlanner as ModelPlanner
from greenroom.planning.plan import Plan as Plan, Subtask as Subtask
from greenroom.planning.plan_and_execute import (
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
from greenroom.planning.revision import (
    Failure as Failure,
    Planner as Planner,
    Recovered as Recovered,
    Recovery as Recovery,
    ReplanPolicy as ReplanPolicy,
)

__all__ = [
    "PLAN_STEP",
    "Failure",
    "FailureReason",
    "ModelPlanner",
    "Plan",
    "PlanRun",
    "Planner",
    "Recovered",
    "Recovery",
    "ReplanPolicy",
    "Subtask",
    "SubtaskState",
    "SubtaskStatus",
    "execute_plan",
    "plan_and_execute",
    "run_task",
]
