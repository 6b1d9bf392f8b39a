"""A conversation as one JSON object, which can be imported again."""

import codecs
from collections.abc import Iterator, Mapping
from typing import TypeVar

import msgspec

from greenroom.core import Message, SessionError, UnknownBlock
from greenroom.core._internal import UNKNOWN_FIELDS, InvalidJSONError, check_session_id, serde
from greenroom.export.content import SessionContent
from greenroom.session import SessionMetadata
from greenroom.session._internal import MessageEntry, decode_entries, in_utc


def collect_unknown(
    raw: object, known: object, at: tuple[str | int, ...] = ()
) -> Iterator[dict[str, object]]:
    """Collect the fields of a JSON value that were lost when it was read as `known`.

    Yields:
        An object for each place: the way to it, `at`, and the `fields`.
    """
    if isinstance(known, tuple) and isinstance(raw, list):
        for index, (each, value) in enumerate(zip(raw, known, strict=False)):
            yield from collect_unknown(each, value, (*at, index))
    elif isinstance(known, msgspec.Struct) and isinstance(raw, dict) and _is_same(raw, known):
        names = set(known.__struct_encode_fields__) | {known.__struct_config__.tag_field}
        if fields := {name: value for name, value in raw.items() if name not in names}:
            yield {"at": list(at), "fields": fields}
        for name in raw.keys() & set(known.__struct_fields__):
            yield from collect_unknown(raw[name], getattr(known, name), (*at, name))


def restore_unknown(raw: dict[str, object], kept: object) -> dict[str, object]:
    """Put collected fields back to their places; those whose place is gone are left out."""
    for each in kept if isinstance(kept, list) else ():
        if isinstance(each, dict):
            place = _walk(raw, each.get("at"))
            fields = each.get("fields")
            if isinstance(place, dict) and isinstance(fields, dict):
                place |= {name: value for name, value in fields.items() if name not in place}
    return raw


def _is_same(raw: Mapping[str, object], known: msgspec.Struct) -> bool:
    """Whether it was decoded as its own kind; an unknown kind is kept as a whole."""
    config = known.__struct_config__
    is_kind = config.tag is None or raw.get(config.tag_field or "") == config.tag
    return is_kind and not isinstance(known, UnknownBlock)


def _walk(place: object, at: object) -> object:
    for step in at if isinstance(at, list) else (None,):
        if isinstance(place, dict) and isinstance(step, str):
            place = place.get(step)
        elif isinstance(place, list) and isinstance(step, int) and 0 <= step < len(place):
            place = place[step]
        else:
            return None
    return place


FORMAT = "greenroom-session"
"""What the field `format` says."""

VERSION = 1
"""What the field `version` says. It rises only when an older reader would misread the text."""

T = TypeVar("T")

_KNOWN = {"format", "version", "session", "messages"}
LONGEST_IMPORT = 1 << 30
"""Bytes of a text to be read: as many as a history may have."""


def to_json(content: SessionContent) -> Iterator[str]:
    """Write a conversation as one JSON object, piece by piece: a message a line.

    Subagents are named by their ids; each is exported separately.

    Raises:
        InvalidJSONError: it holds something that JSON can't express; stored sessions never do.
    """
    own = dict(content.metadata.metadata)
    kept = own.pop(UNKNOWN_FIELDS, None)
    known = msgspec.structs.replace(content.metadata, metadata=own, unknown=msgspec.UNSET)
    about = _plain(known)
    head = restore_unknown({"format": FORMAT, "version": VERSION, "session": about}, kept)
    session = serde.encode(head.pop("session")).decode()
    yield f'{serde.encode(head).decode()[:-1]},\n"session":{session},\n"messages":['
    for number, message in enumerate(content.messages):
        yield (",\n" if number else "\n") + _encode(message)
    yield "\n]}\n"


def from_json(data: bytes | str) -> SessionContent:
    """Read what `to_json` wrote, in whatever layout, all of it or nothing.

    What a newer version added in fields and kinds of blocks is kept.

    Raises:
        InvalidJSONError: it is not JSON, not a session, or longer than 1 GiB; the message names the
            line or the field.
        SessionError: it is of a newer version.
    """
    fields = _fields(data)
    _check_version(fields)
    metadata = _metadata(fields)
    raws = _read(fields, "messages", tuple[msgspec.Raw, ...])
    messages = tuple(_decode(bytes(raw), number) for number, raw in enumerate(raws))
    return SessionContent(metadata, messages)


