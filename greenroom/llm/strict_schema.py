"""JSON Schemas adapted to the strict modes of vendors, which support a part of the language.

A strict mode enforces a schema while the model writes. It demands closed objects, knows few
keywords, and refuses others. So a schema is adapted: a constraint is expressed differently if
possible, or else goes into the description; anything that can't be expressed at all, such as an
object with free keys, makes the schema unusable. An adapted schema may allow values that the
original forbids, so replies are checked against the original; it never forbids all of the values
that the original allows.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from greenroom.core._internal import serde
from greenroom.llm.json_fields import as_dict, as_list, as_text

_DROPPED = frozenset(
    {"title", "discriminator", "examples", "deprecated", "readOnly", "writeOnly", "$schema", "$id"}
)
"""Keywords that do not constrain the value."""

_DESCRIBED = frozenset(
    {"default", "format", "pattern", "minLength", "maxLength", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "prefixItems"}
    | {"uniqueItems", "contentEncoding", "contentMediaType", "minProperties", "maxProperties"}
)
"""Keywords that go into the description if they can't be enforced."""

_WALKED = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties", "items", "anyOf"}
    | {"oneOf", "allOf", "$ref", "$defs", "description"}
)


class StrictMode(msgspec.Struct, frozen=True):
    """The features of one vendor's strict mode.

    Attributes:
        keywords: the constraints that it enforces.
        formats: the formats of strings that it enforces.
        optional: how many properties may be optional; with 0 all are required, and null means
            "left out".
        unions: how many places may have more than one type.
        recursion: whether a schema may refer to itself.
        typed_values: whether listed values need a type as well.
    """

    keywords: frozenset[str]
    formats: frozenset[str]
    optional: int
    unions: float
    recursion: bool
    typed_values: bool


_FORMATS = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)

