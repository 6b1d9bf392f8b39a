"""What is left of a damaged history: every line that can still be shown to be whole.

The checksum of a line is built on the line before it, so behind a damaged line the chain is broken.
It is taken up again in one of two ways. Where the damaged line has its length and its own checksum,
the checksum that it had as a whole can be worked out, since a CRC is linear; and where the line
after next fits, the next one is whole, since those bytes are a part of that checksum.

What verifies is written as one new line behind the sound ones, with a message in each place where
something is missing. Rewinds in it are counted anew. What was lost may have revoked the answers of
a person, so none from before it holds any longer.
"""

import itertools
import re
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import get_type_hints

import msgspec

from greenroom.core import RUNTIME, Checkpoint, InvalidJSONError, Message, serde
from greenroom.session.description import SessionMetadata, in_utc
from greenroom.session.entries import (
    CheckpointEntry,
    Entry,
    FormatEntry,
    MessageEntry,
    Replacement,
    RevokeEntry,
    RewindEntry,
    decode_entries,
    decode_kinds,
)
from greenroom.session.history import SALT, Position, check_format, encode_line, read_lines
from greenroom.session.transcript import Transcript

_HEAD = re.compile(rb'\{"n":(\d{1,18}),(?:"u":\d+,)?"e":\[')
_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_BORDER = re.compile(rb',"crc":"[0-9a-f]{8}"\}[^\n](?=\{"n":\d)')
_SUFFIX = re.compile(rb',"crc":"([0-9a-f]{8})"\}\n\Z')
_GAP = "what tools changed in the part of the session that was lost is not known"


class SalvagedHistory(msgspec.Struct, frozen=True):
    """What can be kept of a damaged history.

    Attributes:
        entries: the entries of the sound lines before the damage.
        end: the place behind them.
        damaged: all bytes behind that place.
        line: the line to be written there, which holds what verifies; empty where nothing does.
        messages: how many messages that line brings back.
    """

    entries: tuple[Entry, ...]
    end: Position
    damaged: bytes
    line: bytes
    messages: int


def salvage_history(data: bytes, *, session_id: str, path: str) -> SalvagedHistory:
    """Find what of a history can be kept.

    Raises:
        SessionError: it is of a newer format.
    """
    lines = read_lines(data, session_id=session_id, path=path, salvage=True)
    entries = tuple(entry for line in lines.entries for entry in line)
    end = msgspec.structs.replace(lines.end, loose=0)
    draft = _Draft(entries, end.lines)
    for number, line in _verify_lines(lines.torn, end):
        found = _decode(line) if line else None
        if found is not None:
            check_format(found, session_id, path)
            draft.add(number, line)
    return SalvagedHistory(entries, end, lines.torn, draft.line(end), draft.messages)


def _verify_lines(data: bytes, at: Position) -> Iterator[tuple[int, bytes]]:
    """Yield the lines behind a place with their numbers from 0; b"" for each that does not verify."""
    lines = deque(_LINE.findall(data))
    before: int | None = zlib.crc32(at.last)
    number = at.lines - 1
    while lines:
        line = lines.popleft()
        head = _HEAD.match(line)
        is_later = head is not None and int(head[1]) > number
        fits = before is not None and _fits(line, before)
        if head and is_later and (fits or (lines and _fits(lines[0], zlib.crc32(line)))):
            number, before = int(head[1]), zlib.crc32(line)
            yield number, line
        elif border := _BORDER.search(line):  # it may be the byte between two lines that is damaged
            lines.extendleft((line[border.end() :], line[: border.end() - 1] + b"\n"))
        else:
            before = None if before is None else _original_checksum(line, before)
            is_chained = lines and before is not None and _fits(lines[0], before)
            if not is_chained and (behind := _split_glued(line)):
                lines.extendleft(reversed(behind))
                before = None
            yield -1, b""


def _split_glued(line: bytes) -> list[bytes]:
    """Return what may be whole lines behind a damaged one that has lost its end."""
    starts = [found.start() for found in _HEAD.finditer(line, 1)]
    return [line[start:stop] for start, stop in itertools.pairwise([*starts, len(line)])]


def _fits(line: bytes, before: int) -> bool:
    """Whether the checksum of a line is right behind a line of this checksum."""
    suffix = _SUFFIX.search(line)
    if suffix is None:
        return False
    return zlib.crc32(line[: suffix.start()], before ^ SALT) == int(suffix[1], 16)


def _original_checksum(line: bytes, before: int) -> int | None:
    """Return the checksum that a damaged line had as a whole, if its length and its end are right.

    The line's own checksum begins with that of the line before it. To take that beginning out is to
    add what it makes of as many zero bytes.
    """
    suffix = _SUFFIX.search(line)
    if suffix is None:
        return None
    zeros = bytes(suffix.start())
    body = int(suffix[1], 16) ^ zlib.crc32(zeros, before ^ SALT) ^ zlib.crc32(zeros)
    return zlib.crc32(suffix[0], body)


def _decode(line: bytes) -> tuple[Entry, ...] | None:
    try:
        return decode_entries(line)
    except InvalidJSONError:
        return None


