"""Fields that this version does not know: kept when a text is read, put back when it is written."""

from collections.abc import Iterator, Mapping

import msgspec

from greenroom.core import UNKNOWN_FIELDS, UnknownBlock

KEY = UNKNOWN_FIELDS
"""Under this key of a message's `extra`, and of a session's own values, they are kept."""


def without_unknown(raw: object, known: msgspec.Struct) -> list[dict[str, object]]:
    """Collect the fields of a JSON value that were lost when it was read as `known`.

    Returns:
        An object for each place: the way to it, `at`, and the `fields`.
    """
    return list(_collect(raw, known, ()))


def with_unknown(raw: dict[str, object], kept: object) -> dict[str, object]:
    """Put collected fields back to their places; those whose place is gone are left out."""
    for each in kept if isinstance(kept, list) else ():
        if isinstance(each, dict):
            place = _walk(raw, each.get("at"))
            fields = each.get("fields")
            if isinstance(place, dict) and isinstance(fields, dict):
                place |= {name: value for name, value in fields.items() if name not in place}
    return raw


def _collect(raw: object, known: object, at: tuple[str | int, ...]) -> Iterator[dict[str, object]]:
    if isinstance(known, tuple) and isinstance(raw, list):
        for index, (each, value) in enumerate(zip(raw, known, strict=False)):
            yield from _collect(each, value, (*at, index))
    elif isinstance(known, msgspec.Struct) and isinstance(raw, dict) and _is_same(raw, known):
        names = set(known.__struct_encode_fields__) | {known.__struct_config__.tag_field}
        if fields := {name: value for name, value in raw.items() if name not in names}:
            yield {"at": list(at), "fields": fields}
        for name in raw.keys() & set(known.__struct_fields__):
            yield from _collect(raw[name], getattr(known, name), (*at, name))


def _is_same(raw: Mapping[str, object], known: msgspec.Struct) -> bool:
    """Whether it is still of its kind: one that is not known is kept as a whole."""
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
