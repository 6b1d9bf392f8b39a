from greenroom.memory.agent_memory import describe_recalled as describe_recalled, remind as remind
from greenroom.memory.compactor import COMPACT as COMPACT, find_compaction as find_compaction
from greenroom.memory.failures import report_failure as report_failure
from greenroom.memory.memory_protocol import (
    EntryOrigin as EntryOrigin,
    MemoryStorageError as MemoryStorageError,
    MetadataValue as MetadataValue,
)
