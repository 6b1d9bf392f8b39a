"""msgspec structs as parameters of a tool: msgspec makes their schema and converts their values."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, cast

import msgspec

from greenroom.core import ToolError
from greenroom.core._internal import serde

if TYPE_CHECKING:
    from typing_extensions import TypeForm


def convert_by_msgspec(hint: object, place: str) -> object:
    """Return a type for pydantic, whose values msgspec converts into this one.

    Args:
        hint: a type that holds a struct.
        place: the parameter, for the error.

    Raises:
        ToolError: JSON can't express the type.
    """
    from pydantic import BeforeValidator

    try:
        serde.make_schema(hint)
        decoder = serde.make_decoder(cast("TypeForm[object]", hint))
    except (TypeError, NameError) as error:
        raise ToolError(
            f"{place}: no schema can express its type: {error}",
            hint="use what msgspec knows inside of a struct: structs, dataclasses, plain types",
        ) from None
    return Annotated[object, BeforeValidator(_converter(decoder.decode))]


def _converter(decode: Callable[[bytes], object]) -> Callable[[object], object]:
    from pydantic_core import PydanticCustomError

    def convert(value: object) -> object:
        try:
            return decode(serde.dumps(value))
        except msgspec.DecodeError as error:
            raise PydanticCustomError("struct", "{reason}", {"reason": str(error)}) from None

    return convert


def add_structs(schema: dict[str, object], hints: Mapping[str, object], name: str) -> None:
    """Write the schemas of parameters with structs into that of a tool.

    Raises:
        ToolError: another type of the tool has the name of a struct.
    """
    if not hints:
        return
    whole = serde.make_schema(msgspec.defstruct("Arguments", list(hints.items())))
    parts = _as_dicts(whole["$defs"])
    own = parts.pop(str(whole["$ref"]).removeprefix("#/$defs/"))
    properties = _as_dicts(schema["properties"])
    for parameter, part in _as_dicts(own["properties"]).items():
        properties[parameter] = {**part, **properties[parameter]}
    defined = _as_dicts(schema.setdefault("$defs", {}))
    if both := defined.keys() & parts.keys():
        raise ToolError(f"tool {name}: two types are called {min(both)}", hint="rename one")
    defined.update(parts)


def _as_dicts(value: object) -> dict[str, dict[str, object]]:
    return cast("dict[str, dict[str, object]]", value)
