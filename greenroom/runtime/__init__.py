"""The actor kernel: it runs agents and knows nothing of models.

Outside, you hold an `agent_runtime` and a `handle` of each agent; inside, an agent holds its
`internals`; both lead to one `actor`. `spawning` starts an agent, and `lifecycle` runs and ends it.
Its parts:

- `mailbox`: its inputs; `turn`: from an input to the answer; `interruption`: how a turn is stopped.
- `output_ring`: its chunks, and their readers; `turn_stream`: those of one turn.
- `approvals`: permission requests.
- `subagents`: its own agents, and news of others; `fan_out`: one agent for each prompt.
- `calls`: of models, tools and other agents; `budgets`: what limits them.
- `supervisor`, and `restarts` behind it: which agents are started again after a crash.

`tasks` tells whose code runs; `introspection` and `watchdog` show what happens; `runtime_thread`
and `thread_calls` are a runtime in a thread of its own, for asyncio and other threads.
"""

from greenroom.runtime.agent_runtime import AgentRuntime as AgentRuntime
from greenroom.runtime.approvals import Unattended as Unattended
from greenroom.runtime.budgets import BudgetScope as BudgetScope, RuntimeLimits as RuntimeLimits
from greenroom.runtime.calls import (
    Model as Model,
    ModelCallScope as ModelCallScope,
    ToolCallScope as ToolCallScope,
    ToolSlot as ToolSlot,
    calling_agent as calling_agent,
    calling_history as calling_history,
    run_in_call as run_in_call,
)
from greenroom.runtime.fan_out import (
    fan_out as fan_out,
    run_each as run_each,
    try_ask as try_ask,
)
from greenroom.runtime.handle import AgentHandle as AgentHandle, ParentInfo as ParentInfo
from greenroom.runtime.internals import (
    AgentInternals as AgentInternals,
    spawn_subagent as spawn_subagent,
)
from greenroom.runtime.introspection import (
    AgentNode as AgentNode,
    AgentStatistics as AgentStatistics,
    OpenPrompt as OpenPrompt,
    OpenTool as OpenTool,
    OpenWait as OpenWait,
    RuntimeStatistics as RuntimeStatistics,
    RuntimeTree as RuntimeTree,
)
from greenroom.runtime.output_ring import (
    Subscription as Subscription,
    SubscriptionStatistics as SubscriptionStatistics,
)
from greenroom.runtime.results import (
    InterruptReport as InterruptReport,
    Outcome as Outcome,
    Receipt as Receipt,
    SupervisorOutcome as SupervisorOutcome,
    TurnResult as TurnResult,
)
from greenroom.runtime.runtime_thread import (
    RuntimeThread as RuntimeThread,
    ThreadIterator as ThreadIterator,
)
from greenroom.runtime.spawning import check_agent_function as check_agent_function
from greenroom.runtime.subagents import Monitor as Monitor
from greenroom.runtime.supervisor import (
    SupervisedChild as SupervisedChild,
    Supervisor as Supervisor,
    SupervisorStatistics as SupervisorStatistics,
)
from greenroom.runtime.turn import Turn as Turn
from greenroom.runtime.turn_stream import TurnStream as TurnStream
