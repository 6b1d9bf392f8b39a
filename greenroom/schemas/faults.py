"""The faults of an input in words for the model: where, what was expected, what came."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias, cast

from greenroom.core._internal import clip, valid_unicode
from greenroom.schemas.brief_value import write_value

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_Errors: TypeAlias = "list[ValidationError]"

_MAX_NAMES = 5
_MAX_BRANCHES = 3
_MAX_MESSAGE = 600


def explain(error: "ValidationError") -> Iterator[str]:
    """Write an error as lines; of an `anyOf` or `oneOf`, what the branch wants that fits best."""
    for place, reason in _find_reasons(error):
        yield clip(valid_unicode(f"{place}: {reason}" if place else reason), _MAX_MESSAGE)


def branches_of(error: "ValidationError") -> list[_Errors]:
    """Return the errors of each branch of an `anyOf` or `oneOf`; else nothing."""
    if error.validator not in ("anyOf", "oneOf"):
        return []
    found: dict[object, _Errors] = {}
    for each in error.context or ():
        found.setdefault(each.schema_path[0], []).append(each)
    return list(found.values())


def find_only_branch(error: "ValidationError") -> _Errors:
    """Return the errors of the one branch of a union that the value is for; else nothing."""
    found = [
        each
        for each in branches_of(error)
        if _expected_by(each) is None and not any(map(_is_wrong_tag, each))
    ]
    return found[0] if len(found) == 1 else []


def _find_reasons(error: "ValidationError") -> list[tuple[str, str]]:
    branches = branches_of(error)
    if branches:
        return _explain_union(error, branches)
    explain_error = _EXPLANATIONS.get(str(error.validator))
    reason = explain_error(error) if explain_error else clip(error.message, _MAX_MESSAGE)
    return [(_place(error), reason)]


def _place(error: "ValidationError") -> str:
    return write_path(list(error.absolute_path)) if error.absolute_path else ""


def _explain_union(error: "ValidationError", branches: list[_Errors]) -> list[tuple[str, str]]:
    expected = _list_own_types(error)
    if expected is not None:
        return [(_place(error), f"expected {_either(expected)}, got {_describe(error.instance)}")]
    if missing := _explain_missing_tag(error):
        return [(_place(error), missing)]
    likely = [each for each in branches if _expected_by(each) is None]
    tagged = [each for each in likely if not any(map(_is_wrong_tag, each))]
    if not tagged and (wrong := _explain_wrong_tags(likely)):
        return wrong
    likely = tagged or likely
    least = min(map(_weigh, likely))
    best = [
        list(dict.fromkeys(reason for each in branch for reason in _find_reasons(each)))
        for branch in likely
        if _weigh(branch) == least
    ]
    if len(best) == 1:
        return best[0]
    texts = dict.fromkeys(
        "; ".join(f"{place}: {reason}" if place else reason for place, reason in branch)
        for branch in best
    )
    return [("", _either(list(texts)[:_MAX_BRANCHES]))]


def _expected_by(branch: _Errors) -> list[str] | None:
    """Return what a branch wants in place of the value; None if it takes its type."""
    return next((want for each in branch if (want := _list_expected_types(each)) is not None), None)


def _list_expected_types(error: "ValidationError") -> list[str] | None:
    """Return the types or values that an error about the value itself names, else None."""
    is_about_part = error.relative_path and error.parent is not None
    return None if is_about_part else _list_own_types(error)


def _list_own_types(error: "ValidationError") -> list[str] | None:
    """Return the types or values that an error names in place of what it is about, else None."""
    match error.validator:
        case "type":
            kinds = error.validator_value
            return [kinds] if isinstance(kinds, str) else list(cast("list[str]", kinds))
        case "const":
            return [write_value(error.validator_value)]
        case "enum":
            return [write_value(each) for each in cast("list[object]", error.validator_value)]
        case _:
            pass
    branches = branches_of(error)
    wants = [_expected_by(branch) for branch in branches]
    if not wants or None in wants:
        return None
    return list(dict.fromkeys(text for want in wants for text in want or ()))


def _is_wrong_tag(error: "ValidationError") -> bool:
    """Whether a property has not the one value, or one of the values, that a branch is for."""
    return len(error.relative_path) == 1 and error.validator in ("const", "enum")


def _explain_missing_tag(error: "ValidationError") -> str:
    """Name the property that tells OpenAPI's branches apart, if it is missing."""
    tag = cast("dict[str, object]", error.schema).get("discriminator")
    if not isinstance(tag, Mapping) or not isinstance(error.instance, Mapping):
        return ""
    name, values = tag.get("propertyName"), tag.get("mapping")
    if not isinstance(name, str) or name in error.instance:
        return ""
    known = _either([repr(each) for each in values]) if isinstance(values, Mapping) else ""
    return f"{_name_parameters([name])} is missing" + (f"; it is {known}" if known else "")


