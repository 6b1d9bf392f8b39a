"""Typed dictionaries of the standard library, which pydantic takes from Python 3.12 on only."""

import functools
import operator
import sys
import types
from typing import (
    Annotated,
    NotRequired,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)


def portable(hint: object) -> object:
    """Return a type hint in which pydantic understands every `typing.TypedDict`.

    Before Python 3.12 each is put anew as one of `typing_extensions`, which comes with pydantic.
    One that holds itself stays as it is, and pydantic says what to do about it.
    """
    return hint if sys.version_info >= (3, 12) else _rebuilt(hint, frozenset())


def _rebuilt(hint: object, outer: frozenset[object]) -> object:
    if is_typeddict(hint):
        return hint if hint in outer else _typed_dict(cast("type", hint), outer | {hint})
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_rebuilt(arguments[0], outer), *arguments[1:])]
    rebuilt = tuple(_rebuilt(argument, outer) for argument in arguments)
    if rebuilt == arguments:
        return hint
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, rebuilt)
    return types.GenericAlias(cast("type", origin), rebuilt)


def _typed_dict(kind: type, outer: frozenset[object]) -> object:
    from typing_extensions import TypedDict

    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    fields: dict[str, object] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        marker = get_origin(hint)
        stated = marker in (Required, NotRequired)
        inner = _rebuilt(get_args(hint)[0] if stated else hint, outer)
        needed = marker is Required if stated else name in required
        fields[name] = Required[inner] if needed else NotRequired[inner]
    rebuilt = TypedDict(kind.__name__, fields)  # type: ignore[misc]  # fields known at run time
    rebuilt.__doc__ = kind.__doc__
    return rebuilt
