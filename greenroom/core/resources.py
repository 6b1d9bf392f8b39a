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

    def clear(self) -> None:
        """Let go of every value."""
        self._values.clear()

    def overlaid(self, value: object) -> "ResourceMap":
        """Return a view of this map that holds one value more, or in place of one of its class.

        What is inserted or removed through the view changes this map.

        Example:
            >>> resources = ResourceMap()
            >>> view = resources.overlaid("for one call")
            >>> view.get(str), resources.get(str)
            ('for one call', None)
        """
        return _Overlay(self, value)

    def __len__(self) -> int:
        return len(self._values)


class _Overlay(ResourceMap):
    """A map that shares its values with another one, and holds one of its own."""

    def __init__(self, below: ResourceMap, value: object) -> None:
        self._values = below._values
        self._kind = type(value)
        self._value = value

    def get(self, kind: type[T]) -> T | None:
        return cast("T", self._value) if kind is self._kind else super().get(kind)

    def contains(self, kind: type) -> bool:
        return kind is self._kind or super().contains(kind)
