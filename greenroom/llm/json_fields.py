"""Reading JSON from others, where any field may hold anything."""

import re
from collections.abc import Mapping

from msgspec import UNSET

from greenroom.core import InvalidJSONError, ModelStreamError, serde

DEPTH = 200
"""The most levels of nesting in a reply; our JSON encoder takes 254 for a whole request."""

_ESCAPED_SURROGATE = r"\ud"
_PAIR = re.compile(
    r"(?P<valid>\\[^u]|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\ud[89a-f][0-9a-f]{2}",
    re.IGNORECASE,
)


def _replace_half(match: re.Match[str]) -> str:
    return match["valid"] or r"\ufffd"


def decode_event(data: str, provider: str) -> dict[str, object]:
    r"""Decode the JSON object of one event; for any other JSON, return an empty one.

    Half of a surrogate pair, which UTF-8 can't express, becomes U+FFFD.

    Raises:
        ModelStreamError: the event is not JSON, or is nested so deeply that it could not be sent
            back.

    Example:
        >>> decode_event(r'{"text": "\ud83d\ude00 \ud83d \\ud83d"}', "acme")
        {'text': '😀 � \\ud83d'}
    """
    try:
        value = serde.loads(
            _PAIR.sub(_replace_half, data) if _ESCAPED_SURROGATE in data.lower() else data
        )
    except InvalidJSONError as error:
        raise ModelStreamError(
            f"{provider} sent an event that is not JSON: {error.message}",
            provider=provider,
            hint="the stream was cut off or damaged; try again",
        ) from error
    if data.count("{") + data.count("[") > DEPTH:
        _check_depth(value, provider)
    return as_dict(value)


def _check_depth(value: object, provider: str) -> None:
    try:
        serde.check_json(value, DEPTH)
    except InvalidJSONError as error:
        raise ModelStreamError(
            f"{provider} sent an event that can't be used: {error.message}", provider=provider
        ) from error


def as_dict(value: object) -> dict[str, object]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return the value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def as_int(value: object) -> int | None:
    """Return the value if it is a whole number, else None.

    Example:
        >>> as_int(7), as_int(True), as_int("7")
        (7, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_number(value: object) -> float | None:
    """Return the value if it is a number, else None."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def merge_reports(older: Mapping[str, object], newer: Mapping[str, object]) -> dict[str, object]:
    """Merge two reports: of each field, the last value that is not null; nothing is summed.

    Example:
        >>> merge_reports({"input": 5, "output": 1}, {"input": None, "output": 9})
        {'input': 5, 'output': 9}
    """
    return {**older, **{key: value for key, value in newer.items() if value is not None}}


def without(value: Mapping[str, object], *names: str) -> dict[str, object]:
    """Return an object without these fields and without nulls."""
    return {key: item for key, item in value.items() if key not in names and item is not None}


def extend(fields: Mapping[str, object], extra: Mapping[str, object]) -> dict[str, object]:
    """Add fields to an object, and to the objects in it; `msgspec.UNSET` removes one.

    An object with its own `type` replaces the one before.

    Example:
        >>> extend({"type": "file", "file": {"name": "a"}}, {"file": {"id": 1}, "type": UNSET})
        {'file': {'name': 'a', 'id': 1}}
    """
    whole = {**fields, **extra}
    for name, value in extra.items():
        older = fields.get(name)
        if value is UNSET:
            del whole[name]
        elif isinstance(older, dict) and isinstance(value, dict) and "type" not in value:
            whole[name] = extend(older, value)
    return whole
