"""What frozen values hold: dicts and lists that can't be changed, and texts that UTF-8 can carry.

A frozen value copies the JSON that it is made from, and what it hands out can be read by anybody,
instruments included: nobody can change what runs, what is sent or what is stored. `freeze` makes
such a copy, once: of what is frozen already it makes none. `thaw` makes a copy to change, as each
tool gets one of its input.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NoReturn, TypeAlias, TypeVar, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from greenroom.core.errors import InvalidJSONError

T = TypeVar("T")

_PART = 100_000  # characters, which take some milliseconds
_DEEPEST = 2_000  # levels; no decoder takes as many, so a value that has them holds itself


class FrozenDict(dict[str, object]):
    """A dict that refuses each change; in all else a plain one: it equals it, and encodes like it.

    Its `copy()`, `copy.copy` and `copy.deepcopy` give plain dicts.

    Raises:
        TypeError: it is changed, or called: `freeze` makes these.
    """

    __slots__ = ()

    def __copy__(self) -> dict[str, object]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, object]) -> dict[str, object]:
        return copy.deepcopy(dict(self), memo)

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[[object], object], tuple[object]]:
        return freeze, (dict(self),)


class FrozenList(list[object]):
    """A list that refuses each change; in all else a plain one, as `FrozenDict` is a plain dict.

    Raises:
        TypeError: it is changed, or called: `freeze` makes these.
    """

    __slots__ = ()

    def __copy__(self) -> list[object]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, object]) -> list[object]:
        return copy.deepcopy(list(self), memo)

    def __reduce_ex__(self, protocol: object) -> tuple[Callable[[object], object], tuple[object]]:
        return freeze, (list(self),)


def _refuse_changes(kind: type, plain: str, *methods: str) -> None:
    """Let these methods of a class raise."""

    def refuse(self: object, *_args: object, **_named: object) -> NoReturn:
        raise TypeError(
            f"this {plain} is part of a frozen value and can't be changed: change a copy, made by "
            f"{plain}(…), or by copy.deepcopy(…) if it holds others"
        )

    for method in ("__init__", "__setitem__", "__delitem__", "clear", "pop", *methods):
        setattr(kind, method, refuse)


_refuse_changes(FrozenDict, "dict", "__ior__", "popitem", "setdefault", "update")
_refuse_changes(
    FrozenList, "list", "__iadd__", "__imul__", "append", "extend", "insert", "remove", "reverse",
    "sort",
)  # fmt: skip

EMPTY: dict[str, object] = dict.__new__(FrozenDict)
"""The frozen dict without keys, and the default of fields."""

_Container: TypeAlias = dict[str, object] | list[object]
_PLAIN = (dict, list)
_ATOMS = frozenset({str, int, float, bool, type(None)})
_FIXED = _ATOMS | {FrozenDict, FrozenList}
_CONTAINERS = frozenset({dict, list, tuple, FrozenDict, FrozenList})


def freeze(value: T) -> T:
    """Return a value of JSON with frozen copies of the dicts and lists in it.

    A mapping of another kind, such as a view of a dict, becomes a dict too, unless it is within the
    value. Tuples stay tuples; objects of other kinds stay as they are.

    Raises:
        InvalidJSONError: a dict or list holds itself.

    Example:
        >>> given = {"path": "a.txt", "lines": [1, 2]}
        >>> frozen = freeze(given)
        >>> frozen == given, freeze(frozen) is frozen
        (True, True)
        >>> frozen["lines"].append(3)
        Traceback (most recent call last):
        ...
        TypeError: this list is part of a frozen value and can't be changed: change a copy, made \
by list(…), or by copy.deepcopy(…) if it holds others
    """
    if type(value) in _FIXED:
        return value
    if isinstance(value, tuple) and _holds_structs(value, _FIXED):
        return value
    if not isinstance(value, _PLAIN) and isinstance(value, Mapping):
        return _copy(dict(value), FrozenDict, FrozenList)  # type: ignore[return-value]
    return _copy(value, FrozenDict, FrozenList)


def thaw(value: T) -> T:
    """Return a value of JSON with plain copies of the dicts and lists in it, which can be changed.

    Raises:
        InvalidJSONError: a dict or list holds itself.

    Example:
        >>> lines = thaw(freeze({"lines": [2, 1]}))["lines"]
        >>> lines.sort()
        >>> lines
        [1, 2]
    """
    return _copy(value, dict, list)


def _copy(value: T, dicts: type[dict[str, object]], lists: type[list[object]]) -> T:
    """Copy the dicts and lists of a value, however deep, into these types."""
    kept = _FIXED if dicts is FrozenDict else _ATOMS
    if isinstance(value, _PLAIN):
        held: Iterable[object] = value.values() if isinstance(value, dict) else value
        if kept.issuperset(map(type, held)):  # as most are: copied in one step
            return _copy_top(value, dicts, lists)  # type: ignore[return-value]
    whole: list[object] = [value]
    found: list[tuple[_Container, int]] = [(whole, 0)]  # copied, but not yet what they hold
    while found:
        container, depth = found.pop()
        if depth > _DEEPEST:
            raise InvalidJSONError(
                f"it is nested more than {_DEEPEST} levels deep, or holds itself"
            )
        for key, part in container.items() if isinstance(container, dict) else enumerate(container):
            if type(part) in kept:
                continue
            if isinstance(part, _PLAIN):
                copied = _copy_top(part, dicts, lists)
                _put(container, key, copied)
                held = copied.values() if isinstance(copied, dict) else copied
                kinds = {*map(type, held)} - kept
                # Other structs freeze what they hold. No call where containers say it already.
                if kinds and (kinds & _CONTAINERS or not all(map(_is_struct, kinds))):
                    found.append((copied, depth + 1))
            elif type(part) is tuple and not _holds_structs(part, kept):
                _put(container, key, tuple(_copy(each, dicts, lists) for each in part))
    return whole[0]  # type: ignore[return-value]


def _holds_structs(value: tuple[object, ...], kept: frozenset[object]) -> bool:
    """Whether nothing in a tuple has to be copied."""
    return all(map(_is_struct, {*map(type, value)} - kept))


def _is_struct(kind: type) -> bool:
    return issubclass(kind, Struct)


def _copy_top(
    part: _Container, dicts: type[dict[str, object]], lists: type[list[object]]
) -> _Container:
    if isinstance(part, list):
        new = list.__new__(lists)
        list.extend(new, part)
        return new
    if not part and dicts is FrozenDict:
        return EMPTY
    made = dict.__new__(dicts)
    dict.update(made, part)
    return made


def _put(container: _Container, key: object, value: object) -> None:
    """Set an item, past the methods of the frozen types."""
    if isinstance(container, dict):
        dict.__setitem__(container, cast("str", key), value)
    else:
        list.__setitem__(container, cast("int", key), value)


def freeze_fields(owner: object, *names: str) -> None:
    """Freeze these fields of a new struct or dataclass, from its `__post_init__`.

    A struct's field that is usually empty has `EMPTY` as its default.

    Example:
        >>> class Order(Struct, frozen=True):
        ...     items: list[str]
        ...
        ...     def __post_init__(self) -> None:
        ...         freeze_fields(self, "items")
        >>> type(Order(["tea"]).items).__name__
        'FrozenList'
    """
    for name in names:
        value = getattr(owner, name)
        if type(value) not in _FIXED and (frozen := freeze(value)) is not value:
            if isinstance(owner, Struct):
                force_setattr(owner, name, frozen)
            else:
                object.__setattr__(owner, name, frozen)


def valid_unicode(text: str) -> str:
    r"""Replace lone surrogates, which no UTF-8 can carry, with U+FFFD.

    Example:
        >>> valid_unicode("a\ud800b")
        'a�b'
    """
    if text.isascii():  # the usual case, and no copy of a large text
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(
            part.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            for part in _split(text)
        )
    return text


def _split(text: str) -> Iterator[str]:
    """Split a text, but no pair of surrogates: to replace them all at once holds up all threads."""
    start = 0
    while start < len(text):
        end = start + _PART
        end += "\udc00" <= text[end : end + 1] <= "\udfff"
        yield text[start:end]
        start = end
