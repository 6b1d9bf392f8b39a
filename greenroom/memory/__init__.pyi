from greenroom.llm._internal import OpenAIEmbedder as OpenAIEmbedder
from greenroom.memory.agent_memory import memory_tools as memory_tools
from greenroom.memory.compactor import Compactor as Compactor
from greenroom.memory.context_window import ContextBudget as ContextBudget, fit as fit
from greenroom.memory.memory_protocol import (
    Embedder as Embedder,
    Entry as Entry,
    Memory as Memory,
    Recalled as Recalled,
)
from greenroom.memory.postgres_memory import PostgresMemory as PostgresMemory
from greenroom.memory.session_views import (
    EpisodicMemory as EpisodicMemory,
    WorkingMemory as WorkingMemory,
)
from greenroom.memory.sqlite_memory import SQLiteMemory as SQLiteMemory
