"""Resources: objects that an agent's tools share, or all agents of a runtime, found by their class."""

from collections.abc import Iterator
from typing import TypeVar, cast

T = TypeVar("T")


class ResourceMap:
    """Objects keyed by their class: never serialised, never shown to the model.

    An agent's map stands on that of its runtime: what it does not hold itself is looked up there.

    Example:
        >>> resources = ResourceMap()
        >>> resources.insert([1, 2])
        >>> resources.get(list)
        [1, 2]
        >>> resources.get(dict) is None
        True
        >>> ResourceMap(shared=resources).get(list)
        [1, 2]
    """

    def __init__(self, *, shared: "ResourceMap | None" = None) -> None:
        """Start empty, on top of the map that others share, if any."""
        self._values: dict[type, object] = {}
        self._shared = shared

    @property
    def shared(self) -> "ResourceMap":
        """The map that all agents of the runtime share; this one where it stands alone."""
        return self if self._shared is None else self._shared

    def insert(self, value: object) -> None:
        """Hold a value under its class, in place of one that was there."""
        self._values[type(value)] = value

    def get(self, kind: type[T]) -> T | None:
        """Return the value of this class, or None."""
        if kind not in self._values and self._shared is not None:
            return self._shared.get(kind)
        return cast("T | None", self._values.get(kind))

    def contains(self, kind: type) -> bool:
        """Whether a value of this class is held, here or in the shared map."""
        return kind in self._values or (self._shared is not None and self._shared.contains(kind))

    def remove(self, kind: type[T]) -> T | None:
        """Take the value of this class out and return it, or None; the shared map keeps its own."""
        return cast("T | None", self._values.pop(kind, None))

    def clear(self) -> None:
        """Let go of every value; the shared map keeps its own."""
        self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[object]:
        return iter(tuple(self._values.values()))
