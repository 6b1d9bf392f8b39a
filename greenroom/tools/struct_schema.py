"""msgspec structs as parameters of a tool: msgspec makes their schema and converts their values."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, cast, get_args, get_origin

import msgspec

from greenroom.core import ToolError
from greenroom.core._internal import serde

if TYPE_CHECKING:
    from typing_extensions import TypeForm


def convert_by_msgspec(hint: object, place: str) -> object:
    """Return a type for pydantic, whose values msgspec converts into this one.

    Args:
        hint: a type that holds a struct, or a `Meta` of msgspec.
        place: the parameter, for the error.

    Raises:
        ToolError: JSON can't express the type.
    """
    from pydantic import BeforeValidator

    try:
        serde.make_schema(hint)
        # For a JSON Schema, 3.0 is a whole number; all else has been checked by then.
        decoder = serde.make_decoder(cast("TypeForm[object]", hint), strict=False)
    except (TypeError, NameError) as error:
        raise ToolError(
            f"{place}: no schema can express its type: {error}",
            hint="use what msgspec knows inside of a struct: structs, dataclasses, plain types",
        ) from None
    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    of_pydantic = (each for each in extras if not isinstance(each, str | msgspec.Meta))
    return Annotated[(object, BeforeValidator(_converter(decoder.decode)), *of_pydantic)]


def _converter(decode: Callable[[bytes], object]) -> Callable[[object], object]:
    from pydantic_core import PydanticCustomError

    def convert(value: object) -> object:
        try:
            return decode(serde.dumps(value))
        except msgspec.DecodeError as error:
            raise PydanticCustomError("struct", "{reason}", {"reason": str(error)}) from None

    return convert


def add_structs(schema: dict[str, object], hints: Mapping[str, object]) -> None:
    """Write the schemas of parameters with structs into that of a tool.

    pydantic may have described an enum or a dataclass that a struct has as well, or another type of
    that name, so those of the structs get another name then.
    """
    if not hints:
        return
    defined = _as_dicts(schema.setdefault("$defs", {}))
    text = serde.dumps(serde.make_schema(msgspec.defstruct("Arguments", list(hints.items()))))
    for name in defined:
        text = text.replace(_refer_to(name), _refer_to(f"{name}-2"))
    whole = serde.decode(text, dict[str, object])
    parts = _as_dicts(whole["$defs"])
    own = parts.pop(_read_name(whole))
    properties = _as_dicts(schema["properties"])
    for parameter, part in _as_dicts(own["properties"]).items():
        properties[parameter] = {**part, **properties[parameter]}
    defined.update({f"{name}-2" if name in defined else name: parts[name] for name in parts})


def make_result_schema(kind: object) -> dict[str, object] | None:
    """Make the schema of a struct that a tool returns; None if its JSON is not an object."""
    schema = serde.make_schema(kind)
    parts, name = _as_dicts(schema["$defs"]), _read_name(schema)
    root = parts[name]
    if _refer_to(name) not in serde.dumps(parts):  # no type has one of its own kind in it
        del parts[name]
    whole = {**root, "$defs": parts} if parts else root
    return whole if root["type"] == "object" else None


def _refer_to(name: str) -> bytes:
    return serde.dumps({"$ref": f"#/$defs/{name}"})[1:-1]


def _read_name(schema: Mapping[str, object]) -> str:
    return str(schema["$ref"]).removeprefix("#/$defs/")


def _as_dicts(value: object) -> dict[str, dict[str, object]]:
    return cast("dict[str, dict[str, object]]", value)
