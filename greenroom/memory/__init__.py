"""What the model sees of a long conversation, and what outlives it.

What the model sees: `context_budget` (how the window is shared out), `fit` (messages that fit it),
`compactor` (a conversation made shorter) with `summary` (what stands for what was left out),
`keep_segment` (which goes to a memory) and `message_origin` (who wrote a message).

What outlives a conversation: `protocol` says what a memory is, `reminder` what a turn begins with of it.
`sqlite_memory` is one: `database` (one connection, in a thread), `rows` (entries, checked and counted),
`words` (of a text), `word_search` and `vectors` (two ways to find entries), `ranking` (both made one).
`memory_tools` puts a memory into the hands of a model. `episodic_memory` and `working_memory` are views of
a session.
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
