"""OpenAI's Responses API: `provider`, `encode` (requests), `decode` (replies).

OpenAI's newer models call tools while they think over this API only.
"""

from greenroom.llm.responses.provider import OpenAIResponsesProvider as OpenAIResponsesProvider
from greenroom.llm.responses.read_request import (
    read_responses_request as read_responses_request,
)
