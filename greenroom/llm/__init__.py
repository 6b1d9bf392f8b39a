"""Talking to models: one protocol, and the providers that speak it.

The protocol: `provider`, `events` and `stream` (what comes back), `draft` (the reply so far).
Providers: `anthropic`, `openai`, `offline` (rules, no network), `recorded` (a session's own replies);
`opening` (models by name), `catalog` (what is known of some); `replay` says messages that exist already.
Around any of them: `resilient` and `attempt` (retries, limits, others to fall back on).
Answers that are values: `structured` (asks for them), `output_type` (what is asked for) and
`strict_schema` (as vendors take it).
A provider over HTTP: `http_provider`, `endpoint` and `timeouts` (set-up); `request_encoder` (requests
as bytes, what was encoded is kept), `transcript` (one conversation so far: a fold over messages),
`conversation` (what of a history may be sent), `drop_notices` (telling what is not), `portable_calls`
(under which names and ids), `tool_list` and `media_limits`; `restore` and `same_request` (requests read
back into our words);
`exchange` (one request), `forbidden` (where none may be sent), `sse` (its bytes), `calls` and
`fields` (foreign JSON), `failure` and `retry_after` (errors). HTTP is loaded with the first provider
that needs it.
"""

from greenroom.core import (
    ModelRequest as ModelRequest,
    NamedTool as NamedTool,
    OutputSchema as OutputSchema,
    ToolChoice as ToolChoice,
)
from greenroom.llm.anthropic import (
    AnthropicProvider as AnthropicProvider,
    read_anthropic_request as read_anthropic_request,
)
from greenroom.llm.calls import tool_use as tool_use
from greenroom.llm.catalog import (
    MODELS as MODELS,
    ModelProfile as ModelProfile,
    model_profile as model_profile,
    near_models as near_models,
    without_date as without_date,
)
from greenroom.llm.conversation import Turn as Turn, turns as turns
from greenroom.llm.draft import Draft as Draft
from greenroom.llm.endpoint import Endpoint as Endpoint
from greenroom.llm.events import (
    Announcement as Announcement,
    BlockDelta as BlockDelta,
    BlockEnd as BlockEnd,
    BlockStart as BlockStart,
    Notice as Notice,
    StreamEnd as StreamEnd,
    StreamEvent as StreamEvent,
    StreamRestart as StreamRestart,
    StreamStart as StreamStart,
    UsageUpdate as UsageUpdate,
)
from greenroom.llm.exchange import ReplyDecoder as ReplyDecoder
from greenroom.llm.failure import error_in_band as error_in_band
from greenroom.llm.fields import event_of as event_of
from greenroom.llm.forbidden import (
    FORBID_VARIABLE as FORBID_VARIABLE,
    check_call as check_call,
    forbids_calls as forbids_calls,
)
from greenroom.llm.http_provider import HttpProvider as HttpProvider
from greenroom.llm.media_limits import MediaLimits as MediaLimits
from greenroom.llm.offline import OfflineProvider as OfflineProvider
from greenroom.llm.openai import (
    HOSTS as HOSTS,
    HostProfile as HostProfile,
    OpenAIEmbedder as OpenAIEmbedder,
    OpenAIProvider as OpenAIProvider,
    host_profile as host_profile,
    read_chat_request as read_chat_request,
)
from greenroom.llm.opening import (
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
from greenroom.llm.output_type import ANSWER_TOOL as ANSWER_TOOL, OutputType as OutputType
from greenroom.llm.provider import KnowsSchemas as KnowsSchemas, LLMProvider as LLMProvider
from greenroom.llm.recorded import RecordedProvider as RecordedProvider
from greenroom.llm.replay import (
    ReplayStream as ReplayStream,
    events_of as events_of,
    replay as replay,
)
from greenroom.llm.resilient import resilient as resilient
from greenroom.llm.same_request import same_request as same_request
from greenroom.llm.sse import SSEDecoder as SSEDecoder, SSEEvent as SSEEvent
from greenroom.llm.stream import ModelStream as ModelStream, collect as collect
from greenroom.llm.structured import (
    OutputWay as OutputWay,
    ask_again as ask_again,
    ask_for as ask_for,
    asks_again as asks_again,
    generate_structured as generate_structured,
    output_ways as output_ways,
)
from greenroom.llm.timeouts import ModelTimeouts as ModelTimeouts
from greenroom.llm.tokens import (
    EstimatedCounter as EstimatedCounter,
    TokenCounter as TokenCounter,
)
