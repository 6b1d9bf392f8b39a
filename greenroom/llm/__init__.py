"""Models: one protocol, and the providers that implement it.

- The protocol: `provider`, and `stream` (the events of a reply, and the reply so far).
- Providers: `anthropic`, `openai`, `responses`, `gemini`, `offline` (rules, no network), `recorded`
  (replies of a session); `model_names` finds models by name, `catalog` lists facts about some,
  `windows` has what is known of a context window.
- Around any provider: `resilient` (retries, limits, fallbacks), `cached` (earlier replies again).
- Structured output: `output_type`, and `strict_schema` (schemas for the strict modes of vendors).
- Providers over HTTP: `http_provider` is their base, `endpoint` has the address and the key that
  `keys` has read, `request_auth` asks for the headers of one request, `http_stream` sends a request
  and streams the reply, `sse` decodes its bytes, `failure` and `retry_after` read its errors.
- Requests: `merged_messages` (the messages that a provider accepts), `portable_calls` (tool calls
  with ids and names that a vendor accepts), `request_encoder` (requests as bytes, each message
  encoded once), `request_rules` (what each model accepts, and requests made to fit it),
  `bound_thinking` (thinking that fits only where it was thought), `tokens` (how many a request
  takes), `tokenizers` (how many a text takes exactly), `recorded_request` (recorded requests read
  back), `json_fields` (reading JSON of others).

The HTTP client is imported with the first provider that needs it.
"""

from greenroom.core import ModelRequest
from greenroom.llm.anthropic import AnthropicProvider
from greenroom.llm.cached import cached
from greenroom.llm.catalog import find_window, model_profile
from greenroom.llm.endpoint import Endpoint, ModelTimeouts
from greenroom.llm.failure import error_in_band, error_of_response
from greenroom.llm.gemini import GeminiProvider
from greenroom.llm.http_provider import HttpProvider
from greenroom.llm.json_fields import decode_event
from greenroom.llm.merged_messages import MediaLimits, MergedMessage, merge_messages
from greenroom.llm.model_errors import (
    ModelAuthenticationError,
    ModelBadRequestError,
    ModelCallForbiddenError,
    ModelConnectionError,
    ModelConnectTimeoutError,
    ModelContentFilterError,
    ModelContextTooLongError,
    ModelError,
    ModelFirstEventTimeoutError,
    ModelIdleTimeoutError,
    ModelOutputError,
    ModelOverloadedError,
    ModelQuotaError,
    ModelRateLimitError,
    ModelRequestTimeoutError,
    ModelStreamError,
    ModelTimeoutError,
)
from greenroom.llm.model_settings import ModelSettings
from greenroom.llm.named_models import open_model
from greenroom.llm.offline import OfflineProvider
from greenroom.llm.openai import HOSTS, HostProfile, OpenAIProvider
from greenroom.llm.output_type import OutputType
from greenroom.llm.portable_calls import tool_use
from greenroom.llm.provider import LLMProvider, ProviderWrapper
from greenroom.llm.recorded import RecordedProvider
from greenroom.llm.resilient import resilient
from greenroom.llm.responses import OpenAIResponsesProvider
from greenroom.llm.sse import SSEEvent
from greenroom.llm.stream import BlockDelta, BlockEnd, ModelStream, StreamEnd, StreamEvent
from greenroom.llm.structured import generate_structured
from greenroom.llm.substitutes import Substitutes
from greenroom.llm.tokenizers import open_tokenizer
from greenroom.llm.tokens import EstimatedCounter, TokenCounter

__all__ = [
    "HOSTS",
    "AnthropicProvider",
    "BlockDelta",
    "BlockEnd",
    "Endpoint",
    "EstimatedCounter",
    "GeminiProvider",
    "HostProfile",
    "HttpProvider",
    "LLMProvider",
    "MediaLimits",
    "MergedMessage",
    "ModelAuthenticationError",
    "ModelBadRequestError",
    "ModelCallForbiddenError",
    "ModelConnectTimeoutError",
    "ModelConnectionError",
    "ModelContentFilterError",
    "ModelContextTooLongError",
    "ModelError",
    "ModelFirstEventTimeoutError",
    "ModelIdleTimeoutError",
    "ModelOutputError",
    "ModelOverloadedError",
    "ModelQuotaError",
    "ModelRateLimitError",
    "ModelRequest",
    "ModelRequestTimeoutError",
    "ModelSettings",
    "ModelStream",
    "ModelStreamError",
    "ModelTimeoutError",
    "ModelTimeouts",
    "OfflineProvider",
    "OpenAIProvider",
    "OpenAIResponsesProvider",
    "OutputType",
    "ProviderWrapper",
    "RecordedProvider",
    "SSEEvent",
    "StreamEnd",
    "StreamEvent",
    "Substitutes",
    "TokenCounter",
    "cached",
    "decode_event",
    "error_in_band",
    "error_of_response",
    "find_window",
    "generate_structured",
    "merge_messages",
    "model_profile",
    "open_model",
    "open_tokenizer",
    "resilient",
    "tool_use",
]
