"""Which checkpoints a rewind has to undo: those that were taken after a place in the conversation."""

from collections.abc import Iterable

from greenroom.core import Checkpoint, SessionError
from greenroom.session.history.entry import (
    CheckpointEntry,
    CompactionEntry,
    Entry,
    MessageEntry,
    RewindEntry,
)

__all__ = ["checkpoints_after"]


def checkpoints_after(entries: Iterable[Entry], to: int) -> tuple[Checkpoint, ...]:
    """Return what was recorded since the conversation had its first `to` messages, in order.

    That is since the last of these messages was added, whatever was rewound since. Of two records
    of one checkpoint, the later one counts.

    Raises:
        SessionError: there are fewer messages.
    """
    places: list[int] = []  # of each message that stands, how many checkpoints came before it
    found: dict[str, Checkpoint] = {}
    for entry in entries:
        if isinstance(entry, MessageEntry):
            places.append(len(found))
        elif isinstance(entry, RewindEntry):
            del places[entry.to :]
        elif isinstance(entry, CompactionEntry):
            # The summary stands where the last message did that it is in place of.
            cut = max(len(places) - entry.keep, 0)
            places[:cut] = places[cut - 1 : cut] or [0]
        elif isinstance(entry, CheckpointEntry):
            found[entry.checkpoint.id] = entry.checkpoint
    if not 0 <= to <= len(places):
        raise SessionError(f"the conversation has no place {to}: it has {len(places)} messages")
    return tuple(found.values())[places[to - 1] if to else 0 :]
