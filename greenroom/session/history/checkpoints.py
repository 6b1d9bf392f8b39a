"""Which checkpoints a rewind has to undo: those that were taken after a place in the conversation."""

from collections.abc import Iterable

from greenroom.core import Checkpoint, SessionError
from greenroom.session.history.entry import (
    CheckpointEntry,
    CopiedEntry,
    Entry,
    MessageEntry,
    Replacement,
    RewindEntry,
)

_COPIED = Checkpoint("", "", (), gaps=("what tools changed before it was copied is not known",))


def checkpoints_after(entries: Iterable[Entry], to: int) -> tuple[Checkpoint, ...]:
    """Return what was recorded since the conversation had its first `to` messages, in order.

    That is since the last of these messages was added, whatever was rewound since. Of two records
    of one checkpoint, the later one counts. A session that is a copy, as forks are, has no record of
    what calls before that have changed: for them, there is one that says so.

    Raises:
        SessionError: there are fewer messages.
    """
    places: list[int] = []  # of each message that stands, how many checkpoints came before it
    found: dict[str, Checkpoint] = {}
    called = 0  # how many messages there were with the last reply that calls tools
    for entry in entries:
        if isinstance(entry, MessageEntry):
            places.append(len(found))
            called = len(places) if entry.message.tool_uses else called
        elif isinstance(entry, RewindEntry):
            del places[entry.to :]
        elif isinstance(entry, Replacement):
            # A summary stands where the last message did that it is in place of.
            cut = max(len(places) - entry.keep, 0)
            places[:cut] = (places[cut - 1 : cut] or [0]) * len(entry.head)
        elif isinstance(entry, CopiedEntry) and called:
            found[_COPIED.id] = _COPIED
            places[called:] = [len(found)] * (len(places) - called)
        elif isinstance(entry, CheckpointEntry):
            found[entry.checkpoint.id] = entry.checkpoint
    if not 0 <= to <= len(places):
        raise SessionError(f"the conversation has no place {to}: it has {len(places)} messages")
    return tuple(found.values())[places[to - 1] if to else 0 :]
