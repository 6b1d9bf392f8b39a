"""Salvaging a damaged history: every line that can still be verified is kept.

The checksum of a line starts from the line before it, so a damaged line breaks the chain. There are
two ways to pick it up again. If the damaged line still has its length and its own checksum, the
checksum of the undamaged line can be computed, since a CRC is linear. And if the line after next
fits, the next one is whole, because its bytes are part of that checksum.

The lines that verify are written as one new line after the sound ones, with a message in each place
where something is missing. Rewinds in it are counted again. A lost line may have revoked the
answers of a person, so none from before it holds any longer.
"""

import itertools
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, get_type_hints

import msgspec

from greenroom.core import Message
from greenroom.core._internal import RUNTIME, Checkpoint, InvalidJSONError, compile_later, serde
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
from greenroom.session.history import (
    SALT,
    Position,
    RepairReport,
    check_format,
    encode_line,
    read_lines,
)
from greenroom.session.transcript import Transcript

if TYPE_CHECKING:
    from typing_extensions import TypeForm

_HEAD = compile_later(rb'\{"n":(\d{1,18}),(?:"u":\d+,)?"e":\[')
_LINE = compile_later(rb"[^\n]*\n|[^\n]+")
_BORDER = compile_later(rb',"crc":"[0-9a-f]{8}"\}[^\n](?=\{"n":\d)')
_SUFFIX = compile_later(rb',"crc":"([0-9a-f]{8})"\}\n\Z')
_GAP = "what tools changed in the part of the session that was lost is not known"


class SalvagedHistory(msgspec.Struct, frozen=True):
    """The part of a damaged history that can be kept.

    Attributes:
        entries: the entries that can be kept.
        end: the place after the sound lines before the damage.
        damaged: all bytes after that place.
        line: the line to write there, with everything that verifies; empty if nothing does.
        messages: how many messages that line restores.
    """

    entries: tuple[Entry, ...]
    end: Position
    damaged: bytes
    line: bytes
    messages: int

    def report(
        self, path: str, set_aside: str, *, missing: int = 0, restored: tuple[str, ...]
    ) -> RepairReport | None:
        """Report what was done; None if nothing was damaged."""
        if not (set_aside or missing or restored):
            return None
        first, size = self.end.lines + 1, len(self.damaged)
        return RepairReport(
            path, first, self.end.size, size, set_aside, self.messages, missing, restored
        )


def salvage_history(data: bytes, *, session_id: str, path: str) -> SalvagedHistory:
    """Find the part of a history that can be kept.

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
    line = draft.line(end)
    kept = (*entries, *decode_entries(line)) if line else entries
    return SalvagedHistory(kept, end, lines.torn, line, draft.messages)


def _verify_lines(data: bytes, at: Position) -> Iterator[tuple[int, bytes]]:
    """Yield the lines after a place with their numbers from 0; b"" for one that does not verify."""
    # A program that turned the line ends into those of Windows damaged each line. None has such an
    # end within, where JSON escapes it.
    lines = deque(_LINE.findall(data.replace(b"\r\n", b"\n")))
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
        elif border := _BORDER.search(line):  # the newline between two lines may be damaged
            lines.extendleft((line[border.end() :], line[: border.end() - 1] + b"\n"))
        else:
            before = None if before is None else _original_checksum(line, before)
            is_chained = lines and before is not None and _fits(lines[0], before)
            if not is_chained and (behind := _split_glued(line)):
                lines.extendleft(reversed(behind))
                before = None
            yield -1, b""


def _split_glued(line: bytes) -> list[bytes]:
    """Return what may be whole lines after a damaged one that lost its end."""
    starts = [found.start() for found in _HEAD.finditer(line, 1)]
    return [line[start:stop] for start, stop in itertools.pairwise([*starts, len(line)])]


def _fits(line: bytes, before: int) -> bool:
    """Whether the checksum of a line is right after a line with this checksum."""
    suffix = _SUFFIX.search(line)
    if suffix is None:
        return False
    return zlib.crc32(line[: suffix.start()], before ^ SALT) == int(suffix[1], 16)


def _original_checksum(line: bytes, before: int) -> int | None:
    """Return the checksum of a damaged line before the damage, if its length and end are right.

    The line's own checksum starts from that of the line before it. Adding the checksum of as many
    zero bytes from the same start removes that part.
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
    """The new line: the entries that verify, adapted to the conversation that is left."""

    def __init__(self, entries: tuple[Entry, ...], lines: int) -> None:
        self._transcript = Transcript(entries)
        self._gaps: list[int] = []  # the places of the messages that report a gap
        self._next = lines  # the number of the next line, from 0
        self._encoded: list[bytes] = []
        self.messages = 0

    def add(self, number: int, line: bytes) -> None:
        """Add the entries of a line; all but rewinds stay as they are."""
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
        """Return the line with all of these entries, or nothing if there are none."""
        if not self._encoded:
            return b""
        version = self._transcript.version
        first = [FormatEntry(version)] if version > 1 or end.lines == 0 else []
        return encode_line([*map(serde.encode, first), *self._encoded], end)

    def _add_gap(self, last: int) -> None:
        """Report in the conversation that the lines up to this number are missing here."""
        first = self._next + 1
        which = f"line {first}" if first == last else f"lines {first} to {last}"
        if self._transcript.grants.rules:
            self._put(RevokeEntry())
        self._put(CheckpointEntry(Checkpoint(f"lost-{first}", "", gaps=(_GAP,))))
        self._gaps.append(len(self._transcript.messages))
        text = (
            f"[A part of this conversation is missing here: {which} of its history could not be "
            "read. What follows was said later.]"
        )
        self._put(MessageEntry(Message.user(text, sender=RUNTIME)))

    def _put(self, entry: Entry | None, raw: bytes = b"") -> None:
        if entry is not None:
            self._transcript.apply(entry)
        self._encoded.append(raw or serde.encode(entry))

    def _recount(self, entry: RewindEntry) -> RewindEntry:
        """Adapt a rewind's place, which is known up to the first gap, and back to the last."""
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


