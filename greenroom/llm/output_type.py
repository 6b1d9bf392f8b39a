"""The type of an answer: what a model is told of it, and how a reply becomes a value of it."""

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from typing import TYPE_CHECKING, Generic, TypeVar, cast, get_args

import msgspec

from greenroom.core import (
    ConfigurationError,
    InvalidJSONError,
    Message,
    ModelContentFilterError,
    ModelOutputError,
    OutputSchema,
    StopReason,
    ToolDefinition,
    clip,
    serde,
    valid_unicode,
)
from greenroom.llm.fields import mapping
from greenroom.llm.strict_schema import drop_nulls, references

if TYPE_CHECKING:
    from pydantic import ValidationError
    from typing_extensions import TypeForm

T = TypeVar("T")

ANSWER_TOOL = "final_answer"
"""The name of the tool by which a model answers."""

_VALUE = "value"
_MAX_ERRORS = 10
_MAX_ERROR = 400


class OutputType(Generic[T]):
    """A type that a model shall answer with.

    pydantic validates its models, dataclasses, typed dictionaries and plain types; msgspec its
    structs, and unions and lists of them. A type whose JSON is not an object, such as `list[str]` or
    `Cat | Dog`, is asked for as the field `value` of one: vendors want an object.

    Making one costs some milliseconds and a value of it can be used for any number of requests.

    Attributes:
        schema: what the model is told: a name, and a JSON Schema of type object.

    Example:
        >>> colours = OutputType(list[str])
        >>> colours.schema.schema["properties"]
        {'value': {'items': {'type': 'string'}, 'type': 'array'}}
        >>> colours.validate({"value": ["red"]})
        ['red']
    """

    schema: OutputSchema

    def __init__(self, type_: "TypeForm[T]") -> None:
        """Make the schema of the type.

        Raises:
            ConfigurationError: no schema can express the type.
        """
        name = getattr(type_, "__name__", "") if isinstance(type_, type) else ""
        schema, self._decode = _by_msgspec(type_) if _has_struct(type_) else _by_pydantic(type_)
        root = _root(schema)
        self._is_wrapped = root.get("type") != "object"
        self.schema = OutputSchema(
            re.sub(r"[^\w-]", "_", name, flags=re.ASCII)[:64] or "answer",
            _wrap(root) if self._is_wrapped else root,
        )

    def __repr__(self) -> str:
        return f"OutputType({self.schema.name})"

    @property
    def tool(self) -> ToolDefinition:
        """The tool with which a model answers that knows no better way."""
        return ToolDefinition(
            ANSWER_TOOL,
            "Gives the final answer. Call it once, with the whole answer.",
            dict(self.schema.schema),
        )

    def validate(self, value: object) -> T:
        """Make a value of the type of an object that fits `schema`.

        A null counts as left out where the field is optional and can't be null.

        Raises:
            ModelOutputError: it does not fit; `errors` says where and why.
        """
        try:
            try:
                return self._validate(value)
            except ModelOutputError:
                leaner = drop_nulls(self.schema.schema, value)
                if leaner == value:
                    raise
            return self._validate(leaner)
        except RecursionError:
            raise _misfit(["the answer is nested too deeply"]) from None

    def read(self, reply: Message) -> T:
        """Make a value of the type of a reply: of its one call of `tool`, else of its text.

        The text is one JSON object, alone or with words around it, bare or in a fence.

        Raises:
            ModelContentFilterError: the model, or a filter of its provider, refused to answer.
            ModelOutputError: the reply was cut off, holds no such object, or one that does not fit;
                `partial` is the reply.
        """
        try:
            return self.validate(_answer_in(reply))
        except ModelOutputError as error:
            raise self._about(reply, error) from None

    def _about(self, reply: Message, error: ModelOutputError) -> ModelOutputError:
        about = ModelOutputError(
            f"the reply does not fit {self.schema.name}: {error.message}",
            errors=error.errors,
            provider=reply.provider,
            hint=_hint(reply),
        )
        about.partial = reply
        return about

    def _validate(self, value: object) -> T:
        if self._is_wrapped:
            if not isinstance(value, dict) or value.keys() != {_VALUE}:
                raise _misfit([f"expected an object with the one field {_VALUE!r}"])
            value = value[_VALUE]
        try:
            return self._decode(serde.dumps(value), _VALUE if self._is_wrapped else "")
        except InvalidJSONError as error:
            raise _misfit([error.message]) from None


def _answer_in(reply: Message) -> object:
    """Return the object that a reply gives as its answer."""
    if reply.stop_reason in {StopReason.REFUSAL, StopReason.CONTENT_FILTER}:
        raise _refusal(reply)
    if reply.stop_reason is StopReason.MAX_TOKENS:
        raise _misfit(["the answer was cut off by max_tokens: give a shorter one"])
    if reply.stop_reason is StopReason.PAUSE:
        raise _misfit(["the model paused before it answered"])
    calls = [call for call in reply.tool_uses if call.name == ANSWER_TOOL]
    if len(calls) > 1:
        raise _misfit([f"{ANSWER_TOOL} was called {len(calls)} times: call it once"])
    if calls and calls[0].invalid:
        raise _misfit([calls[0].invalid])
    if calls:
        return calls[0].input
    if reply.tool_uses:
        raise _misfit([f"{reply.tool_uses[0].name} was called, which does not give the answer"])
    return _object_in(reply.text)


