"""The schema of a tool, made from a function's signature and docstring, and its typed arguments."""

import functools
import inspect
import operator
import re
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass
from typing import (
    TYPE_CHECKING,
    Annotated,
    NotRequired,
    ParamSpec,
    Required,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

import msgspec

from greenroom.core import AgentContext, ToolError
from greenroom.core._internal import Wire, serde, strip_partials
from greenroom.tools.struct_schema import add_structs, convert_by_msgspec, make_result_schema

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic.fields import FieldInfo
    from typing_extensions import TypeForm


_SECTION = re.compile(
    r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|Warnings?"
    r"|See Also|References|Todo):\s*"
)
_PARAMETERS = ("Args", "Arguments", "Parameters")
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(\([^)]*\))?:\s*(?P<text>.*)")


class Docstring(msgspec.Struct, frozen=True):
    """The parts of a docstring that a schema needs.

    Attributes:
        description: the text before the first section.
        parameters: the description of each parameter that the `Args:` section names.
    """

    description: str
    parameters: dict[str, str] = msgspec.field(default_factory=dict)


def parse_docstring(text: str) -> Docstring:
    r"""Parse a Google-style docstring.

    Example:
        >>> parse_docstring("Add.\n\nArgs:\n    a: the first,\n        a number.").parameters
        {'a': 'the first, a number.'}
    """
    description: list[str] = []
    entries: list[str] = []
    section = ""
    for line in inspect.cleandoc(text).splitlines():
        heading = _SECTION.fullmatch(line)
        if heading:
            section = heading[1]
        elif not section:
            description.append(line)
        elif section in _PARAMETERS:
            entries.append(line)
    return Docstring("\n".join(description).strip(), _join_entries(entries))


def _join_entries(lines: list[str]) -> dict[str, str]:
    """Join each entry with its continuation lines, which are indented further."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    entries = inspect.cleandoc("\n" + "\n".join(lines)).splitlines()
    for line in entries:
        entry = None if line.startswith((" ", "\t")) else _ENTRY.match(line)
        if entry:
            current = found.setdefault(entry["name"], [])
            current.append(entry["text"])
        else:
            current.append(line.strip())
    return {name: " ".join(filter(None, parts)) for name, parts in found.items()}


def portable(hint: object) -> object:
    """Return a type hint in which pydantic understands every `typing.TypedDict`.

    Before Python 3.12 pydantic knows only those of `typing_extensions`, so each is rebuilt as one.
    A recursive one stays as it is, and pydantic says what to do about it.
    """
    return hint if sys.version_info >= (3, 12) else _rebuild(hint, frozenset())


def _rebuild(hint: object, outer: frozenset[object]) -> object:
    if is_typeddict(hint):
        return hint if hint in outer else _typed_dict(cast("type", hint), outer | {hint})
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return Annotated[(_rebuild(arguments[0], outer), *arguments[1:])]
    rebuilt = tuple(_rebuild(argument, outer) for argument in arguments)
    if rebuilt == arguments:
        return hint
    if origin in (Union, types.UnionType):
        return functools.reduce(operator.or_, rebuilt)
    return types.GenericAlias(cast("type", origin), rebuilt)


def _typed_dict(kind: type, outer: frozenset[object]) -> object:
    from typing_extensions import TypedDict

    required_keys: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    fields: dict[str, object] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        marker = get_origin(hint)
        is_marked = marker in (Required, NotRequired)
        inner = _rebuild(get_args(hint)[0] if is_marked else hint, outer)
        is_required = marker is Required if is_marked else name in required_keys
        fields[name] = Required[inner] if is_required else NotRequired[inner]
    rebuilt = TypedDict(kind.__name__, fields)  # type: ignore[misc]  # fields known at run time
    rebuilt.__doc__ = kind.__doc__
    return rebuilt


P = ParamSpec("P")


class Arguments:
    """The parameters of one function: their schema, and the conversion of inputs to arguments.

    Attributes:
        schema: a JSON Schema of type object that allows no other property.
    """

    def __init__(
        self, function: Callable[P, object], name: str, descriptions: Mapping[str, str]
    ) -> None:
        """Read the signature.

        Raises:
            ToolError: the signature can't be read, or a parameter has no type, one that no schema
                can express, or one with an unusable `from_context`; the message says which.
        """
        self._name = name
        hints = _read_hints(find_function(function), name)
        bound = _find_bound(function)
        try:
            signature = inspect.signature(function)
        except ValueError:  # that of some functions written in C
            raise ToolError(
                f"tool {name}: its signature can't be read",
                hint="write a function with typed parameters that calls it",
            ) from None
        parameters = [each for each in signature.parameters.values() if each.name not in bound]
        makers = {p.name: _find_maker(hints.get(p.name)) for p in parameters}
        self._makers = {each: make for each, make in makers.items() if make is not None}
        fields = [p for p in parameters if p.name not in self._makers]
        for parameter in fields:
            _check_parameter(name, parameter, hints)
            if parameter.default is None:
                hints[parameter.name] = _with_none(hints[parameter.name])
        # The model's own names are f0, f1, …: a parameter may be named like a method of BaseModel.
        self._parameters = {f"f{i}": p.name for i, p in enumerate(fields)}
        self._model, self.schema = _build_model(name, fields, hints, descriptions)
        from pydantic import ValidationError  # loaded by then

        self._misfit = ValidationError

    def bind(self, input: dict[str, object], context: AgentContext) -> dict[str, object]:  # noqa: A002
        """Return the arguments of a call: the input, converted, and values made from the context.

        Raises:
            ToolError: the input does not fit; the message lists each place and its fault.
            Exception: whatever a `from_context` raises.
        """
        try:
            values = self._model.model_validate(input)
        except self._misfit as error:
            raise ToolError(
                f"{self._name}: the input does not fit: {_list_faults(error)}"
            ) from None
        given = values.model_fields_set
        arguments = {
            parameter: getattr(values, field)
            for field, parameter in self._parameters.items()
            if field in given
        }
        for name, make in self._makers.items():
            arguments[name] = make(context)
        return arguments


def read_output_schema(function: Callable[P, object]) -> dict[str, object] | None:
    """Make a schema of the type that a function returns, if it is one of objects with fields.

    Such a type is a pydantic model, a dataclass, a TypedDict or a msgspec struct.

    Returns:
        The schema, or None for another type, and for one that no schema can express.
    """
    from pydantic import BaseModel, TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        kind: object = get_type_hints(function, include_extras=True).get("return")
        inner = get_origin(kind) or kind
        is_struct = isinstance(inner, type) and issubclass(inner, msgspec.Struct)
        if is_struct and not issubclass(cast("type", inner), Wire):  # as a `ToolResult` is
            return make_result_schema(kind)
        is_class = isinstance(kind, type) and (issubclass(kind, BaseModel) or is_dataclass(kind))
        if not (is_class or is_typeddict(kind)):
            return None
        adapter = TypeAdapter(cast("TypeForm[object]", portable(kind)))
        return _without_title(adapter.json_schema(mode="serialization"))
    except (PydanticUserError, NameError, TypeError, SyntaxError, AttributeError):
        return None


def _without_title(schema: dict[str, object]) -> dict[str, object]:
    schema.pop("title", None)
    return schema


def find_function(thing: Callable[P, object]) -> Callable[P, object]:
    """Return the function that is called in the end: by a partial, or by an object's `__call__`."""
    called = strip_partials(thing)
    if not (inspect.isroutine(called) or isinstance(called, type)):
        called = getattr(called, "__call__", called)  # noqa: B004
    return cast("Callable[P, object]", called)