OPENAI = StrictMode(
    keywords=frozenset(
        {"pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
        | {"minItems", "maxItems"}
    ),
    formats=_FORMATS,
    optional=0,
    unions=math.inf,
    recursion=True,
    typed_values=True,
)
"""https://platform.openai.com/docs/guides/structured-outputs, "Supported schemas"."""

ANTHROPIC = StrictMode(
    keywords=frozenset(),
    formats=_FORMATS | {"uri"},
    optional=24,
    unions=16,
    recursion=False,
    typed_values=False,
)
"""https://platform.claude.com/docs/en/build-with-claude/structured-outputs, "limitations"."""


def strict_schema(schema: Mapping[str, object], mode: StrictMode) -> dict[str, object] | None:
    """Adapt a schema to a strict mode, or return None if that is impossible.

    Args:
        schema: a JSON Schema of type object, with its definitions under `$defs`.
        mode: the features of the mode.

    Example:
        >>> adapted = strict_schema({"type": "object", "properties": {"a": {"const": 1}}}, OPENAI)
        >>> adapted["properties"]
        {'a': {'anyOf': [{'type': 'integer', 'const': 1}, {'type': 'null'}]}}
        >>> adapted["required"], adapted["additionalProperties"]
        (['a'], False)
    """
    definitions = as_dict(schema.get("$defs"))
    if schema.get("type") != "object" or (not mode.recursion and _is_recursive(schema)):
        return None
    adaptation = _Adaptation(mode, definitions)
    try:
        adapted = adaptation.adapt({key: part for key, part in schema.items() if key != "$defs"})
        parts = adaptation.definitions_of(adapted)
    except _UnfitError:
        return None
    if adaptation.optional > mode.optional or adaptation.unions > mode.unions:
        return None
    return adapted | ({"$defs": parts} if parts else {})


class _UnfitError(Exception):
    """A strict mode can't express the schema."""


class _Adaptation(msgspec.Struct):
    """One schema being adapted to a mode, and its counts so far."""

    mode: StrictMode
    definitions: dict[str, object]
    optional: int = 0
    unions: int = 0
    inlining: list[str] = msgspec.field(default_factory=list)

    def adapt(self, part: object) -> dict[str, object]:
        schema = as_dict(part)
        if not schema.keys() <= _WALKED | _DROPPED | _DESCRIBED:
            raise _UnfitError
        if "$ref" in schema:
            return self._reference(schema)
        if "allOf" in schema:
            return self._merge(schema)
        made = self._type(schema)
        if "properties" in schema or made.get("type") == "object":
            made |= self._object(schema)
        if made.get("type") == "array":
            made |= self._array(schema)
        return made | self._constraints(schema)

    def definitions_of(self, adapted: dict[str, object]) -> dict[str, object]:
        """Adapt the definitions that the adapted schema still refers to, directly or indirectly."""
        parts: dict[str, object] = {}
        waiting = list(references(adapted))
        while waiting:
            name = waiting.pop().removeprefix("#/$defs/")
            if name not in parts:
                parts[name] = self.adapt(self.definitions[name])
                waiting += references(parts[name])
        return {name: parts[name] for name in self.definitions if name in parts}

    def _reference(self, schema: dict[str, object]) -> dict[str, object]:
        """Keep a reference, but write it out if it has other keywords beside it."""
        name = as_text(schema["$ref"])
        rest = {key: value for key, value in schema.items() if key not in _DROPPED | {"$ref"}}
        rest = {key: value for key, value in rest.items() if (key, value) != ("default", None)}
        target = as_dict(self.definitions.get(name.removeprefix("#/$defs/")))
        if not target or name in self.inlining:
            raise _UnfitError
        if not rest:
            return {"$ref": name}
        self.inlining.append(name)
        try:
            return self.adapt(target | rest)
        finally:
            self.inlining.pop()

    def _merge(self, schema: dict[str, object]) -> dict[str, object]:
        branches = as_list(schema["allOf"])
        if len(branches) != 1:
            raise _UnfitError
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        return self.adapt(as_dict(branches[0]) | rest)

    def _type(self, schema: dict[str, object]) -> dict[str, object]:
        branches = as_list(schema.get("anyOf")) or as_list(schema.get("oneOf"))
        if branches:
            self.unions += 1
            return {"anyOf": [self.adapt(branch) for branch in branches]}
        values = [schema["const"]] if "const" in schema else as_list(schema.get("enum"))
        fixed: dict[str, object] = {key: schema[key] for key in ("const", "enum") if key in schema}
        types = _types_of(values)
        kind = schema.get("type") or types
        if fixed and not self.mode.typed_values:
            return fixed
        if not kind:
            raise _UnfitError  # anything at all
        if isinstance(kind, list):
            self.unions += 1
            if {"object", "array"} & set(kind):
                raise _UnfitError
        return {"type": kind} | fixed

    def _object(self, schema: dict[str, object]) -> dict[str, object]:
        properties = as_dict(schema.get("properties"))
        if "properties" not in schema or schema.get("additionalProperties", False) is not False:
            raise _UnfitError  # free keys
        required = [as_text(name) for name in as_list(schema.get("required"))]
        adapted = {name: self.adapt(part) for name, part in properties.items()}
        left_out = [name for name in properties if name not in required]
        if self.mode.optional:
            self.optional += len(left_out)
        else:
            required = list(properties)
            for name in left_out:
                if not _accepts_null(properties[name], self.definitions):
                    adapted[name] = {"anyOf": [adapted[name], {"type": "null"}]}
        return {"properties": adapted, "required": required, "additionalProperties": False}

    def _array(self, schema: dict[str, object]) -> dict[str, object]:
        """Adapt the items; a tuple's may have any of its types, and the description the order."""
        places = as_list(schema.get("prefixItems"))
        kinds = [*places, *([schema["items"]] if as_dict(schema.get("items")) else [])]
        adapted = [self.adapt(kind) for kind in kinds]
        different = [kind for at, kind in enumerate(adapted) if kind not in adapted[:at]]
        if not different:
            raise _UnfitError
        if len(different) == 1:
            return {"items": different[0]}
        self.unions += 1
        return {"items": {"anyOf": different}}

    def _constraints(self, schema: dict[str, object]) -> dict[str, object]:
        """Enforce what the mode supports, and describe the rest."""
        keywords: dict[str, object] = {}
        notes: list[str] = []
        for key in schema.keys() & _DESCRIBED:
            value = schema[key]
            if key == "format" and value in self.mode.formats:
                keywords[key] = value
            elif key in self.mode.keywords and "(?" not in as_text(value):
                keywords[key] = value  # but no pattern that looks around
            elif value is not None:
                notes.append(f"{key}: {serde.dumps(value).decode()}")
        description = as_text(schema.get("description"))
        if notes:
            description = f"{description} ({', '.join(sorted(notes))})".strip()
        described = {"description": description} if description else {}
        return dict(sorted(keywords.items())) | described


_JSON_TYPES: dict[type, str] = {
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null",
}  # fmt: skip


def _types_of(values: list[object]) -> object:
    names = list(dict.fromkeys(_JSON_TYPES.get(type(value), "") for value in values))
    if "" in names:
        raise _UnfitError
    return names[0] if len(names) == 1 else names


def _resolve(part: object, definitions: Mapping[str, object]) -> dict[str, object]:
    schema = as_dict(part)
    for _ in definitions:
        if "$ref" not in schema:
            break
        schema = as_dict(definitions.get(as_text(schema["$ref"]).removeprefix("#/$defs/")))
    return schema


def _branches(part: object, definitions: Mapping[str, object]) -> Iterator[dict[str, object]]:
    """Yield each of the schemas that a value at this place may fit."""
    schema = _resolve(part, definitions)
    unions = (as_list(schema.get(key)) for key in ("anyOf", "oneOf", "allOf"))
    union = next(filter(None, unions), [])
    if not union:
        yield schema
    for branch in union:
        yield from _branches(branch, definitions)


def _accepts_null(part: object, definitions: Mapping[str, object]) -> bool:
    for branch in _branches(part, definitions):
        kind, values = branch.get("type"), as_list(branch.get("enum"))
        if kind == "null" or None in values or (isinstance(kind, list) and "null" in kind):
            return True
        if not branch.keys() & {"type", "enum", "const"}:
            return True
    return False


def references(part: object) -> Iterator[str]:
    """Yield the `$ref`s of a schema, each as often as it occurs."""
    inner: Iterable[object] = part if isinstance(part, list) else as_dict(part).values()
    reference = as_text(as_dict(part).get("$ref"))
    if reference:
        yield reference
    for each in inner:
        yield from references(each)


def _is_recursive(schema: Mapping[str, object]) -> bool:
    definitions = as_dict(schema.get("$defs"))
    edges = {f"#/$defs/{name}": set(references(part)) for name, part in definitions.items()}
    rest = {key: part for key, part in schema.items() if key != "$defs"}
    if "#" in set(references(schema)):
        return True
    waiting, done = set(references(rest)) | set(edges), set[str]()
    while waiting:  # remove those that refer only to removed ones; what remains are cycles
        free = {name for name in waiting if edges.get(name, set()) <= done}
        if not free:
            return True
        done |= free
        waiting -= free
    return False


def drop_nulls(schema: Mapping[str, object], value: object) -> object:
    """Leave out the nulls of properties that are optional and can't be null.

    A strict mode that requires all properties means it so, and models write such nulls anyway.

    Args:
        schema: the original schema.
        value: a reply's value.

    Example:
        >>> drop_nulls({"properties": {"a": {"type": "integer"}}}, {"a": None})
        {}
    """
    return _drop(schema, value, as_dict(schema.get("$defs")))


def _drop(part: object, value: object, definitions: Mapping[str, object]) -> object:
    branches = list(_branches(part, definitions))
    if isinstance(value, list):
        kind = next((each for each in branches if each.keys() & {"items", "prefixItems"}), {})
        return [_drop(_item(kind, at), item, definitions) for at, item in enumerate(value)]
    if not isinstance(value, dict):
        return value
    fitting = next((branch for branch in branches if _may_fit(branch, value)), {})
    properties, required = as_dict(fitting.get("properties")), as_list(fitting.get("required"))
    free = next(
        (each["additionalProperties"] for each in branches if "additionalProperties" in each), {}
    )
    return {
        name: _drop(properties.get(name, free), item, definitions)
        for name, item in value.items()
        if item is not None
        or name not in properties
        or name in required
        or _accepts_null(properties[name], definitions)
    }


def _item(schema: dict[str, object], at: int) -> object:
    places = as_list(schema.get("prefixItems"))
    return places[at] if at < len(places) else schema.get("items")


def _may_fit(schema: dict[str, object], value: dict[str, object]) -> bool:
    """Whether an object has the properties of this schema, and the values that mark it."""
    properties = as_dict(schema.get("properties"))
    required = set(as_list(schema.get("required")))
    if not value.keys() <= properties.keys() or not required <= set(value):
        return False
    marks = ((as_dict(properties[name]), item) for name, item in value.items())
    return all(
        mark.get("const", item) == item and item in (as_list(mark.get("enum")) or [item])
        for mark, item in marks
    )
