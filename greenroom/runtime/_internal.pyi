from greenroom.runtime.approvals import Unattended as Unattended
from greenroom.runtime.calls import (
    ModelCallScope as ModelCallScope,
    calling_agent as calling_agent,
    calling_history as calling_history,
    run_in_call as run_in_call,
)
from greenroom.runtime.errors import (
    InvalidAnswerError as InvalidAnswerError,
    SupervisionError as SupervisionError,
)
from greenroom.runtime.fan_out import run_each as run_each, try_ask as try_ask
from greenroom.runtime.forwarding import (
    bound_mailbox as bound_mailbox,
    interrupt_input as interrupt_input,
    read_turn_metadata as read_turn_metadata,
    report_abandoned as report_abandoned,
    session_of as session_of,
    show_view as show_view,
)
from greenroom.runtime.handle import ParentInfo as ParentInfo
from greenroom.runtime.internals import calling_internals as calling_internals
from greenroom.runtime.interruption import InterruptMode as InterruptMode
from greenroom.runtime.introspection import (
    AgentNode as AgentNode,
    AgentStatistics as AgentStatistics,
    OpenTool as OpenTool,
    RuntimeTree as RuntimeTree,
)
from greenroom.runtime.mailbox import user_input as user_input
from greenroom.runtime.snapshots import (
    awaits_turn as awaits_turn,
    find_result as find_result,
    take_branch as take_branch,
    take_snapshot as take_snapshot,
    takes_input as takes_input,
)
from greenroom.runtime.spawning import check_agent_function as check_agent_function
from greenroom.runtime.supervisor import (
    Supervisor as Supervisor,
    SupervisorStatistics as SupervisorStatistics,
)
from greenroom.runtime.turn import Turn as Turn
