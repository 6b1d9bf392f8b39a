"""Schemas as others write them, in the form of JSON Schema 2020-12, and checked.

Servers and frameworks send older drafts and OpenAPI's dialect. They are rewritten once, when a tool
is registered, since vendors refuse a whole request for one schema that they can't read.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast
from urllib.parse import quote, unquote, urljoin

from greenroom.core import ToolError
from greenroom.core._internal import clip

if TYPE_CHECKING:
    from referencing import Resource
    from referencing._core import Resolver

Schema: TypeAlias = dict[str, object]

_MAX_MESSAGE = 600
_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_VALUES = frozenset({"default", "const", "enum", "examples", "example"})
"""Keywords whose values are not schemas, and may be null."""

_ANNOTATIONS: dict[str, type] = {
    **dict.fromkeys(("title", "description", "$comment", "format", "$schema"), str),
    **dict.fromkeys(("readOnly", "writeOnly", "deprecated"), bool),
    "examples": list,
}

_NEVER_NULL = frozenset({"$ref", "allOf", "anyOf", "oneOf", "const", "not"})
"""Keywords beside which null among the types is not enough."""
_KEPT = frozenset({"default", "example", "$defs", "definitions", "$id", "$anchor"})
"""Keywords that belong to a schema itself, not to one of its forms; and its annotations."""

_ONE = frozenset(
    {"items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else"}
    | {"unevaluatedItems", "unevaluatedProperties", "contentSchema"}
)
_CLOSING = frozenset({"items", "additionalProperties", "unevaluatedItems", "unevaluatedProperties"})
_LISTED = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs"})
_KNOWN = _ONE | _LISTED | _NAMED


def rewrite_schema(schema: Mapping[str, object]) -> Schema:
    """Rewrite a schema of an older draft or of OpenAPI in the words of 2020-12.

    Raises:
        RecursionError: it is nested too deeply.

    Example:
        >>> rewrite_schema({"type": "array", "items": [{"type": "STRING", "nullable": True}]})
        {'type': 'array', 'prefixItems': [{'type': ['string', 'null']}]}
        >>> rewrite_schema({"type": "number", "minimum": 0, "exclusiveMinimum": True})
        {'type': 'number', 'exclusiveMinimum': 0}
    """
    return _Rewriting(schema).run()


class _Rewriting:
    """One schema that is rewritten.

    A reference may point anywhere in it, such as to `#/components/schemas/A`, or to a place that
    has another path by now. What it points to is moved to `$defs`, unless it is there already.
    """

    def __init__(self, schema: Mapping[str, object]) -> None:
        self._schema = schema
        base = schema.get("$id", schema.get("id"))
        self._base = base.partition("#")[0] if isinstance(base, str) else ""
        old, new = (
            set(each) if isinstance(each := schema.get(key), Mapping) else set[str]()
            for key in ("definitions", "$defs")
        )
        self._names = old | new
        self._places = {"definitions", "$defs"} if old.isdisjoint(new) else {"$defs"}
        self._moved: dict[tuple[str, ...], str] = {}  # names in `$defs`, by places
        self._targets: Schema = {}
        self._emptied = set[str]()  # the keywords from which they come

    def run(self) -> Schema:
        found = self._rewrite(self._schema)
        if not isinstance(found, dict):
            return {}
        if self._targets:
            for key in self._emptied.intersection(found) - _KNOWN:
                del found[key]
            found["$defs"] = {**cast("Schema", found.get("$defs", {})), **self._targets}
        return found

    def _rewrite(self, part: object) -> object:
        if part is False:  # jsonschema's error about it has no place
            return {"not": {}}
        if not isinstance(part, Mapping):
            return part
        if part is not self._schema and not str(part.get("$id", "#")).startswith("#"):
            return _Rewriting(part).run()  # references in it are to it
        schema = {key: value for key, value in part.items() if value is not None or key in _VALUES}
        for rewrite in _REWRITES:
            rewrite(schema)
        if isinstance(reference := schema.get("$ref"), str):
            schema["$ref"] = self._point(reference)
        for key, value in schema.items():
            if key in _CLOSING and value is False:
                continue
            if key in _ONE:
                schema[key] = self._rewrite(value)
            elif key in _LISTED and isinstance(value, list):
                schema[key] = [self._rewrite(each) for each in value]
            elif key in _NAMED and isinstance(value, Mapping):
                schema[key] = {name: self._rewrite(each) for name, each in value.items()}
        return schema

    def _point(self, reference: str) -> str:
        """Return a reference to the same part in the schema as it will be."""
        try:
            base, _, place = urljoin(self._base, reference).partition("#")
        except ValueError:  # not an address: `_check_references` says so
            return reference
        if base != self._base or not place.startswith("/"):
            return reference.replace("/definitions/", "/$defs/")
        steps = [unquote(each).replace("~1", "/").replace("~0", "~") for each in place.split("/")]
        if len(steps) == 3 and steps[1] in self._places:
            return f"#/$defs/{place.rpartition('/')[2]}"
        where = tuple(steps[1:])
        if where not in self._moved:
            target = _follow(self._schema, where)
            if target is None:
                return reference
            name, number = steps[-1], len(self._moved)
            while name in self._names:
                number += 1
                name = f"{steps[-1]}_{number}"
            self._names.add(name)
            self._emptied.add(steps[1])
            self._moved[where] = name.replace("~", "~0").replace("/", "~1")
            self._targets[name] = self._rewrite(target)
        return f"#/$defs/{quote(self._moved[where], safe='~')}"


def _follow(part: object, steps: Sequence[str]) -> Mapping[str, object] | bool | None:
    """Return the schema at a path; None if there is none."""
    for step in steps:
        if isinstance(part, list) and step.isdecimal() and int(step) < len(part):
            part = part[int(step)]
        elif isinstance(part, Mapping) and step in part:
            part = part[step]
        else:
            return None
    return part if isinstance(part, Mapping | bool) else None


def _rewrite_names(schema: Schema) -> None:
    """Drop the name of an older draft; give other things the names that they have today."""
    if "/draft/2020-12/" not in str(schema.get("$schema", "/draft/2020-12/")):
        del schema["$schema"]
    schema.pop("$recursiveAnchor", None)
    for key in ("id", "$id"):
        if isinstance(id_ := schema.get(key), str) and (key == "id" or id_.startswith("#")):
            del schema[key]
            schema |= {"$anchor": id_[1:]} if id_.startswith("#") else {}
    definitions, known = schema.get("definitions"), schema.get("$defs", {})
    if (
        isinstance(definitions, Mapping)
        and isinstance(known, Mapping)
        and definitions.keys().isdisjoint(known)
    ):
        del schema["definitions"]
        schema["$defs"] = {**known, **definitions}
    if schema.get("$recursiveRef") == "#":
        schema.setdefault("$ref", schema.pop("$recursiveRef"))


def _rewrite_type(schema: Schema) -> None:
    """Write types in small letters; OpenAPI's `nullable` adds null to them."""
    kinds = schema.get("type")
    if kinds == "any":
        kinds = schema.pop("type") and None
    if isinstance(kinds, str) and kinds.lower() in _TYPES:
        kinds = schema["type"] = kinds.lower()
    if schema.get("nullable") is True:
        del schema["nullable"]
        if isinstance(kinds, str) and kinds != "null":
            schema["type"] = [kinds, "null"]
        values = schema.get("enum")
        if isinstance(values, list) and None not in values:
            schema["enum"] = [*values, None]
        if not schema.keys().isdisjoint(_NEVER_NULL):
            moved = [key for key in schema if key not in {*_ANNOTATIONS, *_KEPT}]
            schema["anyOf"] = [{key: schema.pop(key) for key in moved}, {"type": "null"}]