def _explain_wrong_tags(branches: list[_Errors]) -> list[tuple[str, str]]:
    """Name all values that the branches want of one property, if that is what they differ in."""
    wrong = [next(filter(_is_wrong_tag, each)) for each in branches]
    place, *others = dict.fromkeys(map(_place, wrong))
    if others:
        return []
    values = dict.fromkeys(text for each in wrong for text in _list_values(each))
    return [(place, f"expected {_either(list(values))}, got {_describe(wrong[0].instance)}")]


def _list_values(error: "ValidationError") -> list[str]:
    value: object = error.validator_value
    values = cast("list[object]", value) if error.validator == "enum" else [value]
    return [write_value(each) for each in values]


def _weigh(branch: _Errors) -> int:
    """Count the faults of a branch, each missing and each unknown parameter as one."""
    return sum(
        len(_find_missing(each))
        if each.validator == "required"
        else len(_find_unexpected(each))
        if each.validator == "additionalProperties" and each.validator_value is False
        else 1
        for each in branch
    )


def _explain_missing(error: "ValidationError") -> str:
    missing = _find_missing(error)
    return _name_parameters(missing) + (" is missing" if len(missing) == 1 else " are missing")


def _find_missing(error: "ValidationError") -> list[str]:
    required = cast("list[str]", error.validator_value)
    return [name for name in required if name not in cast("dict[str, object]", error.instance)]


def _explain_unexpected(error: "ValidationError") -> str:
    extra = _find_unexpected(error)
    allowed = ", ".join(_properties(error)) or "none"
    verb = "does" if len(extra) == 1 else "do"
    return f"{_name_parameters(extra)} {verb} not exist; there are: {allowed}"


def _find_unexpected(error: "ValidationError") -> list[str]:
    known = _properties(error)
    return [name for name in cast("dict[str, object]", error.instance) if name not in known]


def _properties(error: "ValidationError") -> Mapping[str, object]:
    schema = cast("dict[str, object]", error.schema)
    return cast("Mapping[str, object]", schema.get("properties", {}))


def _name_parameters(names: list[str]) -> str:
    quoted = ", ".join(write_value(name) for name in names[:_MAX_NAMES])
    return f"the parameter {quoted}" if len(names) == 1 else f"the parameters {quoted}"


def _explain_type(error: "ValidationError") -> str:
    expected = error.validator_value
    names = expected if isinstance(expected, str) else _either(cast("list[str]", expected))
    return f"expected {names}, got {_describe(error.instance)}"


def _explain_enum(error: "ValidationError") -> str:
    allowed = ", ".join(_list_values(error))
    one_of = "one of " if error.validator == "enum" else ""
    return f"expected {one_of}{clip(allowed, _MAX_MESSAGE // 2)}, got {write_value(error.instance)}"


def _explain_ambiguous(_: "ValidationError") -> str:
    return "it fits several of the forms that exclude each other"


def _explain_not(error: "ValidationError") -> str:
    if error.validator_value == {}:
        return "may not be given"
    return clip(error.message, _MAX_MESSAGE)


_EXPLANATIONS: dict[str, Callable[["ValidationError"], str]] = {
    "required": _explain_missing,
    "additionalProperties": _explain_unexpected,
    "type": _explain_type,
    "enum": _explain_enum,
    "const": _explain_enum,
    "oneOf": _explain_ambiguous,
    "not": _explain_not,
}


def _either(texts: list[str]) -> str:
    return clip(" or ".join(texts), _MAX_MESSAGE // 2)


def _describe(value: object) -> str:
    text = "" if value is None else write_value(value)
    return f"{name_type(value)} {text}".rstrip()


def name_type(value: object) -> str:
    """Name the type of a value as JSON Schema does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    found = (name for kind, name in names.items() if isinstance(value, kind))
    return next(found, type(value).__name__)


def write_path(parts: list[str | int]) -> str:
    """Write the path of a value as `todos[0].status`; of the whole input as `input`."""
    path = ""
    for part in parts:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "input"
