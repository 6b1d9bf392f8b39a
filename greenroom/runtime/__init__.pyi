from greenroom.runtime.agent_runtime import AgentRuntime as AgentRuntime
from greenroom.runtime.calls import ToolCallScope as ToolCallScope
from greenroom.runtime.errors import (
    AgentNotRunningError as AgentNotRunningError,
    RuntimeClosedError as RuntimeClosedError,
)
from greenroom.runtime.fan_out import fan_out as fan_out
from greenroom.runtime.handle import AgentHandle as AgentHandle
from greenroom.runtime.internals import (
    AgentInternals as AgentInternals,
    spawn_subagent as spawn_subagent,
)
from greenroom.runtime.limits import RuntimeLimits as RuntimeLimits
from greenroom.runtime.output_ring import Subscription as Subscription
from greenroom.runtime.results import (
    InterruptReport as InterruptReport,
    Outcome as Outcome,
    Receipt as Receipt,
    TurnResult as TurnResult,
)
from greenroom.runtime.runtime_thread import RuntimeThread as RuntimeThread
