"""Structured output: the schema of a type, and replies as values of it."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING, Generic, TypeVar, cast

import msgspec

from greenroom.core import (
    ConfigurationError,
    Message,
    StopReason,
    ToolDefinition,
)
from greenroom.core._internal import (
    REFUSALS,
    InvalidJSONError,
    OutputSchema,
    clip,
    serde,
    valid_unicode,
)
from greenroom.llm.json_fields import as_dict
from greenroom.llm.model_errors import (
    ModelContentFilterError,
    ModelOutputError,
)
from greenroom.llm.strict_schema import drop_nulls, references

if TYPE_CHECKING:
    from pydantic import ValidationError
    from typing_extensions import TypeForm


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

ANSWER_TOOL = "final_answer"
"""The name of the tool by which a model answers."""

_VALUE = "value"
_MAX_ERRORS = 10
_MAX_ERROR = 400


class OutputType(Generic[T_co]):
    """A type for the answers of a model.

    pydantic validates its models, dataclasses, typed dictionaries and plain types; msgspec its
    structs, and unions and lists of them. Vendors want an object, so a type whose JSON is something
    else, such as `list[str]` or `Cat | Dog`, is requested as the field `value` of one.

    Making an `OutputType` takes some milliseconds, so make it once for many requests.

    Attributes:
        schema: the schema that the model gets: a name, and a JSON Schema of type object.

    Example:
        >>> colours = OutputType(list[str])
        >>> colours.schema.schema["properties"]
        {'value': {'items': {'type': 'string'}, 'type': 'array'}}
        >>> colours.validate({"value": ["red"]})
        ['red']
    """

    schema: OutputSchema

    def __init__(self, type_: "TypeForm[T_co]") -> None:
        """Make the schema of the type.

        Raises:
            ConfigurationError: no schema can express the type.
        """
        _refuse_other_than_type(type_)
        name = getattr(type_, "__name__", "") if isinstance(type_, type) else ""
        schema, self._decode = (
            _by_msgspec(type_) if serde.has_struct(type_) else _by_pydantic(type_)
        )
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
        """The tool with which a model answers if its provider has no JSON mode."""
        return ToolDefinition(
            ANSWER_TOOL,
            "Gives the final answer. Call it once, with the whole answer.",
            dict(self.schema.schema),
        )

    def validate(self, value: object) -> T_co:
        """Turn an object that fits `schema` into a value of the type.

        A null counts as left out if the field is optional and can't be null.

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

    def read(self, reply: Message) -> T_co:
        """Turn a reply into a value of the type: its one call of `tool`, else its text.

        The text is one JSON object, alone or with words around it, bare or in a fence.

        Raises:
            ModelContentFilterError: the model, or a filter of its provider, refused to answer.
            ModelOutputError: the reply was cut off, or its object is missing or does not fit;
                `partial` is the reply.
        """
        try:
            return self.validate(_answer_in(reply))
        except ModelOutputError as error:
            raise self._describe_misfit(reply, error) from None

    def _describe_misfit(self, reply: Message, error: ModelOutputError) -> ModelOutputError:
        described = ModelOutputError(
            f"the reply does not fit {self.schema.name}: {error.message}",
            errors=error.errors,
            provider=reply.provider,
            hint=_hint(reply),
        )
        described.partial = reply
        return described

    def _validate(self, value: object) -> T_co:
        if self._is_wrapped:
            if not isinstance(value, dict) or value.keys() != {_VALUE}:
                raise _misfit([f"expected an object with the one field {_VALUE!r}"])
            value = value[_VALUE]
        try:
            return self._decode(serde.dumps(value), _VALUE if self._is_wrapped else "")
        except InvalidJSONError as error:
            raise _misfit([error.message]) from None


def _answer_in(reply: Message) -> object:
    """Return the object that is the answer in a reply."""
    if reply.stop_reason in REFUSALS:
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
        fenced = _fenced_blocks(text)
        found = fenced[0] if len(fenced) == 1 else text[text.find("{") : text.rfind("}") + 1]
        if "{" not in found or found == text:
            raise _misfit([error.message]) from None
    try:
        return serde.loads_object(found)
    except InvalidJSONError as error:
        raise _misfit([error.message]) from None


