"""Fitting long conversations into a model's window, and memory across sessions.

The window: `context_window` divides it and chooses the messages that fit, by their `importance`;
`compactor` shortens a conversation, and `summary` is what replaces the messages that it removes.

Memory: `memory_protocol` defines the interface, and `agent_memory` is how an agent uses it: a
reminder at the start of a turn, and tools for its model. `sqlite_memory` implements it with
`database` (tables, and one connection in a thread), `rows` (reading and writing entries),
`word_index` and `vectors` (two ways to search; `stems` are of English words), `ranking` (combining
both) and `recall_cache` (the last answers). `session_views` shows a session as an episodic and as a
working memory.
"""

from greenroom.llm import OpenAIEmbedder as OpenAIEmbedder
from greenroom.memory.agent_memory import (
    describe_recalled as describe_recalled,
    memory_tools as memory_tools,
    remind as remind,
    report_failure as report_failure,
)
from greenroom.memory.compactor import COMPACT as COMPACT, Compactor as Compactor
from greenroom.memory.context_window import ContextBudget as ContextBudget, fit as fit
from greenroom.memory.memory_protocol import (
    Embedder as Embedder,
    Entry as Entry,
    EntryOrigin as EntryOrigin,
    Memory as Memory,
    MetadataValue as MetadataValue,
    Recalled as Recalled,
)
from greenroom.memory.session_views import (
    EpisodicMemory as EpisodicMemory,
    WorkingMemory as WorkingMemory,
)
from greenroom.memory.sqlite_memory import (
    MemoryStatistics as MemoryStatistics,
    SQLiteMemory as SQLiteMemory,
)