def _find_bound(thing: object) -> set[str]:
    """Return the names of the arguments that partials give by name."""
    found: set[str] = set()
    while isinstance(thing, functools.partial):
        found.update(thing.keywords)
        thing = thing.func
    return found


def _read_hints(function: Callable[P, object], name: str) -> dict[str, object]:
    try:
        hints = get_type_hints(function, include_extras=True)
        return {parameter: portable(hint) for parameter, hint in hints.items()}
    except NameError as error:
        raise ToolError(
            f"tool {name}: the type {error.name!r} is not known at run time",
            hint="import it outside of `if TYPE_CHECKING:`, and define it at the top of a module",
        ) from None
    except (TypeError, SyntaxError, AttributeError) as error:
        raise ToolError(f"tool {name}: its type hints can't be read: {error}") from None


def _with_none(hint: object) -> object:
    """Return a type that takes None as well: the default says so, if the type does not."""
    inner, *notes = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if not notes or any(isinstance(note, msgspec.Meta) for note in notes):  # these fit no union
        return Union[hint, None]  # noqa: UP007  (not every hint knows `|`)
    # The notes stay outside, so that a description is still that of the parameter.
    return Annotated[(_with_none(inner), *notes)]


def _find_maker(hint: object) -> Callable[[AgentContext], object] | None:
    """Return the function that makes a value of this type from the context of a call, if any.

    AgentContext has one, a class with `from_context`, and an Optional or Annotated of these. Values
    of all other types come from the model.

    Raises:
        ToolError: its `from_context` can't be called with the context alone, or is async.
    """
    origin = get_origin(hint)
    if origin is Annotated:
        return _find_maker(get_args(hint)[0])
    if origin in (Union, types.UnionType):
        return next(filter(None, map(_find_maker, get_args(hint))), None)
    if hint is AgentContext:
        return _return_context
    kind = origin or hint
    if not isinstance(kind, type) or not hasattr(kind, "from_context"):
        return None
    make = cast("Callable[[AgentContext], object]", kind.from_context)
    is_of_class = not inspect.isfunction(inspect.getattr_static(kind, "from_context"))
    if not callable(make) or not is_of_class or inspect.iscoroutinefunction(make):
        raise ToolError(
            f"{kind.__name__}.from_context can't be called with a context",
            hint="write it as a class method that is not async: def from_context(cls, context)",
        )
    return make