def _fenced_blocks(text: str) -> list[str]:
    """Return the blocks between fences of three backticks, in linear time."""
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
    reason = clip(" ".join(reply.text.split()), _MAX_ERROR)
    error = ModelContentFilterError(
        f"{who} refused to answer" + (f": {reason}" if reason else ""),
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


def _by_msgspec(kind: "TypeForm[T]") -> tuple[dict[str, object], Callable[[bytes, str], T]]:
    try:
        schema = serde.make_schema(kind)
        for part in (schema, *as_dict(schema.get("$defs")).values()):
            _shorten_description(part)
        decoder = serde.make_decoder(kind)
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
    """Leave out the parts of a docstring for programmers: exceptions and examples."""
    if isinstance(schema, dict) and isinstance(text := schema.get("description"), str):
        schema["description"] = re.split(r"\n\s*\n(?=(?:Raises|Examples?):)", cleandoc(text))[0]


def _by_pydantic(kind: "TypeForm[T]") -> tuple[dict[str, object], Callable[[bytes, str], T]]:
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticUserError
    from pydantic.json_schema import GenerateJsonSchema
    from pydantic_core import SchemaError

    from greenroom.tools._internal import portable

    class Untitled(GenerateJsonSchema):
        # The type keeps a default that is not JSON; only the schema leaves it out.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

        def field_title_should_be_set(self, schema: object) -> bool:
            return False

    try:
        adapter = TypeAdapter(cast("TypeForm[T]", portable(kind)))
        schema = adapter.json_schema(schema_generator=Untitled)
    except (PydanticUserError, NameError, TypeError) as error:
        raise _unfit_error(kind, error) from error
    except (SchemaError, AttributeError, KeyError) as error:  # mostly a value, not a type
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


def _refuse_other_than_type(kind: object) -> None:
    """Refuse what pydantic takes for a type, and nobody means as one."""
    if kind is None:
        hint = "a text is the default: leave the type out, or pass str"
        raise ConfigurationError("None is not a type", hint=hint)
    if inspect.isroutine(kind):
        raise ConfigurationError(
            f"the function {kind.__name__} is not a type",
            hint="pass the type of its argument, and call it with the output",
        )


def _unfit_error(kind: object, error: Exception) -> ConfigurationError:
    if isinstance(kind, str):
        return ConfigurationError(f"{kind!r} is the name of a type", hint="pass the type itself")
    if isinstance(kind, list | tuple):
        hint = "write A | B for a value of one of these types, or list[A] for a list"
        return ConfigurationError(f"{kind!r} is not a type", hint=hint)
    if isinstance(kind, dict):
        hint = "write a dataclass or a TypedDict with these fields"
        return ConfigurationError("a dict is not a type, nor is a JSON Schema", hint=hint)
    if is_dataclass(kind) and not isinstance(kind, type):
        hint = f"pass {type(kind).__name__}, the type itself"
        return ConfigurationError(f"{clip(repr(kind), 100)} is a value, not a type", hint=hint)
    reason = str(error).partition("\n")[0]
    return ConfigurationError(
        f"no schema can express the type {getattr(kind, '__name__', kind)}: {reason}",
        hint="use a pydantic model, a dataclass, a TypedDict, a msgspec struct, or plain types",
    )


def _root(schema: dict[str, object]) -> dict[str, object]:
    """Resolve a schema that is only a reference; the definition stays if others refer to it."""
    reference, definitions = schema.get("$ref"), as_dict(schema.get("$defs"))
    if not isinstance(reference, str):
        return schema
    name = reference.removeprefix("#/$defs/")
    root = as_dict(definitions.get(name))
    if reference not in references([root, *definitions.values()]):
        definitions = {other: part for other, part in definitions.items() if other != name}
    return {**root, "$defs": definitions} if definitions else root


def _wrap(schema: Mapping[str, object]) -> dict[str, object]:
    inner = {key: part for key, part in schema.items() if key != "$defs"}
    made = {"type": "object", "properties": {_VALUE: inner}, "required": [_VALUE]}
    whole: dict[str, object] = {**made, "additionalProperties": False}
    return whole | ({"$defs": schema["$defs"]} if "$defs" in schema else {})
