"""JSON Schema 2020-12 with a bound on the work of one check.

Schema and value both come from outside. Patterns are matched by `BoundedPattern`, unique items are
found by hash, and a check that takes too long ends.

Most schemas of tools are plain, and most inputs fit. jsonschema opens a generator for each keyword
of each part; a schema that is compiled into functions says yes in a twentieth of the time. Whatever
is not certain is left to jsonschema, which also has the words for what does not fit.
"""

import logging
import operator
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, cached_property
from types import NoneType
from typing import TYPE_CHECKING, TypeAlias, cast

from greenroom.core import ConfigurationError, ToolError
from greenroom.core._internal import BoundedPattern, clip, freeze
from greenroom.schemas.brief_value import make_brief, write_value
from greenroom.schemas.foreign_schema import check_schema, find_patterns, rewrite_schema

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import ValidationError

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


PATTERN_SECONDS = 0.2
"""The longest time of all pattern matches in one check; later patterns are left unchecked."""

MAX_SIZE = 200_000
"""Characters of all patterns of a schema, with their counted repeats written out."""

_COMPILE_SECONDS = 0.01
_log = logging.getLogger("greenroom.tools")
_Keyword: TypeAlias = Callable[
    # jsonschema's own types: the validator, the keyword's value, the instance, the schema
    ["Draft202012Validator", "object", "object", "Mapping[str, object]"],
    "Iterable[ValidationError] | None",
]


class TooMuchWorkError(Exception):
    """A check would take more steps than it may."""


class Patterns:
    """The patterns of one schema. What can't be matched is left unchecked, with one warning."""

    def __init__(self, name: str, patterns: Mapping[str, bool]) -> None:
        """Compile the patterns of the tool of this name; true for those of properties' names."""
        self._name = name
        self.are_of_names = any(patterns.values())
        self._has_warned = False
        self._size = 0
        self._compiled: dict[str, BoundedPattern | None] = {}
        self._are_any = bool(patterns)
        start = time.perf_counter()
        for each in patterns:
            if time.perf_counter() - start > _COMPILE_SECONDS:
                break  # the others are compiled when they are needed, in a thread
            self._compile(each)

    def __bool__(self) -> bool:
        return self._are_any

    def search(self, pattern: str, text: str) -> bool | None:
        """Return whether a pattern matches somewhere in a text; None if that can't be told."""
        found = self._compiled[pattern] if pattern in self._compiled else self._compile(pattern)
        if found is None:
            return None
        check = _current.get()
        if check.pattern_seconds <= 0:
            return None
        start = time.perf_counter()
        result = found.search(text)
        check.pattern_seconds -= time.perf_counter() - start
        if result is None:
            self.warn(f"the pattern {pattern!r}", "a text is too long, or takes it too long")
        return result

    def _compile(self, pattern: str) -> BoundedPattern | None:
        made = None
        if self._size > MAX_SIZE:
            self.warn(f"the pattern {pattern!r}", "all patterns together are too large")
        else:
            try:
                made = BoundedPattern(pattern)
                self._size += made.size
            except ConfigurationError as error:
                self.warn(f"the pattern {pattern!r}", error.message)
        self._compiled[pattern] = made
        return made

    def warn(self, what: str, why: str) -> None:
        """Log that a part of the schema is not checked, unless another one was logged already."""
        if not self._has_warned:
            self._has_warned = True
            text = "tool %s: a part of its schema is not checked: %s: %s"
            _log.warning(text, self._name, clip(what, 150), clip(why, 200))


class _Check:
    """The limits of one check."""

    def __init__(self, patterns: Patterns, steps: int) -> None:
        self.patterns = patterns
        self.pattern_seconds = PATTERN_SECONDS
        self._left = steps

    def spend(self, steps: int = 1) -> None:
        self._left -= steps
        if self._left < 0:
            raise TooMuchWorkError


_current: ContextVar[_Check] = ContextVar("greenroom_schema_check")


class BoundedValidator:
    """A compiled schema whose checks end.

    Attributes:
        schema: the schema, with the words of older drafts and of OpenAPI rewritten.
        has_patterns: whether it has regular expressions, whose check belongs in a thread.
    """

    def __init__(self, name: str, schema: Mapping[str, object], *, what: str = "schema") -> None:
        """Check and compile a schema of the tool of this name.

        Raises:
            ToolError: it is not a valid schema, not of type object, nested too deeply, or points to
                a schema that is not part of it; the message says where.
        """
        try:
            self.schema = freeze(rewrite_schema(schema))
            check_schema(name, self.schema, what=what)
            self._patterns = Patterns(name, find_patterns(self.schema))
            self._fits = compile_plain(self.schema)
        except RecursionError:
            raise ToolError(f"tool {name}: the {what} is nested too deeply") from None
        self.has_patterns = bool(self._patterns)

    @cached_property
    def _validator(self) -> "Draft202012Validator":
        """Made for the first check, since it loads jsonschema."""
        import referencing

        # An empty registry: a schema never makes us fetch another one.
        return _validator_class()(self.schema, registry=referencing.Registry())

    def errors(self, value: object, *, steps: int, limit: int) -> list["ValidationError"]:
        """Return the first errors of a value.

        Raises:
            TooMuchWorkError: it takes more than these steps, of some five microseconds each.
            RecursionError: the value or the schema is nested too deeply.
        """
        if self._fits is not None and self._fits(value):
            return []
        token = _current.set(_Check(self._patterns, steps))
        try:
            found = self._validator.iter_errors(make_brief(value))
            return [error for error, _ in zip(found, range(limit), strict=False)]
        finally:
            _current.reset(token)


