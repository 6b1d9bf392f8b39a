"""Resources: objects that an agent's tools share, found by their class."""

from typing import TypeVar, cast

__all__ = ["ResourceMap"]

T = TypeVar("T")


class ResourceMap:
    """Objects keyed by their class: never serialised, never shown to the model.

    Example:
        >>> resources = ResourceMap()
        >>> resources.insert([1, 2])
        >>> resources.get(list)
        [1, 2]
        >>> resources.get(dict) is None
        True
    """

    def __init__(self) -> None:
        """Start empty."""
        self._values: dict[type, object] = {}

    def insert(self, value: object) -> None:
        """Hold a value under its class, in place of one that was there."""
        self._values[type(value)] = value

    def get(self, kind: type[T]) -> T | None:
        """Return the value of this class, or None."""
        return cast("T | None", self._values.get(kind))

    def contains(self, kind: type) -> bool:
        """Whether a value of this class is held."""
        return kind in self._values

    def remove(self, kind: type[T]) -> T | None:
        """Take the value of this class out and return it, or None."""
        return cast("T | None", self._values.pop(kind, None))

    def __len__(self) -> int:
        return len(self._values)
