"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom.llm._internal import same_request as same_request
from greenroom.testing.cassettes import (
    CassetteError as CassetteError,
    request_from_wire as request_from_wire,
)
from greenroom.testing.evaluation import EvaluationRow as EvaluationRow
from greenroom.testing.provider_server import ProviderUnderTest as ProviderUnderTest
from greenroom.testing.providers import provider_checks as provider_checks
from greenroom.testing.recorded_run import (
    AgentRunError as AgentRunError,
    run_agent_async as run_agent_async,
)
from greenroom.testing.session_stores import SESSION_STORE_CHECKS as SESSION_STORE_CHECKS
