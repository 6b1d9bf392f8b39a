"""A session's description and the changes to it: who it is, whose child, which model, your values."""

import copy
from datetime import datetime

import msgspec

from greenroom.core import check_session_id, clock, serde
from greenroom.session.metadata import Origin, SessionMetadata


class Description:
    """The part of a session that `metadata.json` holds, in memory."""

    def __init__(self, record: SessionMetadata) -> None:
        """Begin with this record."""
        self._record = record
        self._is_touched = False

    @property
    def record(self) -> SessionMetadata:
        """The session's description as it stands; frozen."""
        return self._record

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._record.session_id

    @property
    def agent_type(self) -> str:
        """What kind of agent it belongs to, such as "coder"."""
        return self._record.agent_type

    @property
    def parent_session_id(self) -> str | None:
        """The session that started this one, or None."""
        return self._record.parent_session_id

    @property
    def parent_tool_use_id(self) -> str | None:
        """The parent's tool call that started it, or None."""
        return self._record.parent_tool_use_id

    @property
    def child_session_ids(self) -> tuple[str, ...]:
        """The sessions that this one started, in order."""
        return self._record.child_session_ids

    @property
    def forked_from(self) -> Origin | None:
        """Where it was forked from another session, or None."""
        return self._record.forked_from

    @property
    def model(self) -> str:
        """The model last used, empty before the first."""
        return self._record.model

    @property
    def provider(self) -> str:
        """The provider last used, empty before the first."""
        return self._record.provider

    @property
    def created_at(self) -> datetime:
        """When it was made, aware and in UTC."""
        return self._record.created_at

    @property
    def updated_at(self) -> datetime:
        """When it was last changed, aware and in UTC."""
        return self._record.updated_at

    @property
    def metadata(self) -> dict[str, object]:
        """The programmer's own values, as a copy; `set_metadata` changes them."""
        return copy.deepcopy(self._record.metadata)

    def set_metadata(self, key: str, value: object) -> None:
        """Keep a JSON value under a key; it is copied.

        Raises:
            InvalidJSONError: it is no JSON value; the message names the key.
        """
        self._touch(
            metadata=serde.plain({**self._record.metadata, key: value}, f"metadata {key!r}")
        )

    def get_metadata(self, key: str) -> object:
        """Return a copy of the value kept under a key, or None."""
        return copy.deepcopy(self._record.metadata.get(key))

    def set_model(self, provider: str, model: str) -> None:
        """Record which model answers now."""
        if (provider, model) != (self.provider, self.model):
            self._touch(provider=provider, model=model)

    def add_child_session(self, session_id: str) -> None:
        """Record that this session started another one; once is enough.

        Raises:
            InvalidSessionIdError: the id is none.
        """
        if check_session_id(session_id) not in self.child_session_ids:
            self._touch(child_session_ids=(*self.child_session_ids, session_id))

    def _touch(self, **changes: object) -> None:
        """Change these fields of the record, and its time."""
        self._record = msgspec.structs.replace(self._record, **changes, updated_at=clock.now())
        self._is_touched = True
