"""The entries of a history: what each line of `history.jsonl` may hold, and how it is read.

Entries are only ever added. A kind that this version does not know is passed over and stays in the
file, so a newer version finds it again.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, TypeAlias, TypeVar, get_args

import msgspec

from greenroom.core import (
    JSON,
    Checkpoint,
    ContentBlock,
    InvalidJSONError,
    Message,
    PermissionRecord,
    ResultContent,
    SessionError,
    StopReason,
    TextBlock,
    UnknownBlock,
    Wire,
    serde,
    valid_unicode,
)

FORMAT = 3
"""The newest version of the format. It rises only when an older reader would misread the file."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class FormatEntry(Wire, frozen=True, tag_field="kind", tag="format"):
    """The first entry of a history: in which version of the format the file is written."""

    version: int


class MessageEntry(Wire, frozen=True, tag_field="kind", tag="message"):
    """A message was added to the conversation."""

    message: Message


class ToolsStartedEntry(Wire, frozen=True, tag_field="kind", tag="tools_started"):
    """These calls of the last reply may have run from here on; written before they start."""

    tool_use_ids: tuple[str, ...]


class RewindEntry(Wire, frozen=True, tag_field="kind", tag="rewind"):
    """The conversation goes on from its first `to` messages; the later ones remain on record.

    `left` is how many those are, so that who reads from the end knows; older versions don't say.
    """

    to: int
    left: _Count | None = None


class CheckpointEntry(Wire, frozen=True, tag_field="kind", tag="checkpoint"):
    """What calls are about to do to files, or have done."""

    checkpoint: Checkpoint


class CompactionEntry(Wire, frozen=True, tag_field="kind", tag="compaction"):
    """The conversation goes on as a summary and its last `keep` messages; the others remain on record.

    From the first one on a history is of version 2: who passes it over counts other messages than
    the rewinds behind it do.
    """

    summary: Message
    keep: _Count

    @property
    def head(self) -> tuple[Message, ...]:
        """What takes the place of the messages that are not kept."""
        return (self.summary,)


class RewriteEntry(Wire, frozen=True, tag_field="kind", tag="rewrite"):
    """The conversation goes on as these messages; the ones before remain on record.

    From the first one on a history is of version 3, for the same reason.
    """

    messages: tuple[Message, ...]

    @property
    def head(self) -> tuple[Message, ...]:
        """What takes the place of the messages that are not kept."""
        return self.messages

    @property
    def keep(self) -> int:
        """How many of the last messages it keeps as they are: none."""
        return 0


Replacement: TypeAlias = CompactionEntry | RewriteEntry
"""What puts its `head` in the place of all but the last `keep` messages."""


class CopiedEntry(Wire, frozen=True, tag_field="kind", tag="copied"):
    """All before this was copied from another session, which has paid for it."""


class GrantEntry(Wire, frozen=True, tag_field="kind", tag="grant"):
    """A person's answer was to hold for the rest of the session: these rules were made of it."""

    rules: tuple[dict[str, object], ...]


class RevokeEntry(Wire, frozen=True, tag_field="kind", tag="revoke"):
    """The rules of all answers so far hold no longer."""


class DecisionEntry(Wire, frozen=True, tag_field="kind", tag="decision"):
    """What was decided about a tool call, as a `PermissionRecord`; written before it starts.

    It is left as it is until it is asked for: neither a long conversation nor what a newer version
    adds to it is to keep a session from being loaded.
    """

    decision: msgspec.Raw


class RecordEntry(Wire, frozen=True, tag_field="kind", tag="record"):
    """A program kept a value of its own, of the kind `name`; it is not a part of the conversation."""

    name: str
    value: msgspec.Raw


Entry: TypeAlias = (
    FormatEntry
    | MessageEntry
    | ToolsStartedEntry
    | RewindEntry
    | CompactionEntry
    | RewriteEntry
    | CheckpointEntry
    | CopiedEntry
    | GrantEntry
    | RevokeEntry
    | DecisionEntry
    | RecordEntry
)
"""Any entry that this version knows."""

T = TypeVar("T")


