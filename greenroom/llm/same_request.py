"""Whether two requests say the same, for all that their vendors tell."""

from collections.abc import Mapping

from greenroom.core import InvalidJSONError, serde


def same_request(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two bodies of requests, or parts of such, are the same.

    The order of fields does not count. A `content` or `system` that is text is the same as a list of
    one text block, and the `arguments` of a call are the same where they are the same JSON.

    Example:
        >>> same_request(
        ...     {"role": "user", "content": "hi"},
        ...     {"content": [{"type": "text", "text": "hi"}], "role": "user"},
        ... )
        True
    """
    return _is_same(_plain(one), _plain(other))


def _is_same(one: object, other: object) -> bool:
    """Compare JSON, where true is not 1."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def _plain(value: object, field: str = "") -> object:
    if isinstance(value, Mapping):
        return {name: _plain(item, name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str) and field in {"content", "system"}:
        return [{"type": "text", "text": value}]
    if isinstance(value, str) and field == "arguments":
        try:
            return {"json": serde.loads(value)}
        except InvalidJSONError:
            return value
    return value
