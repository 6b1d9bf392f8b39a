"""Fitting long conversations into a model's window, and memory across sessions.

The window: `context_window` divides it and chooses the messages that fit, by their `importance`;
`compactor` shortens a conversation, and `summary` is what replaces the messages that it removes.

Memory: `memory_protocol` defines the interface, and `agent_memory` is how an agent uses it: a
reminder at the start of a turn, and tools for its model. `sqlite_memory` implements it with
`database` (tables, and one connection in a thread), `rows` (reading and writing entries),
`word_index` and `vectors` (two ways to search; `stems` are of English words), `ranking` (combining
both) and `recall_cache` (the last answers). `postgres_memory` does so with `postgres_rows`, the
same words and the index of a PostgreSQL server. `session_views` shows a session as an episodic and
as a working memory.
"""

from greenroom.llm._internal import OpenAIEmbedder
from greenroom.memory.agent_memory import memory_tools
from greenroom.memory.compactor import COMPACT, Compactor
from greenroom.memory.context_window import ContextBudget, fit
from greenroom.memory.memory_protocol import (
    Embedder,
    Entry,
    EntryOrigin,
    Memory,
    MemoryStorageError,
    MetadataValue,
    Recalled,
)
from greenroom.memory.postgres_memory import PostgresMemory
from greenroom.memory.session_views import EpisodicMemory, WorkingMemory
from greenroom.memory.sqlite_memory import SQLiteMemory

__all__ = [
    "COMPACT",
    "Compactor",
    "ContextBudget",
    "Embedder",
    "Entry",
    "EntryOrigin",
    "EpisodicMemory",
    "Memory",
    "MemoryStorageError",
    "MetadataValue",
    "OpenAIEmbedder",
    "PostgresMemory",
    "Recalled",
    "SQLiteMemory",
    "WorkingMemory",
    "fit",
    "memory_tools",
]
