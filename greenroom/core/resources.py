"""Resources: what agents and their tools share, found by its class."""

from collections.abc import Iterator
from itertools import chain
from typing import TypeVar, cast

T = TypeVar("T")


class ResourceMap:
    """Objects keyed by their class: never serialised, never shown to the model.

    An agent's map falls back on its runtime's: what it does not hold is looked up there. A class
    with an attribute `resource_type` names another one, under which its instances are held beside
    all others of that type; `get_all` returns them.

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
        """Start empty; look up in `shared` what is missing here."""
        self._values: dict[type, object] = {}
        self._chains: dict[type, list[object]] = {}  # by `resource_type`
        self._shared = shared

    @property
    def shared(self) -> "ResourceMap":
        """The map that all agents of the runtime share; this one if it has no other below it."""
        return self if self._shared is None else self._shared

    def insert(self, value: object) -> None:
        """Hold a value under its class, which replaces the one before it.

        One with a `resource_type` is held under that, behind those which are there.
        """
        kind = getattr(type(value), "resource_type", None)
        if not isinstance(kind, type):
            self._values[type(value)] = value
            return
        held = self._chains.setdefault(kind, [])
        if not any(each is value for each in held):
            held.append(value)

    def get_all(self, kind: type[T]) -> tuple[T, ...]:
        """Return the values of this `resource_type`: this map's, then the shared one's."""
        above = () if self._shared is None else self._shared.get_all(kind)
        return (*cast("list[T]", self._chains.get(kind, ())), *above)

    def get(self, kind: type[T]) -> T | None:
        """Return the value of this class, or None; of several of a `resource_type`, the first."""
        if kind in self._chains:
            return cast("T", self._chains[kind][0])
        if kind not in self._values and self._shared is not None:
            return self._shared.get(kind)
        return cast("T | None", self._values.get(kind))

    def contains(self, kind: type) -> bool:
        """Whether this map or the shared one holds a value of this class."""
        is_here = kind in self._values or kind in self._chains
        return is_here or (self._shared is not None and self._shared.contains(kind))

    def remove(self, kind: type[T]) -> T | None:
        """Remove and return the value of this class, or None; the shared map keeps its own.

        Of a `resource_type` it removes all, and returns the first.
        """
        held = self._chains.pop(kind, None)
        return cast("T | None", held[0] if held else self._values.pop(kind, None))

    def clear(self) -> None:
        """Drop every value; the shared map keeps its own."""
        self._values.clear()
        self._chains.clear()

    def __len__(self) -> int:
        return len(self._values) + sum(map(len, self._chains.values()))

    def __iter__(self) -> Iterator[object]:
        return iter((*self._values.values(), *chain.from_iterable(self._chains.values())))
