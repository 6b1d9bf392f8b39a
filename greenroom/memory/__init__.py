"""What the model sees of a long conversation, and what outlives it.

`protocol` says what a memory is.
"""

from greenroom.memory.compactor import Compactor as Compactor
from greenroom.memory.context_budget import ContextBudget as ContextBudget
from greenroom.memory.fit import fit as fit
from greenroom.memory.protocol import (
    Embedder as Embedder,
    Entry as Entry,
    EntryOrigin as EntryOrigin,
    Memory as Memory,
    MetadataValue as MetadataValue,
    Recalled as Recalled,
)
from greenroom.memory.reminder import remind as remind
from greenroom.memory.senders import SUMMARY as SUMMARY

__all__ = [
    "SUMMARY",
    "Compactor",
    "ContextBudget",
    "Embedder",
    "Entry",
    "EntryOrigin",
    "Memory",
    "MetadataValue",
    "Recalled",
    "fit",
    "remind",
]
