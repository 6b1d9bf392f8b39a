"""What you import in your own tests; none of it needs pytest.

Modules: `script` (a model that follows a script), `approver` (a person who answers permission
requests by one), `agent_run` (an agent's whole life in one call). `pytest_plugin` has fixtures, for
test suites that ask for it.
"""

from greenroom.testing.agent_run import AgentRun as AgentRun
from greenroom.testing.agent_run import AgentRunError as AgentRunError
from greenroom.testing.agent_run import run_agent as run_agent
from greenroom.testing.agent_run import run_agent_async as run_agent_async
from greenroom.testing.approver import ScriptedAnswer as ScriptedAnswer
from greenroom.testing.approver import ScriptedApprover as ScriptedApprover
from greenroom.testing.script import Reply as Reply
from greenroom.testing.script import ScriptedProvider as ScriptedProvider
from greenroom.testing.script import Step as Step
from greenroom.testing.script import call as call

__all__ = [
    "AgentRun",
    "AgentRunError",
    "Reply",
    "ScriptedAnswer",
    "ScriptedApprover",
    "ScriptedProvider",
    "Step",
    "call",
    "run_agent",
    "run_agent_async",
]
