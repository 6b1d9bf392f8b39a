"""What you import in your own tests; none of it needs pytest.

Modules: `script` (a model that follows a script), `approver` (a person who answers permission
requests by one), `agent_run` (an agent's whole life in one call), `cassette_client` (real exchanges
over HTTP, recorded into a file by `cassette_file`, without secrets by `concealment`), `wire` (recorded
requests in our words), `hash_embedder` (vectors without a model), `fuzz` (a cancel at every checkpoint of a tool or an agent), `real_calls` (a
switch that forbids them), `stores` (checks that a session store of your own has to pass), `marbles` (a
stream as a line of letters).
`pytest_plugin` has fixtures, for test suites that ask for it.
"""

from greenroom.testing.agent_run import (
    AgentRun as AgentRun,
    AgentRunError as AgentRunError,
    run_agent as run_agent,
    run_agent_async as run_agent_async,
)
from greenroom.testing.approver import (
    ScriptedAnswer as ScriptedAnswer,
    ScriptedApprover as ScriptedApprover,
)
from greenroom.testing.cassette_client import (
    CassetteClient as CassetteClient,
    CassetteMode as CassetteMode,
    cassette as cassette,
)
from greenroom.testing.fuzz import (
    Scenario as Scenario,
    cancel_at_every_checkpoint as cancel_at_every_checkpoint,
)
from greenroom.testing.hash_embedder import HashEmbedder as HashEmbedder
from greenroom.testing.marbles import marbles as marbles
from greenroom.testing.real_calls import forbid_model_calls as forbid_model_calls
from greenroom.testing.script import (
    Reply as Reply,
    ScriptedProvider as ScriptedProvider,
    Step as Step,
    call as call,
)
from greenroom.testing.stores import (
    SESSION_STORE_CHECKS as SESSION_STORE_CHECKS,
    SessionStoreCheck as SessionStoreCheck,
    StoreUnderTest as StoreUnderTest,
    check_session_store as check_session_store,
)
from greenroom.testing.wire import (
    WireAPI as WireAPI,
    request_from_wire as request_from_wire,
    same_request as same_request,
)
