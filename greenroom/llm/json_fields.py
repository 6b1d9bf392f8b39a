"""Reading JSON from others, where any field may hold anything."""

import re
from collections.abc import Mapping

from msgspec import UNSET

from greenroom.core._internal import InvalidJSONError, compile_later, serde, valid_unicode
from greenroom.llm.model_errors import ModelStreamError

DEPTH = 200
"""The most levels of nesting in a reply; our JSON encoder takes 254 for a whole request."""

_PAIR = compile_later(
    r"(?P<valid>\\[^u]|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2})|\\ud[89a-f][0-9a-f]{2}",
    re.IGNORECASE,
)


def _has_surrogates(data: str) -> bool:
    return r"\ud" in data or r"\uD" in data


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
    return _decode(_PAIR.sub(_replace_half, data) if _has_surrogates(data) else data, provider)


def _decode(data: str, provider: str) -> dict[str, object]:
    try:
        value = serde.loads(data)
    except InvalidJSONError as error:
        raise ModelStreamError(
            f"{provider} sent an event that is not JSON: {error.message}",
            provider=provider,
            hint="the stream was cut off or damaged; try again",
        ) from error
    if data.count("{") + data.count("[") > DEPTH:
        _check_depth(value, provider)
    return as_dict(value)


_HIGH = compile_later("[\ud800-\udbff]")
_MOST_HALVES = 64


class EventReader:
    r"""Decodes the events of one reply, and joins characters that are split between two of them.

    JSON may write a character as two halves, such as `\ud83d\ude00`, and some servers end a piece
    of text between them. So half a character at the end of a text waits for the next event with a
    text in the same place: under the same names and, in lists, under the same `index`. If the other
    half never comes, it becomes U+FFFD, or is left out if no more text comes.

    Example:
        >>> reader = EventReader("acme")
        >>> reader.read(r'{"text": "a\ud83d"}'), reader.read(r'{"text": "\ude00b"}')
        ({'text': 'a'}, {'text': '😀b'})
    """

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self.halves: dict[tuple[object, ...], str] = {}
        """The halves of characters that wait for the next event."""

    def read(self, data: str) -> dict[str, object]:
        """Decode the JSON object of one event; for any other JSON, return an empty one.

        Raises:
            ModelStreamError: as `decode_event`.
        """
        if not (self.halves or _has_surrogates(data)):
            return _decode(data, self._provider)
        decode_event(data, self._provider)  # raises if it is not an event
        value = as_dict(serde.loads_utf16(data))
        return as_dict(self._join(value, (_index_of(value, None),)))

    def _join(self, value: object, path: tuple[object, ...]) -> object:
        if isinstance(value, str):
            return self._join_text(value, path)
        if isinstance(value, list):
            return [self._join(item, (*path, _index_of(item, at))) for at, item in enumerate(value)]
        if isinstance(value, dict):
            return {valid_unicode(k): self._join(item, (*path, k)) for k, item in value.items()}
        return value

    def _join_text(self, text: str, path: tuple[object, ...]) -> str:
        text = self.halves.pop(path, "") + text
        if _HIGH.match(text[-1:]):
            self.halves[path] = text[-1]
            text = text[:-1]
            if len(self.halves) > _MOST_HALVES:
                del self.halves[next(iter(self.halves))]
        return valid_unicode(text)


def _index_of(value: object, place: int | None) -> int | None:
    fields = as_dict(value)
    indexes = map(as_int, (fields.get("index"), fields.get("output_index")))
    return next((index for index in indexes if index is not None), place)


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
        elif isinstance(older, dict) and isinstance(value, dict) and _has_no_type(value):
            whole[name] = extend(older, value)
    return whole


def _has_no_type(value: Mapping[str, object]) -> bool:
    return value.get("type", UNSET) is UNSET
