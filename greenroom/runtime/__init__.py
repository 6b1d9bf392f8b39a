"""The actor kernel: it runs agents and knows nothing of models.

Modules: `runtime` (owns every agent's task), `handle` with `view` (what you hold outside),
`internals` with `boundaries` and `delegation` (what an agent holds inside), `actor` (the state both
look at), `registry`, `spawning`, `lifecycle`, `life` and `ending` (how an agent is found, begins,
lives and ends), `supervisor` and `supervision` with `member`, `supervised_agent`, `home`, `jobs`
and `restart_window` (who is started again), `monitor` (who is told), `turn`, `turns` and `interruption` (what an interrupt
cancels, and how), `mailbox` and `inputs`, `output`, `ring` and `subscription` (what is told, kept
and read), `children` and `fan_out` (subagents, one by one and many at once), `approvals`
(permission requests), `client_results` (tools that the client runs), `budget` and `budgets` (what
may be used), `model_call`, `tool_call` and `tool_slot` (where that counts), `cleanup` and `grace`
(what may still take time), `partial`, `failure` (what an error ends), `caller` (who must not wait
for whom), `introspection`, `snapshot`, `tree`, `dump`, `watchdog`, `loop_sample` and `statistics` (what goes on, for who runs
it), `shared_resources` (what ends with the runtime), `spawn_arguments`; `limits`, `outcome` and
`parent` are values.
"""

from greenroom.runtime.budget import BudgetScope as BudgetScope
from greenroom.runtime.fan_out import fan_out as fan_out
from greenroom.runtime.handle import AgentHandle as AgentHandle
from greenroom.runtime.internals import AgentInternals as AgentInternals
from greenroom.runtime.limits import RuntimeLimits as RuntimeLimits
from greenroom.runtime.model_call import Model as Model
from greenroom.runtime.model_call import ModelCallScope as ModelCallScope
from greenroom.runtime.monitor import Monitor as Monitor
from greenroom.runtime.outcome import InterruptReport as InterruptReport
from greenroom.runtime.outcome import Outcome as Outcome
from greenroom.runtime.outcome import Receipt as Receipt
from greenroom.runtime.outcome import SupervisorOutcome as SupervisorOutcome
from greenroom.runtime.outcome import TurnResult as TurnResult
from greenroom.runtime.parent import ParentInfo as ParentInfo
from greenroom.runtime.runtime import AgentRuntime as AgentRuntime
from greenroom.runtime.statistics import AgentStatistics as AgentStatistics
from greenroom.runtime.statistics import RuntimeStatistics as RuntimeStatistics
from greenroom.runtime.statistics import SubscriptionStatistics as SubscriptionStatistics
from greenroom.runtime.statistics import SupervisorStatistics as SupervisorStatistics
from greenroom.runtime.subscription import Subscription as Subscription
from greenroom.runtime.subscription import TurnStream as TurnStream
from greenroom.runtime.supervisor import SupervisedChild as SupervisedChild
from greenroom.runtime.supervisor import Supervisor as Supervisor
from greenroom.runtime.tool_call import ToolCallScope as ToolCallScope
from greenroom.runtime.tool_slot import ToolSlot as ToolSlot
from greenroom.runtime.tree import AgentNode as AgentNode
from greenroom.runtime.tree import OpenPrompt as OpenPrompt
from greenroom.runtime.tree import OpenTool as OpenTool
from greenroom.runtime.tree import OpenWait as OpenWait
from greenroom.runtime.tree import RuntimeTree as RuntimeTree

__all__ = [
    "AgentHandle",
    "AgentInternals",
    "AgentNode",
    "AgentRuntime",
    "AgentStatistics",
    "BudgetScope",
    "InterruptReport",
    "Model",
    "ModelCallScope",
    "Monitor",
    "OpenPrompt",
    "OpenTool",
    "OpenWait",
    "Outcome",
    "ParentInfo",
    "Receipt",
    "RuntimeLimits",
    "RuntimeStatistics",
    "RuntimeTree",
    "Subscription",
    "SubscriptionStatistics",
    "SupervisedChild",
    "Supervisor",
    "SupervisorOutcome",
    "SupervisorStatistics",
    "ToolCallScope",
    "ToolSlot",
    "TurnResult",
    "TurnStream",
    "fan_out",
]