def _encode(message: Message) -> str:
    kept = message.extra.get(UNKNOWN_FIELDS)
    if kept is None:
        return serde.encode(message).decode()
    extra = {name: value for name, value in message.extra.items() if name != UNKNOWN_FIELDS}
    plain = _plain(msgspec.structs.replace(message, extra=extra))
    return serde.encode(restore_unknown(plain, kept)).decode()


def _decode(raw: bytes, number: int) -> Message:
    line = b'{"e":[{"kind":"message","message":%s}]}' % raw
    try:
        [entry] = decode_entries(line)
    except InvalidJSONError as error:
        raise _locate_error(error, "$.e[0].message", f"$.messages[{number}]") from error
    assert isinstance(entry, MessageEntry)
    message = entry.message
    if serde.encode(message) == raw:  # as it is in what we wrote
        return message
    if kept := list(collect_unknown(serde.decode(raw, dict[str, object]), message)):
        extra = {**message.extra, UNKNOWN_FIELDS: kept}
        return msgspec.structs.replace(message, extra=extra)
    return message


def _fields(data: bytes | str) -> dict[str, msgspec.Raw]:
    if len(data) > LONGEST_IMPORT:
        raise InvalidJSONError(f"the text is longer than {LONGEST_IMPORT:,} bytes")
    if isinstance(data, str):
        data = data.encode("utf-8", "replace")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return serde.decode(data, dict[str, msgspec.Raw])
    except InvalidJSONError as error:
        serde.loads(data)  # if it is not JSON at all, this names the line
        raise _refuse("the text is not a JSON object") from error


def _check_version(fields: dict[str, msgspec.Raw]) -> None:
    if fields.get("format") != msgspec.Raw(b'"%s"' % FORMAT.encode()):
        raise _refuse(f'$.format is not "{FORMAT}"')
    version = _read(fields, "version", int)
    if version < 1:
        raise _refuse(f"$.version: version {version} does not exist")
    if version > VERSION:
        raise SessionError(
            f"the text is of version {version}; this version of greenroom reads up to {VERSION}",
            hint="upgrade greenroom",
        )


def _metadata(fields: dict[str, msgspec.Raw]) -> SessionMetadata:
    """Read the description; fields unknown here are kept among its own values."""
    metadata = in_utc(_read(fields, "session", SessionMetadata))
    ids = (metadata.session_id, metadata.parent_session_id, *metadata.child_session_ids)
    for id_ in ids:
        if id_ is not None:
            check_session_id(id_)
    kept = [
        {**each, "at": ["session"]}
        for each in collect_unknown(_read(fields, "session", dict[str, object]), metadata)
    ]
    others = {
        name: serde.decode(bytes(raw), object) for name, raw in fields.items() if name not in _KNOWN
    }
    kept += [{"at": [], "fields": others}] if others else []
    own = {**metadata.metadata, UNKNOWN_FIELDS: kept} if kept else metadata.metadata
    return msgspec.structs.replace(metadata, metadata=own)


def _read(fields: dict[str, msgspec.Raw], name: str, kind: type[T]) -> T:
    if name not in fields:
        raise InvalidJSONError(f"$.{name} is missing")
    try:
        return serde.decode(bytes(fields[name]), kind)
    except InvalidJSONError as error:
        raise _locate_error(error, "$", f"$.{name}") from error


def _locate_error(error: InvalidJSONError, found: str, place: str) -> InvalidJSONError:
    """Say what does not fit, in terms of the whole text."""
    problem, _, at = error.message.partition(": ")[2].rpartition(" - at `")
    if not problem:
        return InvalidJSONError(f"{place}: {error.message.partition(': ')[2]}")
    return InvalidJSONError(f"{at.rstrip('`').replace(found, place, 1)}: {problem}")


def _refuse(problem: str) -> InvalidJSONError:
    hint = "only what `greenroom sessions export --format json` wrote can be imported"
    return InvalidJSONError(problem, hint=hint)


def _plain(value: msgspec.Struct) -> dict[str, object]:
    return serde.decode(serde.encode(value), dict[str, object])