_UNKNOWN = "unknown"
"""The type of an agent if nothing tells it; no rule matches it."""

_TITLE = 60
_TYPES = get_type_hints(SessionMetadata, include_extras=True)
del _TYPES["unknown"]


def restore_description(
    session_id: str,
    data: bytes,
    entries: Sequence[Entry],
    relatives: Iterable[SessionMetadata],
    changed: datetime,
) -> tuple[SessionMetadata, tuple[str, ...]]:
    """Reconstruct a description from its readable fields, the history and related sessions.

    Args:
        session_id: the session.
        data: the bytes of its description; may be empty.
        entries: its history.
        relatives: the other sessions of the store, some of which may name it.
        changed: when its history was last changed.

    Returns:
        The description, and the names of the fields that could not be read from `data`.
    """
    fields = _read_fields(data)
    read = {
        name: fields[name]
        for name, kind in _TYPES.items()
        if name in fields and _fits_type(fields[name], kind)
    }
    unknown = {name: value for name, value in fields.items() if name not in _TYPES}
    lost = tuple(name for name in _TYPES if name not in read)
    derived = _derive_fields(session_id, entries, relatives, changed)
    both = {**derived, **read, "session_id": session_id}
    try:
        found = in_utc(serde.convert(both, SessionMetadata))
    except InvalidJSONError:  # a time that some time zone can't express
        both |= {"created_at": changed, "updated_at": changed}
        found, lost = serde.convert(both, SessionMetadata), (*lost, "created_at", "updated_at")
    return msgspec.structs.replace(found, unknown=unknown), lost


def _read_fields(data: bytes) -> dict[str, object]:
    """Return the fields of a description, or none if it is not a JSON object."""
    try:
        return serde.decode(data, dict[str, object])
    except InvalidJSONError:
        return {}


def _fits_type(value: object, kind: "TypeForm[object]") -> bool:
    try:
        serde.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _derive_fields(
    session_id: str,
    entries: Sequence[Entry],
    relatives: Iterable[SessionMetadata],
    changed: datetime,
) -> dict[str, object]:
    messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    reply = next((each for each in reversed(messages) if each.model), Message("assistant"))
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
        "metadata": _derive_values(messages, entries),
    }


def _derive_values(messages: Iterable[Message], entries: Iterable[Entry]) -> dict[str, object]:
    """Return the values that the command needs to list the session and continue in its folder."""
    values: dict[str, object] = {}
    words = next((" ".join(each.text.split()) for each in messages if each.role == "user"), "")
    if words:
        values["title"] = words if len(words) <= _TITLE else f"{words[: _TITLE - 1].rstrip()}…"
    roots = [each.checkpoint.root for each in entries if isinstance(each, CheckpointEntry)]
    if any(roots):
        values["workspace"] = next(root for root in reversed(roots) if root)
    return values
