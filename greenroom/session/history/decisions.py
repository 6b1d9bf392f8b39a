"""What was decided about tool calls: kept as bytes, and read when somebody asks."""

from collections.abc import Iterable

import msgspec

from greenroom.core import InvalidJSONError, PermissionRecord, SessionError, serde
from greenroom.session.history.entry import DecisionEntry, Entry


def decision_entry(record: PermissionRecord) -> DecisionEntry:
    """Make the entry of a record."""
    return DecisionEntry(msgspec.Raw(serde.encode(record)))


def decisions(entries: Iterable[Entry]) -> tuple[PermissionRecord, ...]:
    """Return what was decided, in order.

    Raises:
        SessionError: a newer version has recorded what this one can't read.
    """
    found = (entry.decision for entry in entries if isinstance(entry, DecisionEntry))
    try:
        return tuple(serde.decode(bytes(raw), PermissionRecord) for raw in found)
    except InvalidJSONError as error:
        raise SessionError(
            f"a decision of this session can't be read: {error.message}", hint="upgrade greenroom"
        ) from error
