"""The entries of a history: what a line of `history.jsonl` may hold, and how it is read.

Entries are only ever added. A kind that this version does not know is skipped and stays in the
file, where a newer version finds it again.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar, get_args

import msgspec

from greenroom.core import (
    ContentBlock,
    Message,
    PermissionRequest,
    SessionError,
    StopReason,
    TextBlock,
    UnknownBlock,
    Usage,
)
from greenroom.core._internal import (
    JSON,
    Checkpoint,
    InvalidJSONError,
    PermissionRecord,
    ResultContent,
    Wire,
    freeze_fields,
    serde,
    valid_unicode,
)

if TYPE_CHECKING:
    from typing_extensions import TypeForm

FORMAT = 3
"""The newest version of the format. It rises only when an older reader would misread the file."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class FormatEntry(Wire, frozen=True, tag_field="kind", tag="format"):
    """The first entry of a history: the version of the format that the file is written in."""

    version: int


class MessageEntry(Wire, frozen=True, tag_field="kind", tag="message"):
    """A message was added to the conversation."""

    message: Message


class ToolsStartedEntry(Wire, frozen=True, tag_field="kind", tag="tools_started"):
    """From here on these calls of the last reply may have run; written before they start."""

    tool_use_ids: tuple[str, ...]


class RewindEntry(Wire, frozen=True, tag_field="kind", tag="rewind"):
    """The conversation continues from its first `to` messages; the later ones stay on record.

    `left` counts the later ones, for readers that begin at the end; older versions lack it.
    """

    to: int
    left: _Count | None = None


class CheckpointEntry(Wire, frozen=True, tag_field="kind", tag="checkpoint"):
    """What calls are about to do to files, or did."""

    checkpoint: Checkpoint


class CompactionEntry(Wire, frozen=True, tag_field="kind", tag="compaction"):
    """The conversation continues as a summary and its last `keep` messages.

    The other messages stay on record. A history with such an entry is of version 2: a reader that
    skipped the entry would count other messages than the rewinds after it do.
    """

    summary: Message
    keep: _Count

    @property
    def head(self) -> tuple[Message, ...]:
        """The messages that replace those that are not kept."""
        return (self.summary,)


class RewriteEntry(Wire, frozen=True, tag_field="kind", tag="rewrite"):
    """The conversation continues as these messages; the earlier ones stay on record.

    A history with such an entry is of version 3, for the same reason.
    """

    messages: tuple[Message, ...]

    @property
    def head(self) -> tuple[Message, ...]:
        """The messages that replace those that are not kept."""
        return self.messages

    @property
    def keep(self) -> int:
        """How many of the last messages it keeps: none."""
        return 0


Replacement: TypeAlias = CompactionEntry | RewriteEntry
"""An entry that replaces all but the last `keep` messages by its `head`."""


class CopiedEntry(Wire, frozen=True, tag_field="kind", tag="copied"):
    """Everything before this was copied from another session, which paid for it."""


class UsageEntry(Wire, frozen=True, tag_field="kind", tag="usage"):
    """A model call was paid for, and its reply is not in the conversation."""

    usage: Usage
    model: str = ""


class GrantEntry(Wire, frozen=True, tag_field="kind", tag="grant"):
    """The rules made from a person's answer that holds for the rest of the session."""

    rules: tuple[dict[str, object], ...]

    def __post_init__(self) -> None:
        freeze_fields(self, "rules")


class RevokeEntry(Wire, frozen=True, tag_field="kind", tag="revoke"):
    """The rules from all answers so far no longer hold."""


class DecisionEntry(Wire, frozen=True, tag_field="kind", tag="decision"):
    """The decision about a tool call, a `PermissionRecord`; written before the call starts.

    It is decoded only when asked for, so that neither many decisions nor what a newer version adds
    to one can slow down or prevent loading a session.
    """

    decision: msgspec.Raw


class TurnEntry(Wire, frozen=True, tag_field="kind", tag="turn"):
    """A turn has begun with an input; or it has ended, with this status, and took these inputs.

    A turn that waits for an answer, and one that was cut off, have no end on record.
    """

    inputs: tuple[str, ...]
    ended: str = ""


class RecordEntry(Wire, frozen=True, tag_field="kind", tag="record"):
    """A program's own value, of the kind `name`, beside the conversation."""

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
    | UsageEntry
    | GrantEntry
    | RevokeEntry
    | DecisionEntry
    | RecordEntry
    | TurnEntry
)
"""Any entry that this version knows."""

T = TypeVar("T")


