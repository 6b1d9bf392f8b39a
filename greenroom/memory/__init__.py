"""What the model sees of a long conversation, and what outlives it.

`protocol` says what a memory is. `sqlite_memory` is one: `database` (one connection, in a thread), `rows`
(entries, checked and counted), `words` (of a text), `word_search` and `vectors` (two ways to find entries),
`ranking` (both made one).
"""

from greenroom.memory.protocol import (
    Embedder as Embedder,
    Entry as Entry,
    EntryOrigin as EntryOrigin,
    Memory as Memory,
    MetadataValue as MetadataValue,
    Recalled as Recalled,
)
from greenroom.memory.sqlite_memory import (
    MemoryStatistics as MemoryStatistics,
    SQLiteMemory as SQLiteMemory,
)

__all__ = [
    "Embedder",
    "Entry",
    "EntryOrigin",
    "Memory",
    "MemoryStatistics",
    "MetadataValue",
    "Recalled",
    "SQLiteMemory",
]
