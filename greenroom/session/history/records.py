"""What a program keeps beside the conversation: values of its own kinds, each at a place in it."""

from collections.abc import Callable, Iterator

import msgspec

from greenroom.core import JSON, SessionError, serde, valid_unicode
from greenroom.session.history.entry import RecordEntry

__all__ = ["LONGEST_RECORD", "Records", "record_entry"]

LONGEST_RECORD = 256 * 1024
"""Bytes of JSON that one record may have: what is longer belongs into a file of its own."""


def record_entry(name: str, value: object) -> RecordEntry:
    """Make the entry of a record.

    Raises:
        TypeError: the kind is not a text, or empty.
        InvalidJSONError: the value holds something that JSON can't express.
        SessionError: it is too long.
    """
    if not isinstance(name, str) or not name or valid_unicode(name) != name:
        raise TypeError(f"a record's kind is a text such as 'plan.step', not {name!r}")
    encoded = serde.dump_plain(value, f"the record {name!r}")
    if len(encoded) > LONGEST_RECORD:
        raise SessionError(
            f"the record {name!r} is too long: {len(encoded):,} bytes of {LONGEST_RECORD:,}",
            hint="keep it in a file, and the file's name in the record",
        )
    return RecordEntry(name, msgspec.Raw(encoded))


class Records:
    """The records in order, and how many messages the conversation had before each.

    Values stay encoded until somebody asks for them, so each reader gets a copy.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._records: list[tuple[int, RecordEntry]] = []

    def add(self, entry: RecordEntry, place: int) -> None:
        """Take a record that was written behind so many messages."""
        # A copy: what was read is a window into its whole line, which would stay in memory.
        self._records.append((place, RecordEntry(entry.name, entry.value.copy())))

    def values(self, name: str, since: int = 0) -> Iterator[JSON]:
        """Decode the values of one kind, from those behind so many messages on."""
        for place, entry in self._records:
            if entry.name == name and place >= since:
                yield serde.loads(bytes(entry.value))

    def last(self, name: str) -> JSON:
        """Decode the newest value of one kind; None where there is none."""
        found = (entry for _, entry in reversed(self._records) if entry.name == name)
        entry = next(found, None)
        return None if entry is None else serde.loads(bytes(entry.value))

    def by_place(self) -> dict[int, list[RecordEntry]]:
        """Group the records by how many messages there were before them."""
        found: dict[int, list[RecordEntry]] = {}
        for place, entry in self._records:
            found.setdefault(place, []).append(entry)
        return found

    def rewind(self, to: int) -> None:
        """Forget what was written once there were more messages."""
        self._records = [each for each in self._records if each[0] <= to]

    def move(self, to: Callable[[int], int]) -> None:
        """Keep them where other messages take the place of those before them."""
        self._records = [(to(place), entry) for place, entry in self._records]