class _Draft:
    """The entries of the new line, as they come to stand in the conversation."""

    def __init__(self, entries: tuple[Entry, ...], lines: int) -> None:
        self._transcript = Transcript(entries)
        self._gaps: list[int] = []  # the places of the messages that say that something is missing
        self._next = lines  # the number of the line that is to come, from 0
        self._encoded: list[bytes] = []
        self.messages = 0

    def add(self, number: int, line: bytes) -> None:
        """Take the entries of a line over, as they are but for rewinds."""
        if number > self._next:
            self._add_gap(number)
        self._next = number + 1
        for raw, entry in decode_kinds(line):
            if isinstance(entry, FormatEntry):
                continue
            if isinstance(entry, RewindEntry):
                self._put(self._recount(entry))
            else:
                if isinstance(entry, Replacement):
                    self._replace(entry)
                self.messages += isinstance(entry, MessageEntry)
                self._put(entry, raw)

    def line(self, end: Position) -> bytes:
        """Return the line that holds it all, if there is anything."""
        if not self._encoded:
            return b""
        version = self._transcript.version
        first = [FormatEntry(version)] if version > 1 or end.lines == 0 else []
        return encode_line([*map(serde.encode, first), *self._encoded], end)

    def _add_gap(self, last: int) -> None:
        """Say in the conversation that the lines up to this number are missing there."""
        first = self._next + 1
        which = f"line {first}" if first == last else f"lines {first} to {last}"
        if self._transcript.grants.rules:
            self._put(RevokeEntry())
        self._put(CheckpointEntry(Checkpoint(f"lost-{first}", "", gaps=(_GAP,))))
        self._gaps.append(len(self._transcript.messages))
        text = (
            f"[A part of this conversation is missing here: {which} of its history could not be read. "
            "What follows was said later.]"
        )
        self._put(MessageEntry(Message.user(text, sender=RUNTIME)))

    def _put(self, entry: Entry | None, raw: bytes = b"") -> None:
        if entry is not None:
            self._transcript.apply(entry)
        self._encoded.append(raw or serde.encode(entry))

    def _recount(self, entry: RewindEntry) -> RewindEntry:
        """Count a rewind anew: its place is known before the first gap, and from the end to the last."""
        count = len(self._transcript.messages)
        to = min(entry.to, count)
        if self._gaps and entry.to > self._gaps[0]:
            left = count - to if entry.left is None else entry.left
            to = max(count - left, self._gaps[-1] + 1)
        self._gaps = [place for place in self._gaps if place < to]
        return RewindEntry(to, count - to)

    def _replace(self, entry: Replacement) -> None:
        cut = max(len(self._transcript.messages) - entry.keep, 0)
        self._gaps = [place - cut + len(entry.head) for place in self._gaps if place >= cut]


# -- A description that is damaged or gone, put together anew from what else there is.

_UNKNOWN = "unknown"
"""The type of an agent of which nothing says what it is; no rule is about it."""

_TITLE = 60
_TYPES = get_type_hints(SessionMetadata, include_extras=True)


def restore_description(
    session_id: str,
    data: bytes,
    entries: Sequence[Entry],
    relatives: Iterable[SessionMetadata],
    changed: datetime,
) -> tuple[SessionMetadata, tuple[str, ...]]:
    """Describe a session by what can be read of its description, its history and its relatives.

    Args:
        session_id: the session.
        data: the bytes of its description, as far as there are any.
        entries: its history.
        relatives: the other sessions of the store, of which some may name it.
        changed: when its history was last changed.

    Returns:
        The description, and the names of the fields that could not be read from `data`.
    """
    read = _read_fields(data)
    derived = _derive_fields(session_id, entries, relatives, changed)
    lost = tuple(
        each for each in SessionMetadata.__struct_fields__ if each not in {*read, "unknown"}
    )
    both = {**derived, **read, "session_id": session_id}
    try:
        return in_utc(msgspec.convert(both, SessionMetadata)), lost
    except InvalidJSONError:  # a time that no calendar has everywhere
        both |= {"created_at": changed, "updated_at": changed}
        return msgspec.convert(both, SessionMetadata), (*lost, "created_at", "updated_at")


def _read_fields(data: bytes) -> dict[str, object]:
    """Return the fields of a description that can be read, each for itself."""
    try:
        found = serde.loads(data)
    except InvalidJSONError:
        return {}
    fields = found.items() if isinstance(found, dict) else ()
    return {
        name: value for name, value in fields if name in _TYPES and _fits_type(value, _TYPES[name])
    }


def _fits_type(value: object, kind: object) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _derive_fields(
    session_id: str,
    entries: Sequence[Entry],
    relatives: Iterable[SessionMetadata],
    changed: datetime,
) -> dict[str, object]:
    said = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    reply = next((each for each in reversed(said) if each.model), Message("assistant"))
    family = sorted(relatives, key=lambda each: each.created_at)
    parent = next((each for each in family if session_id in each.child_session_ids), None)
    return {
        "agent_type": _UNKNOWN,
        "parent_session_id": parent.session_id if parent else None,
        "child_session_ids": [
            each.session_id for each in family if each.parent_session_id == session_id
        ],
        "model": reply.model,
        "provider": reply.provider,
        "created_at": changed,
        "updated_at": changed,
        "metadata": _derive_values(said, entries),
    }


def _derive_values(said: Iterable[Message], entries: Iterable[Entry]) -> dict[str, object]:
    """Return what the command keeps there, so that lists show it and it goes on in its folder."""
    values: dict[str, object] = {}
    words = next((" ".join(each.text.split()) for each in said if each.role == "user"), "")
    if words:
        values["title"] = words if len(words) <= _TITLE else f"{words[: _TITLE - 1].rstrip()}…"
    roots = [each.checkpoint.root for each in entries if isinstance(each, CheckpointEntry)]
    if any(roots):
        values["workspace"] = next(root for root in reversed(roots) if root)
    return values
