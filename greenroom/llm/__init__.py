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

from greenroom.core import (
    Effort as Effort,
    ModelRequest as ModelRequest,
    NamedTool as NamedTool,
    OutputSchema as OutputSchema,
    Thinking as Thinking,
    ToolChoice as ToolChoice,
)
from greenroom.llm.anthropic import (
    AnthropicProvider as AnthropicProvider,
    read_anthropic_request as read_anthropic_request,
)
from greenroom.llm.cached import cached as cached
from greenroom.llm.catalog import (
    MODELS as MODELS,
    ModelProfile as ModelProfile,
    find_window as find_window,
    model_profile as model_profile,
    similar_models as similar_models,
    without_date as without_date,
)
from greenroom.llm.endpoint import (
    FORBID_VARIABLE as FORBID_VARIABLE,
    Endpoint as Endpoint,
    ModelTimeouts as ModelTimeouts,
    RequestAuth as RequestAuth,
    check_call as check_call,
    forbids_calls as forbids_calls,
)
from greenroom.llm.failure import (
    error_in_band as error_in_band,
    error_of_response as error_of_response,
)
from greenroom.llm.gemini import (
    GeminiProvider as GeminiProvider,
    read_gemini_request as read_gemini_request,
)
from greenroom.llm.http_provider import HttpProvider as HttpProvider
from greenroom.llm.http_stream import ReplyDecoder as ReplyDecoder
from greenroom.llm.json_fields import decode_event as decode_event
from greenroom.llm.keys import FILE_SUFFIX as FILE_SUFFIX, read_key as read_key
from greenroom.llm.merged_messages import (
    MediaLimits as MediaLimits,
    MergedMessage as MergedMessage,
    merge_messages as merge_messages,
)
from greenroom.llm.model_names import (
    DEFAULT_MODELS as DEFAULT_MODELS,
    MODEL_VARIABLE as MODEL_VARIABLE,
    VENDORS as VENDORS,
    ModelChoice as ModelChoice,
    Vendor as Vendor,
    choose_model as choose_model,
    default_model as default_model,
    full_name as full_name,
    open_model as open_model,
)
from greenroom.llm.model_settings import ModelSettings as ModelSettings
from greenroom.llm.offline import OfflineProvider as OfflineProvider
from greenroom.llm.openai import (
    HOSTS as HOSTS,
    HostProfile as HostProfile,
    OpenAIEmbedder as OpenAIEmbedder,
    OpenAIProvider as OpenAIProvider,
    host_profile as host_profile,
    read_chat_request as read_chat_request,
)
from greenroom.llm.output_type import (
    ANSWER_TOOL as ANSWER_TOOL,
    OutputMode as OutputMode,
    OutputModes as OutputModes,
    OutputType as OutputType,
    generate_structured as generate_structured,
    is_correction as is_correction,
    make_correction as make_correction,
    with_output as with_output,
)
from greenroom.llm.portable_calls import tool_use as tool_use
from greenroom.llm.provider import (
    LLMProvider as LLMProvider,
    ProviderWrapper as ProviderWrapper,
    SupportsSchemas as SupportsSchemas,
    price_of as price_of,
    window_of as window_of,
)
from greenroom.llm.recorded import (
    RecordedProvider as RecordedProvider,
    ReplayStream as ReplayStream,
    events_of as events_of,
    replay as replay,
)
from greenroom.llm.recorded_request import same_request as same_request
from greenroom.llm.request_encoder import EncodedRequest as EncodedRequest
from greenroom.llm.request_rules import RequestRules as RequestRules
from greenroom.llm.resilient import AfterOutput as AfterOutput, resilient as resilient
from greenroom.llm.responses import (
    OpenAIResponsesProvider as OpenAIResponsesProvider,
    read_responses_request as read_responses_request,
)
from greenroom.llm.sse import SSEDecoder as SSEDecoder, SSEEvent as SSEEvent
from greenroom.llm.stream import (
    Announcement as Announcement,
    BlockDelta as BlockDelta,
    BlockEnd as BlockEnd,
    BlockStart as BlockStart,
    Draft as Draft,
    ModelStream as ModelStream,
    Notice as Notice,
    StreamEnd as StreamEnd,
    StreamEvent as StreamEvent,
    StreamRestart as StreamRestart,
    StreamStart as StreamStart,
    UsageUpdate as UsageUpdate,
    collect as collect,
)
from greenroom.llm.substitutes import (
    Substitutes as Substitutes,
    substitute_model as substitute_model,
    substitute_result as substitute_result,
)
from greenroom.llm.tokenizers import open_tokenizer as open_tokenizer
from greenroom.llm.tokens import (
    EstimatedCounter as EstimatedCounter,
    TokenCounter as TokenCounter,
    Tokenizer as Tokenizer,
    shows_media as shows_media,
)
from greenroom.llm.windows import (
    SMALLEST_WINDOW as SMALLEST_WINDOW,
    ContextWindow as ContextWindow,
    KnowsWindow as KnowsWindow,
    check_window as check_window,
)