@cache
def _validator_class() -> "type[Draft202012Validator]":
    import attrs
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    own: dict[str, _Keyword] = {
        "pattern": _check_pattern,
        "patternProperties": _check_pattern_properties,
        "additionalProperties": _check_additional_properties,
        "unevaluatedProperties": _check_unevaluated_properties,
        "uniqueItems": _check_unique_items,
    }
    known = cast("dict[str, _Keyword]", Draft202012Validator.VALIDATORS)
    keywords = {name: _within_limits(name, own.get(name, check)) for name, check in known.items()}
    made: type[Draft202012Validator] = extend(Draft202012Validator, keywords)  # type: ignore[no-untyped-call]
    # By default, a part with a `$schema` of its own would be checked by jsonschema's own keywords.
    made.evolve = attrs.evolve  # type: ignore[method-assign, assignment]
    return made


def _within_limits(name: str, keyword: _Keyword) -> _Keyword:
    price = 5 if "Ref" in name or name == "$ref" else 1
    compares_all = name.startswith("unevaluated")  # each part of a value with each other

    def check(
        validator: "Draft202012Validator",
        wanted: object,
        instance: object,
        schema: Mapping[str, object],
    ) -> "Iterable[ValidationError] | None":
        size = len(wanted) if isinstance(wanted, (list, Mapping)) else 0
        _current.get().spend(price + size // 8)
        if compares_all and isinstance(instance, (list, Mapping)):
            _current.get().spend(len(instance) ** 2 // 200)
        return keyword(validator, wanted, instance, schema)

    return check


def _search(pattern: str, text: str) -> bool | None:
    check = _current.get()
    check.spend()
    return check.patterns.search(pattern, text)


def _check_pattern(
    _: object, pattern: object, instance: object, __: object
) -> Iterator["ValidationError"]:
    if isinstance(instance, str) and _search(str(pattern), instance) is False:
        yield _error(f"{write_value(instance)} does not match {write_value(pattern, 300)}")


def _check_pattern_properties(
    validator: "Draft202012Validator",
    patterns: object,
    instance: object,
    _: object,
) -> Iterator["ValidationError"]:
    if not isinstance(instance, Mapping):
        return
    for pattern, schema in cast("Mapping[str, Mapping[str, object]]", patterns).items():
        for key, value in instance.items():
            if _search(pattern, key):
                yield from validator.descend(value, schema, path=key, schema_path=pattern)


def _check_additional_properties(
    validator: "Draft202012Validator",
    allowed: object,
    instance: object,
    schema: Mapping[str, object],
) -> Iterator["ValidationError"]:
    if not isinstance(instance, Mapping) or allowed is True:
        return
    known = cast("Mapping[str, object]", schema.get("properties", {}))
    patterns = cast("Mapping[str, object]", schema.get("patternProperties", {}))
    extra = [
        key
        for key in instance
        if key not in known and not any(_search(each, key) is not False for each in patterns)
    ]
    if isinstance(allowed, Mapping):
        for key in extra:
            yield from validator.descend(instance[key], allowed, path=key)
    elif extra:
        yield _error(f"{clip(', '.join(map(repr, extra)), 300)} may not be given")


def _check_unevaluated_properties(
    validator: "Draft202012Validator",
    allowed: object,
    instance: object,
    schema: Mapping[str, object],
) -> Iterator["ValidationError"]:
    """Check as jsonschema does, unless it would match patterns itself."""
    from jsonschema import Draft202012Validator

    check = _current.get()
    if check.patterns.are_of_names:
        check.patterns.warn("unevaluatedProperties", "it stands beside patternProperties")
        return
    known = cast("_Keyword", Draft202012Validator.VALIDATORS["unevaluatedProperties"])
    yield from known(validator, allowed, instance, schema) or ()


def _check_unique_items(
    _: object, unique: object, instance: object, __: object
) -> Iterator["ValidationError"]:
    if not unique or not isinstance(instance, list):
        return
    check, seen = _current.get(), set()
    for item in instance:
        key = _identity(item, check)
        if key in seen:
            yield _error(f"{write_value(item)} occurs more than once")
            return
        seen.add(key)


def _identity(value: object, check: _Check) -> object:
    """Return a key that equal JSON values share: 1 and 1.0, but not 1 and true."""
    check.spend()
    if isinstance(value, dict):
        return frozenset((key, _identity(each, check)) for key, each in value.items())
    if isinstance(value, list):
        return tuple(_identity(each, check) for each in value)
    return (value, isinstance(value, bool))


def _error(message: str) -> "ValidationError":
    from jsonschema.exceptions import ValidationError

    return ValidationError(message)
