from greenroom.core import ModelRequest as ModelRequest
from greenroom.llm.anthropic import AnthropicProvider as AnthropicProvider
from greenroom.llm.cached import cached as cached
from greenroom.llm.catalog import find_window as find_window, model_profile as model_profile
from greenroom.llm.endpoint import Endpoint as Endpoint, ModelTimeouts as ModelTimeouts
from greenroom.llm.gemini import GeminiProvider as GeminiProvider
from greenroom.llm.http_provider import HttpProvider as HttpProvider
from greenroom.llm.model_errors import (
    ModelAuthenticationError as ModelAuthenticationError,
    ModelBadRequestError as ModelBadRequestError,
    ModelConnectionError as ModelConnectionError,
    ModelContextTooLongError as ModelContextTooLongError,
    ModelError as ModelError,
    ModelOutputError as ModelOutputError,
    ModelOverloadedError as ModelOverloadedError,
    ModelRateLimitError as ModelRateLimitError,
    ModelStreamError as ModelStreamError,
    ModelTimeoutError as ModelTimeoutError,
)
from greenroom.llm.model_settings import ModelSettings as ModelSettings
from greenroom.llm.named_models import open_model as open_model
from greenroom.llm.offline import OfflineProvider as OfflineProvider
from greenroom.llm.openai import HostProfile as HostProfile, OpenAIProvider as OpenAIProvider
from greenroom.llm.provider import LLMProvider as LLMProvider, ProviderWrapper as ProviderWrapper
from greenroom.llm.recorded import RecordedProvider as RecordedProvider
from greenroom.llm.resilient import resilient as resilient
from greenroom.llm.responses import OpenAIResponsesProvider as OpenAIResponsesProvider
from greenroom.llm.sse import SSEEvent as SSEEvent
from greenroom.llm.stream import (
    BlockDelta as BlockDelta,
    BlockEnd as BlockEnd,
    ModelStream as ModelStream,
    StreamEnd as StreamEnd,
    StreamEvent as StreamEvent,
)
from greenroom.llm.structured import generate_structured as generate_structured
from greenroom.llm.substitutes import Substitutes as Substitutes
from greenroom.llm.tokens import EstimatedCounter as EstimatedCounter, TokenCounter as TokenCounter
