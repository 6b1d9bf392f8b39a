"""Schemas of tools with a plain object at the root, which most vendors demand.

`anyOf`, `oneOf` or `allOf` at the root of one tool's schema fails the whole request. So the
branches are folded into the root: the model sees all of their properties, of which it must give
those that every branch requires, and a sentence says which others are needed. The folded schema
only tells the model what to write: arguments are checked against the original.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from greenroom.llm.json_fields import as_dict, as_list, as_text

_REFUSED = frozenset({"anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref"})
_MOST_FOLDS = 1_000  # schemas; a reference may occur in many places
_DEEPEST = 30


def fold_root(schema: Mapping[str, object]) -> Mapping[str, object]:
    """Return a tool's schema with its branches folded into the root, or the schema as it is.

    Example:
        >>> either = [{"required": ["url"]}, {"required": ["text"]}]
        >>> folded = fold_root({"properties": {"url": {}, "text": {}}, "anyOf": either})
        >>> folded["properties"], folded["description"]
        ({'url': {}, 'text': {}}, 'Give one of: url; text.')
    """
    if schema.get("type") == "object" and not schema.keys() & _REFUSED:
        return schema
    shape = _Folding(schema).fold(schema)
    description = " ".join(filter(None, (as_text(schema.get("description")), *shape.notes)))
    return {
        **{key: value for key, value in schema.items() if key not in _REFUSED},
        "type": "object",
        "properties": shape.properties,
        **({"required": list(shape.required)} if shape.required else {}),
        **({"additionalProperties": False} if shape.is_closed else {}),
        **({"description": description} if description else {}),
    }


class _Shape(msgspec.Struct):
    """What a schema says about an object."""

    properties: dict[str, object] = msgspec.field(default_factory=dict)
    required: dict[str, None] = msgspec.field(default_factory=dict)  # in their order
    is_closed: bool = False
    notes: list[str] = msgspec.field(default_factory=list)


class _Folding:
    """One schema being folded, with a limit for the work."""

    def __init__(self, root: Mapping[str, object]) -> None:
        self._root = root
        self._left = _MOST_FOLDS

    def fold(self, part: object, depth: int = 0) -> _Shape:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            return _Shape()
        schema = as_dict(part)
        shapes = [
            _Shape(
                dict(as_dict(schema.get("properties"))),
                dict.fromkeys(map(as_text, as_list(schema.get("required")))),
                schema.get("additionalProperties") is False,
            )
        ]
        if "$ref" in schema:
            shapes.append(self.fold(self._resolve(as_text(schema["$ref"])), depth + 1))
        shapes += [self.fold(branch, depth + 1) for branch in as_list(schema.get("allOf"))]
        for key in ("anyOf", "oneOf"):
            branches = [b for b in as_list(schema.get(key)) if _may_be_object(b)]
            if branches:
                shapes.append(_either([self.fold(branch, depth + 1) for branch in branches]))
        return _both(shapes)

    def _resolve(self, reference: str) -> object:
        """Return the part that a reference within the schema leads to, or None."""
        part: object = self._root if reference.startswith("#") else None
        for name in filter(None, reference.removeprefix("#").split("/")):
            part = as_dict(part).get(name.replace("~1", "/").replace("~0", "~"))
        return part


def _may_be_object(branch: object) -> bool:
    kind = as_dict(branch).get("type", "object")
    return "object" in (kind if isinstance(kind, list) else [kind]) and branch is not False


def _both(shapes: Sequence[_Shape]) -> _Shape:
    """Return the shape of objects that have all of these shapes."""
    return _Shape(
        {name: _merge(parts, "allOf") for name, parts in _collect(shapes).items()},
        {name: None for shape in shapes for name in shape.required},
        any(shape.is_closed for shape in shapes),
        [note for shape in shapes for note in shape.notes],
    )


def _either(shapes: Sequence[_Shape]) -> _Shape:
    """Return the shape of objects that have any of these shapes."""
    common = {n: None for n in shapes[0].required if all(n in each.required for each in shapes)}
    rest = [[name for name in each.required if name not in common] for each in shapes]
    groups = list(dict.fromkeys(" and ".join(names) for names in rest))
    is_choice = len(groups) > 1 and all(groups)
    return _Shape(
        {name: _merge(parts, "anyOf") for name, parts in _collect(shapes).items()},
        common,
        all(shape.is_closed for shape in shapes),
        [f"Give one of: {'; '.join(groups)}."] if is_choice else [],
    )


def _collect(shapes: Iterable[_Shape]) -> dict[str, list[object]]:
    found: dict[str, list[object]] = {}
    for shape in shapes:
        for name, part in shape.properties.items():
            parts = found.setdefault(name, [])
            if part not in parts:
                parts.append(part)
    return found


def _merge(parts: list[object], key: str) -> object:
    """Return one schema for a property of which there are several, in all or any of the shapes."""
    known = [part for part in map(as_dict, parts) if part]
    if len(parts) == 1 or (key == "allOf" and not known):
        return parts[0]
    if key == "allOf":
        return _unite(known) or {"allOf": known}
    return _list_values(known) if len(known) == len(parts) else {}


def _unite(parts: list[dict[str, object]]) -> dict[str, object]:
    """Return a schema with the keywords of all parts, or nothing if two contradict each other."""
    whole: dict[str, object] = {}
    for part in parts:
        if any(whole.get(name, value) != value for name, value in part.items()):
            return {}
        whole |= part
    return whole


def _list_values(parts: list[dict[str, object]]) -> dict[str, object]:
    """Return a schema for any of the parts; if they differ in one value only, with all values."""
    rests = [{k: v for k, v in part.items() if k not in {"const", "enum"}} for part in parts]
    values = [[part["const"]] if "const" in part else as_list(part.get("enum")) for part in parts]
    if all(values) and all(rest == rests[0] for rest in rests):
        return rests[0] | {"enum": [value for each in values for value in each]}
    return {"anyOf": parts}