def messages_of(entry: Entry) -> tuple[Message, ...]:
    """Return the messages that an entry puts into the conversation, at its end or in place of others."""
    if isinstance(entry, MessageEntry):
        return (entry.message,)
    return entry.head if isinstance(entry, Replacement) else ()


def update_values(standing: list[T], entry: Entry, new: Iterable[T]) -> None:
    """Keep one value for each message of a conversation: `new` are those of the entry's own messages."""
    if isinstance(entry, MessageEntry):
        standing += new
    elif isinstance(entry, RewindEntry):
        del standing[entry.to :]
    elif isinstance(entry, Replacement):
        standing[: max(len(standing) - entry.keep, 0)] = new


_KINDS = {kind.__struct_config__.tag for kind in get_args(Entry)}


class _Line(msgspec.Struct):
    e: tuple[Entry, ...]


class _Raw(msgspec.Struct):
    e: tuple[msgspec.Raw, ...]


class _Loose(msgspec.Struct):
    e: tuple[dict[str, object], ...]


def decode_entries(line: bytes) -> tuple[Entry, ...]:
    """Read the entries of one line; what a newer version added does not get in the way.

    Raises:
        InvalidJSONError: an entry of a known kind can't be read.
    """
    try:
        return serde.decode(line, _Line).e
    except InvalidJSONError:
        entries = serde.decode(line, _Loose).e
    return tuple(_entry(entry) for entry in entries if entry.get("kind") in _KINDS)


def decode_kinds(line: bytes) -> Iterator[tuple[bytes, Entry | None]]:
    """Yield the entries of one line as they are written, each with what it means here.

    That is None for a kind that this version does not know.

    Raises:
        InvalidJSONError: an entry of a known kind can't be read.
    """
    for raw in serde.decode(line, _Raw).e:
        found = decode_entries(b'{"e":[' + bytes(raw) + b"]}")
        yield bytes(raw), found[0] if found else None


def decode_entry(data: bytes) -> Entry:
    """Read one entry back, strictly: it has to be whole and of a kind that this version knows.

    Raises:
        InvalidJSONError: it does not fit; the message says where.
    """
    return serde.decode(b'{"e":[' + data + b"]}", _Line).e[0]


def _entry(raw: dict[str, object]) -> Entry:
    for key in ("message", "summary"):
        message = raw.get(key)
        if isinstance(message, dict):
            raw = {**raw, key: _message(message)}
    messages = raw.get("messages")
    if isinstance(messages, list):
        raw = {**raw, "messages": [_message(m) if isinstance(m, dict) else m for m in messages]}
    return serde.decode(serde.encode({"e": [raw]}), _Line).e[0]


def _message(raw: dict[str, object]) -> dict[str, object]:
    content = raw.get("content", [])
    if isinstance(content, list):
        raw = {**raw, "content": [_block(block) for block in content]}
    if not _fits(raw.get("stop_reason"), StopReason | None):
        raw = {**raw, "stop_reason": StopReason.UNKNOWN}
    if not _fits({"role": "user", "created_at": raw.get("created_at")}, Message):
        raw = {**raw, "created_at": None}
    if not _fits({"role": "user", "sender": raw.get("sender", "")}, Message):
        raw = {**raw, "sender": "unknown"}
    return raw


def _block(raw: object) -> object:
    """Keep a block that this version can't read as an unknown one, but keep a result a result."""
    if isinstance(raw, dict) and raw.get("type") == "tool_result":
        content = raw.get("content", [])
        if isinstance(content, list):
            raw = {**raw, "content": [_result_content(part) for part in content]}
    if _fits(raw, ContentBlock):
        return raw
    return UnknownBlock(raw if isinstance(raw, dict) else {"value": raw})


def _result_content(raw: object) -> object:
    return raw if _fits(raw, ResultContent) else TextBlock("", extra={"unknown": raw})


def _fits(raw: object, kind: object) -> bool:
    try:
        msgspec.convert(raw, kind)
    except msgspec.ValidationError:
        return False
    return True


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


# -- What was decided about tool calls: kept as bytes, and read when they are asked for.


def decision_entry(record: PermissionRecord) -> DecisionEntry:
    """Make the entry of a record."""
    return DecisionEntry(msgspec.Raw(serde.encode(record)))