def _rewrite_annotations(schema: Schema) -> None:
    """Drop what only describes and has the wrong type; write PHP's empty objects as objects."""
    for key, kind in _ANNOTATIONS.items():
        if key in schema and not isinstance(schema[key], kind):
            del schema[key]
    for key in _NAMED:
        if schema.get(key) == []:
            schema[key] = {}
    if isinstance(names := schema.get("required"), list):
        schema["required"] = list(dict.fromkeys(each for each in names if isinstance(each, str)))


def _rewrite_limits(schema: Schema) -> None:
    """Write draft 4's exclusive limits as numbers."""
    for key, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(key), bool) and schema.pop(key) and limit in schema:
            schema[key] = schema.pop(limit)


def _rewrite_items(schema: Schema) -> None:
    """Write a tuple as `prefixItems`, and what may follow it as `items`."""
    if isinstance(items := schema.get("items"), list):
        del schema["items"]
        schema |= {"prefixItems": items} if items else {}
        if "additionalItems" in schema:
            schema["items"] = schema.pop("additionalItems")
    schema.pop("additionalItems", None)


def _rewrite_dependencies(schema: Schema) -> None:
    found = schema.get("dependencies")
    if isinstance(found, Mapping):
        del schema["dependencies"]
        names = {key: value for key, value in found.items() if isinstance(value, list)}
        parts = {key: value for key, value in found.items() if key not in names}
        schema |= {"dependentRequired": names} if names else {}
        schema |= {"dependentSchemas": parts} if parts else {}


