"""A session's description: the content of `metadata.json`, and changes to it in memory."""

import shlex
from collections.abc import Callable
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from functools import cache
from typing import Annotated

import msgspec

from greenroom.core import SessionError, utc_now
from greenroom.core._internal import (
    EMPTY,
    InvalidJSONError,
    check_session_id,
    freeze_fields,
    new_id,
    serde,
)
from greenroom.session.errors import SessionCorruptError

FORKED_FROM = "forked_from"
"""The key of a fork's origin in `metadata`."""


class Origin(msgspec.Struct, frozen=True):
    """The place at which a fork left another session.

    Attributes:
        session_id: the other session.
        at: how many messages of its history the fork began with.
        branch: the number of the branch with that history; see `AgentSession.read_branches`.
    """

    session_id: str
    at: int
    branch: int = 0


class SessionMetadata(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a session, without its messages; the keys of `metadata.json`.

    Attributes:
        session_id: the session's id, any text of 1 to 200 characters.
        agent_type: what kind of agent it belongs to, such as "coder".
        parent_session_id: the session that started this one, or None.
        parent_tool_use_id: the parent's tool call that started it, or None.
        child_session_ids: the sessions that this one started, in order.
        model: the model last used, empty before the first.
        provider: the provider last used, empty before the first.
        created_at: when it was made, aware and in UTC.
        updated_at: when it was last changed, aware and in UTC.
        metadata: the programmer's own values.
        unknown: keys written by a newer version, which this one does not know; a store keeps those
            that it holds. Unset if there are none.
    """

    session_id: str
    agent_type: str
    parent_session_id: str | None = None
    parent_tool_use_id: str | None = None
    child_session_ids: tuple[str, ...] = ()
    model: str = ""
    provider: str = ""
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    updated_at: Annotated[datetime, msgspec.Meta(tz=True)]
    metadata: dict[str, object] = EMPTY
    # Under a name that no version writes, since a newer one may have a key `unknown`.
    unknown: dict[str, object] | msgspec.UnsetType = msgspec.field(
        default=msgspec.UNSET, name="<unknown>"
    )

    def __post_init__(self) -> None:
        freeze_fields(self, "metadata")
        if self.unknown is not msgspec.UNSET:  # rare, and lists make thousands of these
            freeze_fields(self, "unknown")

    @classmethod
    def begin(cls, agent_type: str, session_id: str | None = None) -> "SessionMetadata":
        """Describe a session that begins now, with this id or a new one.

        Raises:
            InvalidSessionIdError: the id is not valid.
        """
        id_ = new_id("s") if session_id is None else check_session_id(session_id)
        at = utc_now()
        return cls(session_id=id_, agent_type=agent_type, created_at=at, updated_at=at)

    @property
    def forked_from(self) -> Origin | None:
        """Where this session was forked from another, or None; also None if unreadable."""
        try:
            return serde.convert(self.metadata.get(FORKED_FROM), Origin | None)
        except msgspec.ValidationError:  # the values are the user's
            return None

    @property
    def is_archived(self) -> bool:
        """Whether lists leave it out; see `AgentSession.archive`."""
        return self.metadata.get("archived") is True

    def with_updated_at(self, moment: datetime) -> "SessionMetadata":
        """Return it with `updated_at` no earlier than this moment."""
        if moment <= self.updated_at:  # so it is for most of a list
            return self
        later = max(self.updated_at, moment.astimezone(UTC).replace(microsecond=0))
        return msgspec.structs.replace(self, updated_at=later)

    def differs(self, other: "SessionMetadata | None") -> bool:
        """Whether anything but `updated_at` differs, or there is nothing to compare with."""
        return self is not other and (
            other is None or self != msgspec.structs.replace(other, updated_at=self.updated_at)
        )

    @staticmethod
    def check_id(session_id: str) -> str:
        """Return the id of a session if it is one: 1 to 200 characters, no control characters.

        Raises:
            SessionError: it is not.
        """
        return check_session_id(session_id)

    def encode(self, previous: bytes = b"", *, lines: int | None = None) -> bytes:
        """Encode it as indented JSON, keeping keys of `previous` that this version does not know.

        `lines` records how many lines the history has at least.
        """
        unknown = self.unknown or {}
        known = serde.loads(serde.encode(msgspec.structs.replace(self, unknown=msgspec.UNSET)))
        kept = serde.loads(previous) if previous else {}
        both: dict[str, object] = {}
        for each in (kept, unknown, known):
            both |= each if isinstance(each, dict) else {}
        if lines is not None:
            both["lines"] = lines
        return serde.dumps(both, pretty=True) + b"\n"

    @staticmethod
    def decode(data: bytes, *, session_id: str, path: str) -> "SessionMetadata":
        """Read a `metadata.json`; keys that this version does not know are kept as `unknown`.

        Raises:
            SessionCorruptError: it is not JSON, lacks a key, or describes another session.
        """
        try:
            found = _add_unknown(in_utc(_decode(data)), data)
        except InvalidJSONError as error:
            raise SessionCorruptError(
                f"{path}: {error.message}",
                session_id=session_id,
                path=path,
                line=1,
                hint=f"nothing was changed; `greenroom sessions repair {shlex.quote(session_id)}` "
                "reconstructs it: the messages are kept apart from it",
            ) from error
        if found.session_id != session_id:
            raise SessionCorruptError(
                f"{path} describes another session, {found.session_id[:140]!r}",
                session_id=session_id,
                path=path,
                line=1,
                hint="a session's folder is named after its id: rename it, or run "
                f"`greenroom sessions repair {shlex.quote(session_id)}` to describe the session "
                "by this id",
            )
        return found


def with_line_count(data: bytes, lines: int) -> bytes:
    """Return a description that records that the history has at least this many lines.

    Raises:
        InvalidJSONError: it is not a description.
    """
    fields = serde.decode(data, dict[str, object])
    return serde.dumps({**fields, "lines": lines}, pretty=True) + b"\n"


def read_line_count(data: bytes) -> int:
    """Return how many lines the history has at least, according to its description."""
    try:
        return max(serde.decode(data, _Lines).lines, 0)
    except InvalidJSONError:
        return 0


_KNOWN = {*SessionMetadata.__struct_fields__, "lines"} - {"unknown"}


class _Lines(msgspec.Struct):
    lines: int = 0


@cache
def _decoder() -> Callable[[bytes], SessionMetadata]:
    """Make the decoder once: to look it up takes a quarter of the time that it needs."""
    return serde.make_decoder(SessionMetadata).decode


@cache
def _key_decoder() -> Callable[[bytes], object]:
    """Make a decoder that refuses a key that this version does not know, and decodes no value."""
    fields = [(name, msgspec.Raw, msgspec.Raw()) for name in sorted(_KNOWN)]
    return serde.make_decoder(
        msgspec.defstruct("_Known", fields, forbid_unknown_fields=True, gc=False)
    ).decode


def _decode(data: bytes) -> SessionMetadata:
    try:
        return _decoder()(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidJSONError(f"not a SessionMetadata: {error}") from error


def _add_unknown(metadata: SessionMetadata, data: bytes) -> SessionMetadata:
    """Return a description that was decoded with what this version does not know of it.

    Raises:
        InvalidJSONError: that is not JSON.
    """
    try:
        _key_decoder()(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        keys = serde.decode(data, dict[str, object])
        unknown = {name: value for name, value in keys.items() if name not in _KNOWN}
        return msgspec.structs.replace(metadata, unknown=unknown) if unknown else metadata
    return metadata


def in_utc(metadata: SessionMetadata) -> SessionMetadata:
    """Return it with its times in UTC.

    Raises:
        InvalidJSONError: one of them is in the calendar's first or last year, which not every time
            zone can express.
    """
    created, updated = metadata.created_at, metadata.updated_at
    for name, moment in (("created_at", created), ("updated_at", updated)):
        if not MINYEAR < moment.year < MAXYEAR:
            raise InvalidJSONError(f"{name} is not a time that every zone can express: {moment}")
    if created.tzinfo is UTC and updated.tzinfo is UTC:  # as we write them
        return metadata
    return msgspec.structs.replace(
        metadata, created_at=created.astimezone(UTC), updated_at=updated.astimezone(UTC)
    )


class Description:
    """The content of a session's `metadata.json` in memory, and changes to it."""

    def __init__(self, record: SessionMetadata) -> None:
        self.facts = record
        """The current description, except the time of its last change."""
        self._updated_at = record.updated_at
        self.is_stored = False
        """Whether the store has a description of this session, even if an older one."""
        self.is_changed = False
        """Whether the session was changed here since it was stored or read."""

    @property
    def record(self) -> SessionMetadata:
        """The current description; frozen."""
        if self.facts.updated_at != self._updated_at:
            self.facts = msgspec.structs.replace(self.facts, updated_at=self._updated_at)
        return self.facts

    def restore(self, record: SessionMetadata) -> None:
        """Continue from what is stored."""
        self.facts, self._updated_at = record, record.updated_at
        self.is_stored, self.is_changed = True, False

    def touch(self, **changes: object) -> None:
        """Change these fields of the record, and its update time."""
        if changes:
            self.facts = msgspec.structs.replace(self.facts, **changes)
        self._updated_at = utc_now()  # each message changes no more than that
        self.is_changed = True

    def set_value(self, key: str, value: object) -> None:
        """Set a JSON value of the programmer's under a key; it is copied.

        Raises:
            InvalidJSONError: it is not a JSON value; the message names the key.
        """
        values = {**self.facts.metadata, key: value}
        self.touch(metadata=serde.plain(values, f"metadata {key!r}"))

    def set_model(self, provider: str, model: str) -> None:
        """Record which model answers from now on."""
        if (provider, model) != (self.facts.provider, self.facts.model):
            self.touch(provider=provider, model=model)

    def set_parent(self, session_id: str, tool_use_id: str | None) -> None:
        """Make it the child of another session before it is stored; a fork may be stored already.

        Raises:
            InvalidSessionIdError: the parent's id is not valid.
            SessionError: it is stored already, or has another parent.
        """
        check_session_id(session_id)
        is_placed = self.is_stored and FORKED_FROM not in self.facts.metadata
        if is_placed or self.facts.parent_session_id not in (None, session_id):
            raise SessionError(
                f"session {self.facts.session_id!r} has its place already",
                session_id=self.facts.session_id,
                hint="a subagent takes a new session, or one that this agent gave it before; to "
                "continue another conversation, pass `await session.fork()`",
            )
        self.touch(parent_session_id=session_id, parent_tool_use_id=tool_use_id)

    def add_child(self, session_id: str) -> None:
        """Record that this session started another one, unless that is on record already.

        Raises:
            InvalidSessionIdError: the id is not valid.
        """
        if check_session_id(session_id) not in self.facts.child_session_ids:
            self.touch(child_session_ids=(*self.facts.child_session_ids, session_id))
