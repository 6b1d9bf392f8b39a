"""Validates the input of a call against its tool's schema, and explains each fault to the model."""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from greenroom.core import ToolError, clip, valid_unicode

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from referencing import Resource

_MAX_FAULTS = 5
_MAX_VALUE = 120
_MAX_MESSAGE = 600


class InputValidator:
    """A compiled JSON Schema (2020-12) of one tool's input.

    Example:
        >>> validator = InputValidator("Add", {"type": "object", "required": ["a"]})
        >>> print(validator.fault({}))
        Add was not run: its input does not fit.
        - the parameter 'a' is missing
    """

    def __init__(self, name: str, schema: Mapping[str, object]) -> None:
        """Check and compile the schema of the tool of this name.

        Raises:
            ToolError: it is not a valid schema, not of type object, nested too deeply, or points to
                a schema that is not part of it; the message says where.
        """
        import referencing
        from jsonschema import Draft202012Validator

        self._name = name
        try:
            _check(name, schema)
        except RecursionError:
            raise ToolError(f"tool {name}: the schema is nested too deeply") from None
        # An empty registry: a schema never makes us fetch another one.
        self._validator: Draft202012Validator = Draft202012Validator(
            schema, registry=referencing.Registry()
        )

    def fault(self, input: object) -> str | None:  # noqa: A002
        """Return the faults of an input, at most five, in words for the model; None if it fits."""
        try:
            lines = self._faults(input)
        except RecursionError:
            lines = ["- the input, or the schema that it has to fit, is nested too deeply"]
        if not lines:
            return None
        return "\n".join([f"{self._name} was not run: its input does not fit.", *lines])

    def _faults(self, value: object) -> list[str]:
        errors = sorted(self._errors(value), key=lambda error: list(map(str, error.absolute_path)))
        # Several missing parameters are one fault.
        lines = list(dict.fromkeys(f"- {_explain(error)}" for error in errors))
        if len(lines) > _MAX_FAULTS:
            lines[_MAX_FAULTS:] = [f"- and {len(lines) - _MAX_FAULTS} more"]
        return lines

    def _errors(self, value: object) -> Iterator["ValidationError"]:
        from jsonschema.exceptions import best_match

        for error in self._validator.iter_errors(value):
            # Of the branches of an anyOf or oneOf, explain the one that the input is nearest to.
            yield best_match([error]) or error


def _check(name: str, schema: Mapping[str, object]) -> None:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ToolError(
            f"tool {name}: the schema is broken at {_write_path(error.absolute_path)}: "
            f"{_shorten(error.message)}"
        ) from None
    if schema.get("type") != "object":
        raise ToolError(
            f"tool {name}: the schema is not of type object",
            hint='give {"type": "object", "properties": {…}}',
        )
    _check_references(name, schema)


def _check_references(name: str, schema: Mapping[str, object]) -> None:
    """Resolve every reference once, to find a dangling one now and not in a call."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(schema)
    resolver = Registry().with_resource("", root).resolver()
    for reference in _references(root):
        try:
            resolver.lookup(reference)
        except Unresolvable:
            raise ToolError(
                f"tool {name}: the schema points to {reference!r}, which it does not hold",
                hint="put the schema that it points to under $defs",
            ) from None


def _references(root: "Resource[object]") -> Iterator[str]:
    for contents in _subschemas(root):
        if isinstance(contents, Mapping):
            found = (contents.get("$ref"), contents.get("$dynamicRef"))
            yield from (reference for reference in found if isinstance(reference, str))


def _subschemas(resource: "Resource[object]") -> Iterator[object]:
    yield resource.contents
    for part in resource.subresources():
        yield from _subschemas(part)


def _explain(error: "ValidationError") -> str:
    explain = _EXPLANATIONS.get(str(error.validator))
    reason = explain(error) if explain else _shorten(error.message)
    place = _write_path(error.absolute_path)
    return valid_unicode(f"{place}: {reason}" if error.absolute_path else reason)


def _explain_missing(error: "ValidationError") -> str:
    required = cast("list[str]", error.validator_value)
    missing = [name for name in required if name not in cast("dict[str, object]", error.instance)]
    return _name_parameters(missing) + (" is missing" if len(missing) == 1 else " are missing")


def _explain_unexpected(error: "ValidationError") -> str:
    known = cast("dict[str, object]", cast("dict[str, object]", error.schema).get("properties", {}))
    extra = [name for name in cast("dict[str, object]", error.instance) if name not in known]
    allowed = ", ".join(known) or "none"
    verb = "does" if len(extra) == 1 else "do"
    return f"{_name_parameters(extra)} {verb} not exist; there are: {allowed}"


def _name_parameters(names: list[str]) -> str:
    quoted = ", ".join(repr(_shorten(name)) for name in names[:_MAX_FAULTS])
    return f"the parameter {quoted}" if len(names) == 1 else f"the parameters {quoted}"


def _explain_type(error: "ValidationError") -> str:
    expected = error.validator_value
    names = expected if isinstance(expected, str) else " or ".join(cast("list[str]", expected))
    actual = f"{_name_type(error.instance)} {_write_value(error.instance)}".rstrip()
    return f"expected {names}, got {actual}"


def _explain_enum(error: "ValidationError") -> str:
    allowed = ", ".join(map(repr, cast("list[object]", error.validator_value)))
    return f"expected one of {_shorten(allowed)}, got {_write_value(error.instance)}"


_EXPLANATIONS: dict[str, Callable[["ValidationError"], str]] = {
    "required": _explain_missing,
    "additionalProperties": _explain_unexpected,
    "type": _explain_type,
    "enum": _explain_enum,
}


def _name_type(value: object) -> str:
    """Name the type of a value as JSON Schema does."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    names = {str: "string", int: "integer", float: "number", list: "array", dict: "object"}
    return names.get(type(value), type(value).__name__)


def _write_value(value: object) -> str:
    return "" if value is None else clip(repr(value), _MAX_VALUE)


def _shorten(text: str) -> str:
    return clip(text, _MAX_MESSAGE)


def _write_path(parts: object) -> str:
    """Write the path of a value as `todos[0].status`; of the whole input as `input`."""
    path = ""
    for part in cast("list[str | int]", parts):
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else str(part)
    return path or "input"


def read_integer(data: Mapping[str, object], name: str, default: int) -> int:
    """Return the integer of this name; in JSON Schema, 3.0 is one as well.

    Example:
        >>> read_integer({"limit": 3.0}, "limit", 10), read_integer({}, "limit", 10)
        (3, 10)
    """
    value = data.get(name, default)
    return int(value) if isinstance(value, int | float) else default
