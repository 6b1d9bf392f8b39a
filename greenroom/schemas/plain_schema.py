"""A first, quick check of a value by a plain schema: it says yes, or nothing.

Most schemas of tools are plain, and most inputs fit. jsonschema opens a generator for each keyword
of each part; a schema that is compiled into functions says yes in a twentieth of the time.
Whatever is not certain is left to jsonschema, which also has the words for what does not fit.
"""

import operator
from collections.abc import Callable, Mapping
from types import NoneType
from typing import TypeAlias, cast

Check: TypeAlias = Callable[[object], bool]

_IGNORED = frozenset(
    {"$comment", "$schema", "default", "deprecated", "description", "examples", "format",
     "readOnly", "title", "writeOnly"}
)  # fmt: skip
# An integer may also be written 1.0, which is not said yes to here.
_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "boolean": frozenset({bool}),
    "null": frozenset({NoneType}),
}
_CONTAINERS: dict[str, type] = {"object": dict, "array": list}
_NUMBERS = _TYPES["number"]
_MOST = 256  # items and properties of one part: more are checked where the work is bounded


class _NotPlain(Exception):  # noqa: N818 (an answer, not an error)
    """A part of the schema is not known here."""


def compile_plain(schema: object) -> Check | None:
    """Return a function that says whether a value is certain to fit; None if nothing ever is.

    Example:
        >>> fits = compile_plain({"properties": {"path": {"type": "string"}}, "required": ["path"]})
        >>> fits({"path": "a.txt"}), fits({"path": 1}), compile_plain({"not": {}})
        (True, False, None)
    """
    try:
        return _compile(schema)
    except _NotPlain:
        return None


def _compile(schema: object) -> Check:
    if schema is True:
        return _accept
    if not isinstance(schema, Mapping):
        raise _NotPlain
    checks = []
    if not _OBJECTS.isdisjoint(schema):
        checks.append(_check_object(schema))
    for keyword, wanted in schema.items():
        if keyword in _KEYWORDS:
            checks.append(_KEYWORDS[keyword](wanted))
        elif keyword not in _IGNORED and keyword not in _OBJECTS:
            raise _NotPlain
    return _check_all(checks)


def _accept(_value: object) -> bool:
    return True


def _check_all(checks: list[Check]) -> Check:
    if len(checks) == 1:
        return checks[0]

    def check(value: object) -> bool:
        for each in checks:  # noqa: SIM110 (a generator takes longer than the checks)
            if not each(value):
                return False
        return True

    return check


def _check_type(wanted: object) -> Check:
    names = cast("list[str]", [wanted] if isinstance(wanted, str) else wanted)
    kinds = frozenset(kind for name in names for kind in _TYPES.get(name, ()))
    containers = tuple(_CONTAINERS[name] for name in names if name in _CONTAINERS)
    return lambda value: type(value) in kinds or isinstance(value, containers)


def _check_enum(wanted: object) -> Check:
    texts = frozenset(each for each in cast("list[object]", wanted) if type(each) is str)
    return lambda value: type(value) is str and value in texts


def _check_any(wanted: object) -> Check:
    checks = [_compile(each) for each in cast("list[object]", wanted)]
    return lambda value: any(each(value) for each in checks)


def _check_items(wanted: object) -> Check:
    item = _compile(wanted)
    return lambda value: isinstance(value, list) and len(value) <= _MOST and all(map(item, value))


def _check_object(schema: Mapping[str, object]) -> Check:
    parts = cast("Mapping[str, object]", schema.get("properties", {}))
    checks = {name: _compile(part) for name, part in parts.items()}
    required = cast("list[str]", schema.get("required", []))
    more = schema.get("additionalProperties", True)
    other = None if more is False else _compile(more)

    def check(value: object) -> bool:
        if not isinstance(value, dict) or len(value) > _MOST:
            return False
        for name in required:
            if name not in value:
                return False
        for name, part in value.items():
            fits = checks.get(name, other)
            if fits is None or not fits(part):
                return False
        return True

    return check


def _check_number(compare: Callable[[float, float], bool]) -> Callable[[object], Check]:
    def compile_bound(wanted: object) -> Check:
        bound = cast("float", wanted)
        return lambda value: type(value) in _NUMBERS and compare(cast("float", value), bound)

    return compile_bound


def _check_length(kind: type[str] | type[list[object]], *, most: bool) -> Callable[[object], Check]:
    def compile_bound(wanted: object) -> Check:
        bound = cast("float", wanted)

        def check(value: object) -> bool:
            if not isinstance(value, kind):
                return False
            return len(value) <= bound if most else len(value) >= bound

        return check

    return compile_bound


_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_KEYWORDS: dict[str, Callable[[object], Check]] = {
    "type": _check_type,
    "enum": _check_enum,
    "const": lambda wanted: _check_enum([wanted]),
    "anyOf": _check_any,
    "items": _check_items,
    "minimum": _check_number(operator.ge),
    "maximum": _check_number(operator.le),
    "minLength": _check_length(str, most=False),
    "maxLength": _check_length(str, most=True),
    "minItems": _check_length(list, most=False),
    "maxItems": _check_length(list, most=True),
}
