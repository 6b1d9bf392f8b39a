"""Reading the fields of JSON that others wrote, where anything may stand anywhere."""

from collections.abc import Mapping

from greenroom.core import InvalidJSONError, ModelStreamError, serde

__all__ = ["event_of", "integer", "items", "latest", "mapping", "text", "without"]


def event_of(data: str, provider: str) -> dict[str, object]:
    """Decode the JSON object of one event.

    Raises:
        ModelStreamError: the event is no JSON object.
    """
    try:
        value = serde.loads(data)
    except InvalidJSONError as error:
        raise ModelStreamError(
            f"{provider} sent an event that is no JSON: {error.message}",
            provider=provider,
            hint="the stream was cut or damaged on its way; try again",
        ) from error
    return mapping(value)


def mapping(value: object) -> dict[str, object]:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[object]:
    """Return the value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """Return the value if it is text, else an empty one."""
    return value if isinstance(value, str) else ""


def integer(value: object) -> int | None:
    """Return the value if it is a whole number, else None.

    Example:
        >>> integer(7), integer(True), integer("7")
        (7, None, None)
    """
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def latest(older: Mapping[str, object], newer: Mapping[str, object]) -> dict[str, object]:
    """Merge two reports: field by field the last value that is not null; nothing is summed.

    Example:
        >>> latest({"input": 5, "output": 1}, {"input": None, "output": 9})
        {'input': 5, 'output': 9}
    """
    return {**older, **{key: value for key, value in newer.items() if value is not None}}


def without(value: Mapping[str, object], *names: str) -> dict[str, object]:
    """Return what an object holds besides these fields and besides nulls."""
    return {key: item for key, item in value.items() if key not in names and item is not None}