def _return_context(context: AgentContext) -> AgentContext:
    return context


def _check_parameter(name: str, parameter: inspect.Parameter, hints: Mapping[str, object]) -> None:
    place = f"tool {name}: the parameter {parameter.name!r}"
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
        raise ToolError(
            f"{place} takes any number of arguments, which no schema can name",
            hint="name each parameter, or take one list",
        )
    if parameter.kind is parameter.POSITIONAL_ONLY:
        raise ToolError(f"{place} has no name for callers", hint="remove the '/'")
    if parameter.name not in hints:
        raise ToolError(f"{place} has no type", hint=_how_to_type(name, parameter.name))


def _how_to_type(tool: str, parameter: str) -> str:
    if parameter == "self":
        return "a method is a tool once it has its object: write tool(thing.method)"
    if tool == "<lambda>":
        return "a lambda is not a tool: write a function with def, a name and types"
    return f"write `{parameter}: str`, or its type"


def _build_model(
    name: str,
    parameters: list[inspect.Parameter],
    hints: Mapping[str, object],
    descriptions: Mapping[str, str],
) -> tuple["type[BaseModel]", dict[str, object]]:
    """Make the pydantic model and its schema, or say which parameter prevents it."""
    from pydantic.errors import PydanticUserError

    structs = {p.name: hints[p.name] for p in parameters if serde.has_struct(hints[p.name])}
    kinds = {p.name: _without_texts(hints[p.name]) for p in parameters}
    for each, hint in structs.items():
        kinds[each] = convert_by_msgspec(hint, f"tool {name}: the parameter {each!r}")
    fields = {
        f"f{i}": (kinds[p.name], _make_field(p, hints[p.name], descriptions))
        for i, p in enumerate(parameters)
    }
    try:
        model = _make_model(fields)
        schema = _json_schema(model)
        add_structs(schema, structs)
    except PydanticUserError as error:
        for parameter, definition in zip(parameters, fields.values(), strict=True):
            _check_type(name, parameter, definition)
        raise ToolError(f"tool {name}: no schema can be made: {_first_line(error)}") from error
    return model, schema


def _make_model(fields: Mapping[str, tuple[object, "FieldInfo"]]) -> "type[BaseModel]":
    from pydantic import ConfigDict, create_model

    model: type[BaseModel] = create_model(  # type: ignore[call-overload]  # fields known at run time
        "Arguments", __config__=ConfigDict(extra="forbid"), **fields
    )
    return model


def _check_type(
    name: str, parameter: inspect.Parameter, definition: tuple[object, "FieldInfo"]
) -> None:
    from pydantic.errors import PydanticUserError

    try:
        _json_schema(_make_model({"f0": definition}))
    except PydanticUserError as error:
        raise ToolError(
            f"tool {name}: no schema can express the type of the parameter {parameter.name!r}: "
            f"{_first_line(error)}",
            hint="use plain types, Literal, Enum, a dataclass, a TypedDict, a pydantic model or a "
            "msgspec struct",
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _without_texts(hint: object) -> object:
    """Drop the texts of `Annotated[int, "how many"]`; `_make_field` makes descriptions of them."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *extras = get_args(hint)
    kept = tuple(extra for extra in extras if not isinstance(extra, str))
    return Annotated[(kind, *kept)] if kept else kind


def _make_field(
    parameter: inspect.Parameter, hint: object, descriptions: Mapping[str, str]
) -> "FieldInfo":
    from pydantic import Field
    from pydantic.fields import FieldInfo

    extras = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    has_own = any(isinstance(extra, FieldInfo) and extra.description for extra in extras)
    text = next((extra for extra in extras if isinstance(extra, str)), None)
    description = text or descriptions.get(parameter.name)
    default = ... if parameter.default is parameter.empty else parameter.default
    if has_own or not description:
        return _as_field(Field(default, alias=parameter.name))
    return _as_field(Field(default, alias=parameter.name, description=description))


def _as_field(field: object) -> "FieldInfo":
    """Give the value of `Field` its true type; pydantic declares the type of the field."""
    from pydantic.fields import FieldInfo

    assert isinstance(field, FieldInfo)
    return field


def _json_schema(model: "type[BaseModel]") -> dict[str, object]:
    from pydantic.json_schema import GenerateJsonSchema

    class Plain(GenerateJsonSchema):
        # A default that is not JSON stays out of the schema; the function still has it.
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}

        def field_title_should_be_set(self, schema: object) -> bool:
            return False

    schema: dict[str, object] = model.model_json_schema(schema_generator=Plain)
    schema.pop("title", None)
    return schema


def _list_faults(error: "ValidationError") -> str:
    """List the faults that pydantic found, without its links and the values."""
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, fault['loc'])) or 'input'}: {fault['msg']}" for fault in faults[:5]
    )