def _rewrite_required(schema: Schema) -> None:
    """Move draft 3's `required: true` from the properties to their object."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return
    flags = {
        name: part["required"]
        for name, part in properties.items()
        if isinstance(part, Mapping) and isinstance(part.get("required"), bool)
    }
    if flags:
        bare = {n: {k: v for k, v in properties[n].items() if k != "required"} for n in flags}
        schema["properties"] = {**properties, **bare}
        old = schema.get("required")
        names = [*(old if isinstance(old, list) else []), *(n for n, on in flags.items() if on)]
        schema["required"] = list(dict.fromkeys(names))


_REWRITES: tuple[Callable[[Schema], None], ...] = (
    _rewrite_annotations,
    _rewrite_names,
    _rewrite_type,
    _rewrite_limits,
    _rewrite_items,
    _rewrite_dependencies,
    _rewrite_required,
)


_TEXTS = frozenset({"title", "description"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems"})
_NUMBERS = frozenset({"minimum", "maximum"})


def is_plain(schema: object) -> bool:
    """Whether a schema is valid for certain, since it has nothing but the most usual words.

    Most tools have such a one, and to load jsonschema and check a dozen of them with it takes
    longer than all else that comes before the first request.

    Raises:
        RecursionError: it is nested too deeply.

    Example:
        >>> is_plain({"type": "object", "properties": {"a": {"type": "string"}}})
        True
        >>> is_plain({"$ref": "#/$defs/a"}), is_plain({"type": "string", "minLength": -1})
        (False, False)
    """
    return isinstance(schema, dict) and all(
        isinstance(word, str) and _is_plain_word(word, value) for word, value in schema.items()
    )


def _is_plain_word(word: str, value: object) -> bool:
    match value:
        case str():
            return word in _TEXTS or word == "default" or (word == "type" and value in _TYPES)
        case bool():
            return word in ("additionalProperties", "default")
        case int():
            return word in _NUMBERS or word == "default" or (word in _COUNTS and value >= 0)
        case dict() if word == "properties":
            return all(isinstance(name, str) and is_plain(part) for name, part in value.items())
        case dict():
            return word in ("items", "additionalProperties") and is_plain(value)
        case list() if word == "required":
            names = [name for name in value if isinstance(name, str)]
            return len(names) == len(value) == len(set(names))
        case list():
            return word == "enum"
        case _:
            return False


def check_schema(name: str, schema: Mapping[str, object], *, what: str = "schema") -> None:
    """Check the schema of a tool: valid, self-contained, and of an object.

    Raises:
        ToolError: it is not; the message says where.
        RecursionError: it is nested too deeply.
    """
    if schema.get("type") == "object" and is_plain(schema):
        return
    from jsonschema import Draft202012Validator, FormatChecker
    from jsonschema.exceptions import SchemaError

    try:
        # No format is checked: the usual check of a pattern is Python's `re`.
        Draft202012Validator.check_schema(schema, format_checker=FormatChecker(formats=()))
    except SchemaError as error:
        place = ".".join(map(str, error.absolute_path)) or "its root"
        raise ToolError(
            f"tool {name}: the {what} is broken at {place}: {clip(error.message, _MAX_MESSAGE)}"
        ) from None
    kinds = schema.get("type", "object")
    if "object" not in (kinds if isinstance(kinds, list) else [kinds]):
        raise ToolError(
            f"tool {name}: the {what} is not of type object",
            hint='give {"type": "object", "properties": {…}}',
        )
    _check_references(name, schema, what)


def _check_references(name: str, schema: Mapping[str, object], what: str) -> None:
    """Resolve every reference once, to find a dangling one now and not in a call."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = DRAFT202012.create_resource(schema)
    reference = ""
    try:
        # The registry is empty: a schema never makes us fetch another one.
        for reference, resolver in _references(root, Registry().resolver_with_root(root)):
            if not isinstance(resolver.lookup(reference).contents, Mapping | bool):
                raise ToolError(
                    f"tool {name}: the {what} points to {reference!r}, which is not a schema"
                )
    except Unresolvable:
        raise ToolError(
            f"tool {name}: the {what} points to {reference!r}, which it does not hold",
            hint="put the schema that it points to under $defs",
        ) from None
    except ValueError as error:  # of Python's own reader of addresses
        raise ToolError(f"tool {name}: the {what} has a broken address: {error}") from None


def _references(
    part: "Resource[object]", resolver: "Resolver[object]"
) -> Iterator[tuple[str, "Resolver[object]"]]:
    contents = part.contents if isinstance(part.contents, Mapping) else {}
    for key in ("$ref", "$dynamicRef"):
        if isinstance(reference := contents.get(key), str):
            yield reference, resolver
    for inner in part.subresources():
        yield from _references(inner, resolver.in_subresource(inner))


def find_patterns(schema: Mapping[str, object]) -> dict[str, bool]:
    """Return the regular expressions of a schema; true for those of properties' names."""
    if is_plain(schema):
        return {}
    from referencing.jsonschema import DRAFT202012

    found: dict[str, bool] = {}
    for contents in _subschemas(DRAFT202012.create_resource(schema)):
        if isinstance(pattern := contents.get("pattern"), str):
            found.setdefault(pattern, False)
        found |= dict.fromkeys(cast("Schema", contents.get("patternProperties", {})), True)
    return found


def _subschemas(resource: "Resource[object]") -> Iterator[Mapping[str, object]]:
    if isinstance(resource.contents, Mapping):
        yield cast("Mapping[str, object]", resource.contents)
    for part in resource.subresources():
        yield from _subschemas(part)
