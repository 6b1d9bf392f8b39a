"""Helpers for your own tests; none needs pytest.

- `models`: a model that follows a script, vectors without a model, a switch that forbids calls of
  real models.
- `recorded_run`: a whole run of an agent in one call, scripted answers to its permission requests,
  a stream drawn as a line of letters.
- `virtual_time`: a clock that jumps over all waiting, but not over the work of threads.
- `cassettes`: HTTP exchanges, recorded and replayed; `concealment` takes the secrets out.
- `fuzz`: a cancel at every checkpoint of a tool or an agent.
- `providers` and `provider_server`: checks for a provider of your own.
- `session_stores` and `session_store_contents`: checks for a session store of your own.
- `pytest_plugin`: fixtures, for test suites that ask for them.
"""

from greenroom.llm import same_request as same_request
from greenroom.testing.cassettes import (
    CassetteClient as CassetteClient,
    CassetteMode as CassetteMode,
    WireAPI as WireAPI,
    cassette as cassette,
    request_from_wire as request_from_wire,
)
from greenroom.testing.fuzz import (
    Scenario as Scenario,
    cancel_at_every_checkpoint as cancel_at_every_checkpoint,
)
from greenroom.testing.models import (
    HashEmbedder as HashEmbedder,
    Reply as Reply,
    ScriptedProvider as ScriptedProvider,
    Step as Step,
    call as call,
    forbid_model_calls as forbid_model_calls,
)
from greenroom.testing.provider_server import (
    ProviderUnderTest as ProviderUnderTest,
    RecordedAnswer as RecordedAnswer,
)
from greenroom.testing.providers import (
    ProviderCheck as ProviderCheck,
    check_provider as check_provider,
    provider_checks as provider_checks,
)
from greenroom.testing.recorded_run import (
    AgentRunError as AgentRunError,
    RecordedRun as RecordedRun,
    ScriptedAnswer as ScriptedAnswer,
    ScriptedApprover as ScriptedApprover,
    marbles as marbles,
    run_agent as run_agent,
    run_agent_async as run_agent_async,
)
from greenroom.testing.session_store_contents import (
    SessionStoreCheck as SessionStoreCheck,
    StoreUnderTest as StoreUnderTest,
)
from greenroom.testing.session_stores import (
    SESSION_STORE_CHECKS as SESSION_STORE_CHECKS,
    check_session_store as check_session_store,
)
from greenroom.testing.virtual_time import run_in_virtual_time as run_in_virtual_time
