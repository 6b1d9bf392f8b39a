"""Numbers out of a validated input."""

from collections.abc import Mapping


def integer(data: Mapping[str, object], name: str, default: int) -> int:
    """Return the integer of this name; to JSON Schema, 3.0 is one as well.

    Example:
        >>> integer({"limit": 3.0}, "limit", 10), integer({}, "limit", 10)
        (3, 10)
    """
    value = data.get(name, default)
    return int(value) if isinstance(value, int | float) else default
