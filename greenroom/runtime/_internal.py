"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.runtime.approvals import Unattended as Unattended
from greenroom.runtime.calls import (
    ModelCallScope as ModelCallScope,
    calling_agent as calling_agent,
    run_in_call as run_in_call,
)
from greenroom.runtime.fan_out import run_each as run_each, try_ask as try_ask
from greenroom.runtime.handle import ParentInfo as ParentInfo
from greenroom.runtime.introspection import (
    AgentNode as AgentNode,
    AgentStatistics as AgentStatistics,
    OpenTool as OpenTool,
    RuntimeTree as RuntimeTree,
)
from greenroom.runtime.spawning import check_agent_function as check_agent_function
from greenroom.runtime.supervisor import SupervisorStatistics as SupervisorStatistics
from greenroom.runtime.turn import Turn as Turn