def decode_decisions(entries: Iterable[Entry]) -> tuple[PermissionRecord, ...]:
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


# -- Which questions about calls are open: asked of a person, on record, and without an answer.

QUESTION = "permission.question"
"""The kind of the records that hold questions."""


class OpenQuestion(Wire, frozen=True):
    """A person was asked about a call that has not started.

    Attributes:
        request_id: the id of the permission request; asked again it keeps it.
        tool_use_id: the call.
        digest: what the answer is bound to; one that is given ahead counts only while it is the
            same.
    """

    request_id: str
    tool_use_id: str
    digest: str = ""


def open_questions(records: Iterable[JSON], unstarted: Iterable[str]) -> dict[str, OpenQuestion]:
    """Return the newest question about each of these calls that there is one about, by the call."""
    calls = frozenset(unstarted)
    found = map(_read, records) if calls else ()
    return {each.tool_use_id: each for each in found if each and each.tool_use_id in calls}


def _read(record: JSON) -> OpenQuestion | None:
    """Read a question; one that can't be read, as of a newer version, is asked as if it were new."""
    try:
        return msgspec.convert(record, OpenQuestion)
    except msgspec.ValidationError:
        return None


# -- Entries that wait for their commit: encoded already, or left for a thread where they are long.

LONG = 256 * 1024
"""From so many characters on, an entry takes longer to encode than the event loop should stand still."""

_PIECE = 64 * 1024  # bytes to a line where there is a choice: about what a last page takes

_FRAME = 8  # levels of an entry around what came from outside, such as the input of a call

PendingEntry: TypeAlias = bytes | Entry
"""An entry in its encoded form; a long one as it is."""


def validate_entry(entry: Entry) -> tuple[Entry, PendingEntry]:
    """Make sure that an entry can be written and read again; return it as read, and to be kept.

    A long one is not encoded for that.

    Raises:
        InvalidJSONError: it holds something that JSON can't express.
    """
    if isinstance(
        entry, RecordEntry
    ):  # `record_entry` has checked its value, and limited its length
        return entry, serde.encode(entry)
    if not _is_short(entry):
        try:
            valid: Entry = msgspec.convert(_plain(msgspec.to_builtins(entry)), Entry)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise InvalidJSONError(f"this value can't be written as JSON: {error}") from error
        except RecursionError:
            pass  # it is deep as well, and that is checked: so it is encoded here after all
        else:
            return valid, valid
    encoded = serde.encode(entry)
    return decode_entry(encoded), encoded


def is_long(entries: Iterable[PendingEntry]) -> bool:
    """Whether these entries are better encoded in a thread."""
    size = 0
    for entry in entries:
        size += len(entry) if isinstance(entry, bytes) else LONG
    return size >= LONG


def encode_pending(entries: Iterable[PendingEntry]) -> list[bytes]:
    """Encode what is not encoded yet.

    Raises:
        InvalidJSONError: an entry can't be written after all.
    """
    return [each if isinstance(each, bytes) else serde.encode(each) for each in entries]


def decode_pending(entries: Iterable[PendingEntry]) -> list[Entry]:
    """Return the entries themselves."""
    return [decode_entry(each) if isinstance(each, bytes) else each for each in entries]


def split_lines(encoded: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Divide entries, in order, into lines of moderate size; there is always a last one."""
    piece, size = list[bytes](), 0
    for entry in encoded:
        if piece and size + len(entry) > _PIECE:
            yield piece
            piece, size = [], 0
        piece.append(entry)
        size += len(entry)
    yield piece


def _is_short(entry: Entry) -> bool:
    """Whether an entry is quickly encoded, or better be, since it may be none that can.

    Raises:
        InvalidJSONError: it could be written and not read again.
    """
    try:
        plain = msgspec.to_builtins(entry)
    except RecursionError as error:
        raise InvalidJSONError(f"it is nested more than {serde.MAX_DEPTH} levels deep") from error
    except (TypeError, ValueError):
        return True
    return serde.check_json(plain, serde.MAX_DEPTH + _FRAME) < LONG


def _plain(value: object) -> object:
    """Turn a value into what it will be once it was written and read."""
    if isinstance(value, str):
        return value if value.isascii() else valid_unicode(value)
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
