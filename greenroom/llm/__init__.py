"""Talking to models: one protocol, and the providers that speak it.

Modules: `provider` (the protocol), `request` (what is asked), `events` and `stream` (what comes
back), `draft` (the reply so far), `replay` (saying what is known already).
"""

from greenroom.llm.draft import Draft as Draft
from greenroom.llm.events import BlockDelta as BlockDelta
from greenroom.llm.events import BlockEnd as BlockEnd
from greenroom.llm.events import BlockStart as BlockStart
from greenroom.llm.events import Notice as Notice
from greenroom.llm.events import StreamEnd as StreamEnd
from greenroom.llm.events import StreamEvent as StreamEvent
from greenroom.llm.events import StreamStart as StreamStart
from greenroom.llm.events import UsageUpdate as UsageUpdate
from greenroom.llm.provider import LLMProvider as LLMProvider
from greenroom.llm.replay import ReplayStream as ReplayStream
from greenroom.llm.replay import events_of as events_of
from greenroom.llm.replay import replay as replay
from greenroom.llm.request import ModelRequest as ModelRequest
from greenroom.llm.request import NamedTool as NamedTool
from greenroom.llm.request import ToolChoice as ToolChoice
from greenroom.llm.stream import ModelStream as ModelStream
from greenroom.llm.stream import collect as collect

__all__ = [
    "BlockDelta",
    "BlockEnd",
    "BlockStart",
    "Draft",
    "LLMProvider",
    "ModelRequest",
    "ModelStream",
    "NamedTool",
    "Notice",
    "ReplayStream",
    "StreamEnd",
    "StreamEvent",
    "StreamStart",
    "ToolChoice",
    "UsageUpdate",
    "collect",
    "events_of",
    "replay",
]
