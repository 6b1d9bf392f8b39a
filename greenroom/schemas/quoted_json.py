"""Values that a model sent as JSON in a string, where the schema wants no string.

Some models do this with every list or object. The value is parsed before anything else looks at
the call, so it is judged, shown, run and recorded as one input.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from greenroom.core._internal import serde
from greenroom.schemas.faults import branches_of, find_only_branch, name_type

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_LONGEST = 1_000_000
_CONTAINERS = frozenset({"array", "object"})
_NOTHING: frozenset[str] = frozenset()


def unquote(value: object, errors: Sequence["ValidationError"]) -> object:
    """Parse the strings among the errors of a value for which the schema wants another type.

    A list or an object is parsed wherever no string is allowed. A number or a boolean is parsed
    only if the schema allows nothing else, since "3" where a number or null may be is unclear. In a
    union, that is judged by the branch that the value is for, if it can be told.

    Returns:
        A changed copy, or the value itself if there is nothing to parse.
    """
    for error in errors:
        text = error.instance
        if not isinstance(text, str) and (branch := find_only_branch(error)):
            value = unquote(value, branch)
        if (
            isinstance(text, str)
            and len(text) <= _LONGEST
            and (wanted := _list_wanted_types(error))
        ):
            parsed = _parse(text)
            kind = name_type(parsed)
            is_whole = isinstance(parsed, int) or (isinstance(parsed, float) and parsed % 1 == 0)
            kinds = {"integer", "number"} if kind in ("integer", "number") and is_whole else {kind}
            if kinds & wanted:
                value = _replace(value, list(error.absolute_path), parsed)
    return value


def _list_wanted_types(error: "ValidationError") -> frozenset[str]:
    """Return the types that a schema wants in place of a string; none if it is unclear."""
    kinds = _kinds(error)
    return kinds if len(kinds) == 1 else kinds & _CONTAINERS


def _kinds(error: "ValidationError") -> frozenset[str]:
    """Return the types that an error about the value itself names; none if a string may do."""
    match error.validator:
        case "type":
            kinds = error.validator_value
            return frozenset([kinds] if isinstance(kinds, str) else cast("list[str]", kinds))
        case "const":
            return frozenset({name_type(error.validator_value)}) - {"string"}
        case "enum":
            found = frozenset(map(name_type, cast("list[object]", error.validator_value)))
            return _NOTHING if "string" in found else found
        case _:
            pass
    each = [
        next(filter(None, (_kinds(inner) for inner in branch if not inner.relative_path)), _NOTHING)
        for branch in branches_of(error)
    ]
    return _NOTHING.union(*each) if all(each) else _NOTHING


def _parse(text: str) -> object:
    """Parse JSON; a string if it is none."""
    try:
        return serde.loads(str(text))  # a copy of no class of its own
    except serde.InvalidJSONError:
        return text


def _replace(whole: object, path: list[str | int], part: object) -> object:
    """Return a copy of a value with another part at a path."""
    if not path:
        return part
    first, *rest = path
    if isinstance(whole, dict):
        return {**whole, first: _replace(whole[first], rest, part)}
    items = list(cast("list[object]", whole))
    items[cast("int", first)] = _replace(items[cast("int", first)], rest, part)
    return items