def messages_of(entry: Entry) -> tuple[Message, ...]:
    """Return the messages that an entry adds to the conversation, or replaces others by."""
    if isinstance(entry, MessageEntry):
        return (entry.message,)
    return entry.head if isinstance(entry, Replacement) else ()


def update_values(values: list[T], entry: Entry, new: Iterable[T]) -> None:
    """Keep one value for each message of a conversation, given those of the entry's messages."""
    if isinstance(entry, MessageEntry):
        values += new
    elif isinstance(entry, RewindEntry):
        del values[entry.to :]
    elif isinstance(entry, Replacement):
        values[: max(len(values) - entry.keep, 0)] = new


_KINDS = {kind.__struct_config__.tag for kind in get_args(Entry)}


class _Line(msgspec.Struct):
    e: tuple[Entry, ...]


class _Raw(msgspec.Struct):
    e: tuple[msgspec.Raw, ...]


class _Loose(msgspec.Struct):
    e: tuple[dict[str, object], ...]


def decode_entries(line: bytes) -> tuple[Entry, ...]:
    """Read the entries of one line, tolerating what a newer version added.

    Raises:
        InvalidJSONError: an entry of a known kind can't be read.
    """
    try:
        return serde.decode(line, _Line).e
    except InvalidJSONError:
        entries = serde.decode(line, _Loose).e
    return tuple(_entry(entry) for entry in entries if entry.get("kind") in _KINDS)


def decode_kinds(line: bytes) -> Iterator[tuple[bytes, Entry | None]]:
    """Yield the entries of one line as written, each with its decoded form.

    The decoded form is None for a kind that this version does not know.

    Raises:
        InvalidJSONError: an entry of a known kind can't be read.
    """
    for raw in serde.decode(line, _Raw).e:
        found = decode_entries(b'{"e":[' + bytes(raw) + b"]}")
        yield bytes(raw), found[0] if found else None


def decode_entry(data: bytes) -> Entry:
    """Read one entry strictly: it must be whole, and of a kind that this version knows.

    Raises:
        InvalidJSONError: it is not valid; the message says where.
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
    """Keep an unreadable block as an unknown one, but keep a tool result as a result."""
    if isinstance(raw, dict) and raw.get("type") == "tool_result":
        content = raw.get("content", [])
        if isinstance(content, list):
            raw = {**raw, "content": [_result_content(part) for part in content]}
        if not raw.get("tool_use_id"):  # once allowed, as the call's own, which is read as this
            raw = {**raw, "tool_use_id": "call"}
    if _fits(raw, ContentBlock):
        return raw
    return UnknownBlock(raw if isinstance(raw, dict) else {"value": raw})


def _result_content(raw: object) -> object:
    return raw if _fits(raw, ResultContent) else TextBlock("", extra={"unknown": raw})


def _fits(raw: object, kind: "TypeForm[object]") -> bool:
    try:
        serde.convert(raw, kind)
    except msgspec.ValidationError:
        return False
    return True


LONGEST_RECORD = 256 * 1024
"""Bytes of JSON that one record may have; keep longer values in files of their own."""


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


def decision_entry(record: PermissionRecord) -> DecisionEntry:
    """Make the entry of a decision."""
    return DecisionEntry(msgspec.Raw(serde.encode(record)))


def decode_decisions(entries: Iterable[Entry]) -> tuple[PermissionRecord, ...]:
    """Return the decisions about tool calls, in order.

    Raises:
        SessionError: a newer version recorded one that this version can't read.
    """
    found = (entry.decision for entry in entries if isinstance(entry, DecisionEntry))
    try:
        return tuple(serde.decode(bytes(raw), PermissionRecord) for raw in found)
    except InvalidJSONError as error:
        raise SessionError(
            f"a decision of this session can't be read: {error.message}", hint="upgrade greenroom"
        ) from error


QUESTION = "permission.question"
"""The kind of the records that hold questions."""


class OpenQuestion(Wire, frozen=True):
    """A recorded question to a person: about a call that has not started, or of a turn itself.

    Attributes:
        request_id: the id of the permission request, even when it is asked again.
        tool_use_id: the call; empty for a question that the turn's own code asks.
        digest: what the answer is bound to; an early answer counts only while this is the same.
        request: the whole question, as a person was shown it; None if an earlier version asked.
    """

    request_id: str
    tool_use_id: str
    digest: str = ""
    request: PermissionRequest | None = None


ANSWERED = "permission.answered"
"""The kind of the records that say that a question of a turn itself is answered."""


class _Asked(Wire, frozen=True):
    """What of a question says that it was asked, and about what."""

    request_id: str = ""
    tool_use_id: str = ""


def question_entry(question: OpenQuestion) -> RecordEntry:
    """Make the entry of a question; it is as long as the call that it is about."""
    return RecordEntry(QUESTION, msgspec.Raw(serde.encode(question)))


def answered_entry(request_id: str) -> RecordEntry:
    """Make the entry which says that a question is answered."""
    return RecordEntry(ANSWERED, msgspec.Raw(serde.encode(_Asked(request_id))))


def read_asked(entry: RecordEntry) -> tuple[str, str]:
    """Return the ids of a recorded question and of its call; empty if they can't be read."""
    try:
        asked = serde.decode(bytes(entry.value), _Asked)
    except InvalidJSONError:
        return "", ""
    return asked.request_id, asked.tool_use_id


