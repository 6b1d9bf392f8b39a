"""Talking to models: one protocol, and the providers that speak it.

Modules: `provider` (the protocol), `request` (what is asked), `events` and `stream` (what comes
back), `draft` (the reply so far), `catalog` (models by name). The providers: `anthropic`, `openai`,
`offline` (rules, no network), `recorded` (a session's own replies). What a provider over HTTP is
made of: `http_provider`, `endpoint` and `timeouts` (set-up), `conversation` (what of a history may
be sent) and `portable_calls` (under which names and ids), `exchange` (one request), `sse` (its bytes), `calls` and `fields` (foreign JSON), `failure`
and `retry_after` (errors). `replay` says messages that exist already. HTTP is loaded with the first
provider that needs it.
"""

from greenroom.core import ModelRequest as ModelRequest
from greenroom.core import NamedTool as NamedTool
from greenroom.core import ToolChoice as ToolChoice
from greenroom.llm.anthropic import AnthropicProvider as AnthropicProvider
from greenroom.llm.catalog import DEFAULT_MODELS as DEFAULT_MODELS
from greenroom.llm.catalog import default_model as default_model
from greenroom.llm.catalog import open_model as open_model
from greenroom.llm.draft import Draft as Draft
from greenroom.llm.endpoint import Endpoint as Endpoint
from greenroom.llm.events import BlockDelta as BlockDelta
from greenroom.llm.events import BlockEnd as BlockEnd
from greenroom.llm.events import BlockStart as BlockStart
from greenroom.llm.events import Notice as Notice
from greenroom.llm.events import StreamEnd as StreamEnd
from greenroom.llm.events import StreamEvent as StreamEvent
from greenroom.llm.events import StreamStart as StreamStart
from greenroom.llm.events import UsageUpdate as UsageUpdate
from greenroom.llm.exchange import ReplyDecoder as ReplyDecoder
from greenroom.llm.http_provider import HttpProvider as HttpProvider
from greenroom.llm.offline import OfflineProvider as OfflineProvider
from greenroom.llm.openai import OpenAIProvider as OpenAIProvider
from greenroom.llm.provider import LLMProvider as LLMProvider
from greenroom.llm.recorded import RecordedProvider as RecordedProvider
from greenroom.llm.replay import ReplayStream as ReplayStream
from greenroom.llm.replay import events_of as events_of
from greenroom.llm.replay import replay as replay
from greenroom.llm.sse import SSEDecoder as SSEDecoder
from greenroom.llm.sse import SSEEvent as SSEEvent
from greenroom.llm.stream import ModelStream as ModelStream
from greenroom.llm.stream import collect as collect
from greenroom.llm.timeouts import ModelTimeouts as ModelTimeouts

__all__ = [
    "DEFAULT_MODELS",
    "AnthropicProvider",
    "BlockDelta",
    "BlockEnd",
    "BlockStart",
    "Draft",
    "Endpoint",
    "HttpProvider",
    "LLMProvider",
    "ModelRequest",
    "ModelStream",
    "ModelTimeouts",
    "NamedTool",
    "Notice",
    "OfflineProvider",
    "OpenAIProvider",
    "RecordedProvider",
    "ReplayStream",
    "ReplyDecoder",
    "SSEDecoder",
    "SSEEvent",
    "StreamEnd",
    "StreamEvent",
    "StreamStart",
    "ToolChoice",
    "UsageUpdate",
    "collect",
    "default_model",
    "events_of",
    "open_model",
    "replay",
]
