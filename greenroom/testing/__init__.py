"""What you import in your own tests; none of it needs pytest.

Modules: `script` (a model that follows a script), `approver` (a person who answers permission
requests by one), `agent_run` (an agent's whole life in one call), `fuzz` (a cancel at every
checkpoint of a tool or an agent), `stores` (checks that a session store of your own has to pass).
`pytest_plugin` has fixtures, for test suites that ask for it.
"""

from greenroom.testing.agent_run import AgentRun as AgentRun
from greenroom.testing.agent_run import AgentRunError as AgentRunError
from greenroom.testing.agent_run import run_agent as run_agent
from greenroom.testing.agent_run import run_agent_async as run_agent_async
from greenroom.testing.approver import ScriptedAnswer as ScriptedAnswer
from greenroom.testing.approver import ScriptedApprover as ScriptedApprover
from greenroom.testing.fuzz import Scenario as Scenario
from greenroom.testing.fuzz import cancel_at_every_checkpoint as cancel_at_every_checkpoint
from greenroom.testing.script import Reply as Reply
from greenroom.testing.script import ScriptedProvider as ScriptedProvider
from greenroom.testing.script import Step as Step
from greenroom.testing.script import call as call
from greenroom.testing.stores import SESSION_STORE_CHECKS as SESSION_STORE_CHECKS
from greenroom.testing.stores import SessionStoreCheck as SessionStoreCheck
from greenroom.testing.stores import StoreUnderTest as StoreUnderTest
from greenroom.testing.stores import check_session_store as check_session_store

__all__ = [
    "SESSION_STORE_CHECKS",
    "AgentRun",
    "AgentRunError",
    "Reply",
    "Scenario",
    "ScriptedAnswer",
    "ScriptedApprover",
    "ScriptedProvider",
    "SessionStoreCheck",
    "Step",
    "StoreUnderTest",
    "call",
    "cancel_at_every_checkpoint",
    "check_session_store",
    "run_agent",
    "run_agent_async",
]