def find_open_questions(
    records: Iterable[JSON], unstarted: Iterable[str]
) -> dict[str, OpenQuestion]:
    """Return the newest question about each of these calls, if there is one, by the call's id."""
    calls = frozenset(unstarted)
    found = map(read_question, records) if calls else ()
    return {each.tool_use_id: each for each in found if each and each.tool_use_id in calls}


def read_question(record: JSON) -> OpenQuestion | None:
    """Read a question; what can't be read of it, such as a newer version's, is asked again."""
    try:
        return serde.convert(record, OpenQuestion)
    except msgspec.ValidationError:
        if isinstance(record, dict) and "request" in record:
            return read_question({key: record[key] for key in record if key != "request"})
        return None


LONG = 256 * 1024
"""Characters from which on encoding an entry would block the event loop for too long."""

_LINE_SIZE = 64 * 1024  # bytes to a line of several entries: about what the last page takes

_FRAME = 8  # levels of an entry around values from outside, such as the input of a call

PendingEntry: TypeAlias = bytes | Entry
"""An entry that waits for its commit: encoded, or as it is if a thread is to encode it."""


_ENCODED = (DecisionEntry, RecordEntry, TurnEntry)


def validate_entry(entry: Entry) -> tuple[Entry, PendingEntry]:
    """Check that an entry can be written and read; return it as it will be read, and to be queued.

    A long entry is not encoded for this.

    Raises:
        InvalidJSONError: it holds something that JSON can't express.
    """
    if isinstance(entry, _ENCODED):  # they were made of what is known to be JSON
        return entry, serde.encode(entry)
    if not isinstance(entry, ToolsStartedEntry) and not _is_short(entry):  # a few ids are flat
        try:
            valid: Entry = serde.convert(_plain(msgspec.to_builtins(entry)), Entry)
        except (msgspec.ValidationError, TypeError, ValueError) as error:
            raise InvalidJSONError(f"this value can't be written as JSON: {error}") from error
        except RecursionError:
            pass  # long and deep: encoded here after all, which checks the depth
        else:
            return valid, valid
    encoded = serde.encode(entry)
    return decode_entry(encoded), encoded


def is_long(entries: Iterable[PendingEntry]) -> bool:
    """Whether these entries should be encoded in a thread."""
    size = 0
    for entry in entries:
        size += len(entry) if isinstance(entry, bytes) else LONG
    return size >= LONG


def encode_pending(entries: Iterable[PendingEntry]) -> list[bytes]:
    """Encode the entries that are not encoded yet.

    Raises:
        InvalidJSONError: an entry can't be written after all.
    """
    return [each if isinstance(each, bytes) else serde.encode(each) for each in entries]


def decode_pending(entries: Iterable[PendingEntry]) -> list[Entry]:
    """Decode the entries that are encoded already."""
    return [decode_entry(each) if isinstance(each, bytes) else each for each in entries]


def split_lines(encoded: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Divide entries, in order, into lines of moderate size; yields at least one."""
    line, size = list[bytes](), 0
    for entry in encoded:
        if line and size + len(entry) > _LINE_SIZE:
            yield line
            line, size = [], 0
        line.append(entry)
        size += len(entry)
    yield line


def _is_short(entry: Entry) -> bool:
    """Whether to encode an entry at once: because it is short, or to see whether it can be encoded.

    Raises:
        InvalidJSONError: it could be written, but not read again.
    """
    try:
        plain = msgspec.to_builtins(entry)
    except RecursionError as error:
        raise InvalidJSONError(f"it is nested more than {serde.MAX_DEPTH} levels deep") from error
    except (TypeError, ValueError):
        return True
    return serde.check_json(plain, serde.MAX_DEPTH + _FRAME) < LONG


def _plain(value: object) -> object:
    """Turn a value into what it will be after writing and reading it."""
    if isinstance(value, str):
        return value if value.isascii() else valid_unicode(value)
    if isinstance(value, dict):
        return {_plain(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
