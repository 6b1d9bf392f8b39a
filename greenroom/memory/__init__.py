"""Fitting long conversations into a model's window, and memory across sessions.

The window: `context_budget` (how it is divided), `fit` (choosing messages that fit), `compactor`
(shortening a conversation) with `summary` (what replaces the messages that were removed),
`keep_segment` (storing those in a memory) and `message_origin` (who wrote a message).

Memory: `protocol` defines the interface, `reminder` recalls entries at the start of a turn.
`sqlite_memory` implements it with `database` (one connection, in a thread), `rows` (reading and
writing entries), `words` (tokenizing), `word_search` and `vectors` (two ways to search) and
`ranking` (combining both). `memory_tools` lets a model use a memory. `episodic_memory` and
`working_memory` are views of a session.
"""

from greenroom.llm import OpenAIEmbedder as OpenAIEmbedder
from greenroom.memory.compactor import COMPACT as COMPACT, Compactor as Compactor
from greenroom.memory.context_budget import ContextBudget as ContextBudget
from greenroom.memory.episodic_memory import EpisodicMemory as EpisodicMemory
from greenroom.memory.fit import fit as fit
from greenroom.memory.memory_tools import (
    describe_recalled as describe_recalled,
    memory_tools as memory_tools,
)
from greenroom.memory.protocol import (
    Embedder as Embedder,
    Entry as Entry,
    EntryOrigin as EntryOrigin,
    Memory as Memory,
    MetadataValue as MetadataValue,
    Recalled as Recalled,
)
from greenroom.memory.reminder import remind as remind
from greenroom.memory.sqlite_memory import (
    MemoryStatistics as MemoryStatistics,
    SQLiteMemory as SQLiteMemory,
)
from greenroom.memory.working_memory import WorkingMemory as WorkingMemory
