"""A description that is damaged or gone, put together anew from what else there is."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import get_type_hints

import msgspec

from greenroom.core import InvalidJSONError, Message, serde
from greenroom.session.history.entry import CheckpointEntry, Entry, MessageEntry
from greenroom.session.metadata import SessionMetadata, in_utc

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
    read = _readable(data)
    derived = _derived(session_id, entries, relatives, changed)
    lost = tuple(
        each for each in SessionMetadata.__struct_fields__ if each not in {*read, "unknown"}
    )
    both = {**derived, **read, "session_id": session_id}
    try:
        return in_utc(msgspec.convert(both, SessionMetadata)), lost
    except InvalidJSONError:  # a time that no calendar has everywhere
        both |= {"created_at": changed, "updated_at": changed}
        return msgspec.convert(both, SessionMetadata), (*lost, "created_at", "updated_at")


def _readable(data: bytes) -> dict[str, object]:
    """Return the fields of a description that can be read, each for itself."""
    try:
        found = serde.loads(data)
    except InvalidJSONError:
        return {}
    fields = found.items() if isinstance(found, dict) else ()
    return {name: value for name, value in fields if name in _TYPES and _fits(value, _TYPES[name])}


def _fits(value: object, kind: object) -> bool:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        return False
    return True


def _derived(
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
        "metadata": _values(said, entries),
    }


def _values(said: Iterable[Message], entries: Iterable[Entry]) -> dict[str, object]:
    """Return what the command keeps there, so that lists show it and it goes on in its folder."""
    values: dict[str, object] = {}
    words = next((" ".join(each.text.split()) for each in said if each.role == "user"), "")
    if words:
        values["title"] = words if len(words) <= _TITLE else f"{words[: _TITLE - 1].rstrip()}…"
    roots = [each.checkpoint.root for each in entries if isinstance(each, CheckpointEntry)]
    if any(roots):
        values["workspace"] = next(root for root in reversed(roots) if root)
    return values
