"""The actor kernel: it runs agents and knows nothing of models.

Outside, you hold a `runtime` (with its `registry` and `shared_resources`) and a `handle` (with `view`)
of each agent; inside, an agent holds its `internals` (with `delegation`); both look at one `actor`.
`spawning` starts an agent, `lifecycle` says how it lives and ends, and `living` counts its tasks.
`caller` tells whose code runs, `waiting` is what it means to wait for an agent, `children` and `fan_out`
are about subagents, `failure` about what an error ends; `limits` and `outcome` are values. The rooms:

- `input`: mailbox, permission requests, results of tools that the client runs.
- `turns`: what an interrupt cancels, and the clean-up after it.
- `output`: chunks in a ring, and their readers.
- `budgets`: where steps, model calls and tool calls are counted and limited.
- `supervision`: who is started again after a crash, and who is told of an end.
- `thread`: a runtime in a thread of its own, reached from asyncio and from other threads.
- `introspection`: the tree, figures, the dump, and the watchdog of the event loop.
"""

from greenroom.runtime.actor import Unattended as Unattended
from greenroom.runtime.budgets.budget import BudgetScope as BudgetScope
from greenroom.runtime.budgets.model_call import Model as Model, ModelCallScope as ModelCallScope
from greenroom.runtime.budgets.tool_call import ToolCallScope as ToolCallScope
from greenroom.runtime.budgets.tool_slot import ToolSlot as ToolSlot, run_in_call as run_in_call
from greenroom.runtime.caller import (
    calling_agent as calling_agent,
    calling_history as calling_history,
)
from greenroom.runtime.fan_out import fan_out as fan_out, try_ask as try_ask
from greenroom.runtime.handle import AgentHandle as AgentHandle
from greenroom.runtime.internals import AgentInternals as AgentInternals
from greenroom.runtime.introspection.statistics import (
    AgentStatistics as AgentStatistics,
    RuntimeStatistics as RuntimeStatistics,
    SubscriptionStatistics as SubscriptionStatistics,
    SupervisorStatistics as SupervisorStatistics,
)
from greenroom.runtime.introspection.tree import (
    AgentNode as AgentNode,
    OpenPrompt as OpenPrompt,
    OpenTool as OpenTool,
    OpenWait as OpenWait,
    RuntimeTree as RuntimeTree,
)
from greenroom.runtime.limits import RuntimeLimits as RuntimeLimits
from greenroom.runtime.outcome import (
    InterruptReport as InterruptReport,
    Outcome as Outcome,
    Receipt as Receipt,
    SupervisorOutcome as SupervisorOutcome,
    TurnResult as TurnResult,
)
from greenroom.runtime.output.subscription import (
    Subscription as Subscription,
    TurnStream as TurnStream,
)
from greenroom.runtime.runtime import AgentRuntime as AgentRuntime
from greenroom.runtime.spawning import (
    check_agent_function as check_agent_function,
    spawn_subagent as spawn_subagent,
)
from greenroom.runtime.supervision.monitor import Monitor as Monitor
from greenroom.runtime.supervision.supervisor import (
    SupervisedChild as SupervisedChild,
    Supervisor as Supervisor,
)
from greenroom.runtime.thread.crossed_items import CrossedItems as CrossedItems
from greenroom.runtime.thread.runtime_thread import RuntimeThread as RuntimeThread
from greenroom.runtime.turns.turn import Turn as Turn
from greenroom.runtime.view import ParentInfo as ParentInfo