def _object_in(text: str) -> object:
    """Return the one JSON object of a text: all of it, else in a fence, else between its braces."""
    if "{" not in text or text.lstrip().startswith("["):
        raise _misfit(["the answer is not a JSON object"])
    try:
        return serde.loads_object(text)
    except InvalidJSONError as error:
        fenced = _find_fenced(text)
        found = fenced[0] if len(fenced) == 1 else text[text.find("{") : text.rfind("}") + 1]
        if "{" not in found or found == text:
            raise _misfit([error.message]) from None
    try:
        return serde.loads_object(found)
    except InvalidJSONError as error:
        raise _misfit([error.message]) from None


def _find_fenced(text: str) -> list[str]:
    """Return what stands between fences of three backticks, in time that grows with the text."""
    blocks: list[str] = []
    lines: list[str] | None = None
    for line in text.split("\n"):
        mark = line.strip()
        if lines is None:
            lines = [] if mark.startswith("```") else None
        elif mark == "```":
            blocks.append("\n".join(lines))
            lines = None
        else:
            lines.append(line)
    return blocks


def _refusal(reply: Message) -> ModelContentFilterError:
    who = "the model" if reply.stop_reason is StopReason.REFUSAL else "a content filter"
    said = clip(" ".join(reply.text.split()), _MAX_ERROR)
    error = ModelContentFilterError(
        f"{who} refused to answer" + (f": {said}" if said else ""),
        provider=reply.provider,
        code=reply.native_stop_reason,
        hint="the request must be changed; asking again will not help",
    )
    error.partial = reply
    return error


def _hint(reply: Message) -> str:
    if reply.stop_reason is StopReason.MAX_TOKENS:
        return "raise max_tokens"
    return "say in the type's descriptions what each field is, or use another model"


def _misfit(errors: Sequence[str]) -> ModelOutputError:
    shown = tuple(clip(valid_unicode(error), _MAX_ERROR) for error in errors[:_MAX_ERRORS])
    if len(errors) > _MAX_ERRORS:
        shown += (f"and {len(errors) - _MAX_ERRORS} more",)
    return ModelOutputError("; ".join(shown), errors=shown)


# Schemas and decoders of the two libraries


def _has_struct(hint: object) -> bool:
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return True
    return any(map(_has_struct, get_args(hint)))


def _by_msgspec(kind: "TypeForm[T]") -> tuple[dict[str, object], Callable[[bytes, str], T]]:
    try:
        schema = msgspec.json.schema(kind, schema_hook=_anything)
        for part in (schema, *mapping(schema.get("$defs")).values()):
            _shorten_description(part)
        decoder = msgspec.json.Decoder(cast("type[T]", kind))
    except (TypeError, NameError) as error:
        raise _unfit_error(kind, error) from error

    def decode(data: bytes, place: str) -> T:
        try:
            return decoder.decode(data)
        except msgspec.DecodeError as error:
            reason, _, inner = str(error).partition(" - at `$")
            raise _misfit([_line(place + inner.rstrip("`"), reason)]) from None

    return schema, decode


def _shorten_description(schema: object) -> None:
    """Leave out what a docstring says to programmers alone: what is raised, and examples."""
    if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
        schema["description"] = re.split(r"\n\s*\n(?=(?:Raises|Examples?):)", cleandoc(text))[0]


def _anything(kind: object) -> dict[str, object]:
    """Return the schema of a field that may hold any value."""
    if kind is object:
        return {"description": "any JSON value"}
    raise TypeError(f"no JSON Schema stands for {kind!r}")


def _by_pydantic(kind: "TypeForm[T]") -> tuple[dict[str, object], Callable[[bytes, str], T]]:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError
    from pydantic.json_schema import GenerateJsonSchema

    from greenroom.tools import portable

    class Untitled(GenerateJsonSchema):
        # A default that is not JSON stays out of the schema; the type has it all the same.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

        def field_title_should_be_set(self, schema: object) -> bool:
            return False

    try:
        adapter = TypeAdapter(cast("TypeForm[T]", portable(kind)))
        schema = adapter.json_schema(schema_generator=Untitled)
    except (PydanticUserError, NameError, TypeError) as error:
        raise _unfit_error(kind, error) from error

    def decode(data: bytes, place: str) -> T:
        try:
            return adapter.validate_json(data)
        except ValidationError as error:
            raise _misfit(_lines(error, place)) from None

    return schema, decode


def _lines(error: "ValidationError", place: str) -> list[str]:
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return [_line(place + _path(fault["loc"]), fault["msg"]) for fault in faults]


def _path(parts: Sequence[str | int]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _line(path: str, reason: str) -> str:
    return f"{path.removeprefix('.')}: {reason}" if path else reason


def _unfit_error(kind: object, error: Exception) -> ConfigurationError:
    reason = str(error).partition("\n")[0]
    return ConfigurationError(
        f"no schema can express the type {getattr(kind, '__name__', kind)}: {reason}",
        hint="use a pydantic model, a dataclass, a TypedDict, a msgspec struct, or plain types",
    )


def _root(schema: dict[str, object]) -> dict[str, object]:
    """Write out a schema that is a reference alone; its definition stays only if it is used inside."""
    reference, definitions = schema.get("$ref"), mapping(schema.get("$defs"))
    if not isinstance(reference, str):
        return schema
    name = reference.removeprefix("#/$defs/")
    root = mapping(definitions.get(name))
    if reference not in references([root, *definitions.values()]):
        definitions = {other: part for other, part in definitions.items() if other != name}
    return {**root, "$defs": definitions} if definitions else root


def _wrap(schema: Mapping[str, object]) -> dict[str, object]:
    inner = {key: part for key, part in schema.items() if key != "$defs"}
    made = {"type": "object", "properties": {_VALUE: inner}, "required": [_VALUE]}
    whole: dict[str, object] = {**made, "additionalProperties": False}
    return whole | ({"$defs": schema["$defs"]} if "$defs" in schema else {})
