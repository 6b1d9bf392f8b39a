"""JSON in and out, in one place: msgspec for our own structs, orjson for plain values."""

import threading
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast, get_args, get_origin

import msgspec
import orjson

from greenroom.core.errors import (
    ConfigurationFileError,
    InvalidJSONError as InvalidJSONError,  # noqa: PLC0414 (callers catch serde.InvalidJSONError)
)
from greenroom.core.frozen import valid_unicode
from greenroom.core.late_pattern import compile_later

if TYPE_CHECKING:
    from json import JSONDecoder

    from typing_extensions import TypeForm

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
"""A plain JSON value."""

MAX_DEPTH = 600
"""The levels of lists and objects that a stored value may have.

A decoder takes some 980, less the depth of the stack that calls it, so one program might fail to
read what another has written. This leaves room for a stack of some 350.
"""

_SEQUENCES = (list, tuple)
_MAX_BITS = 13_000  # of an integer; Python turns no more than 4,300 digits into a text, or back

T = TypeVar("T")


def encode(value: object) -> bytes:
    """Encode one of our structs, or a plain value holding some, as compact JSON.

    Lone surrogates, which UTF-8 can't carry, become U+FFFD.

    Raises:
        InvalidJSONError: the value holds something that JSON can't express.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_mend(msgspec.to_builtins(value)))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise InvalidJSONError(f"this value can't be written as JSON: {error}") from error


def decode(data: bytes | str, kind: type[T]) -> T:
    """Decode JSON into the type `kind`, checking every field.

    Raises:
        InvalidJSONError: the text is not JSON, or does not fit the type; it says where.
    """
    try:
        return _decoder(kind).decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise InvalidJSONError(f"not a {getattr(kind, '__name__', kind)}: {error}") from error


def convert(value: object, kind: "TypeForm[T]", *, from_attributes: bool = False) -> T:
    """Convert plain values into the type `kind`, checking every field.

    Args:
        value: what JSON has: lists, dicts, texts, numbers; times as texts or as they are.
        kind: a type of the code: what is known of it is kept.
        from_attributes: whether an object with the fields as attributes will do, too.

    Raises:
        msgspec.ValidationError: it does not fit; it says where.
    """
    _decoder(kind)
    kind = cast("type[T]", kind)
    return msgspec.convert(value, kind, from_attributes=from_attributes)


# msgspec stores what it knows of a class in that class before it is complete, then looks at the
# fields, whose annotations are Python code that lets other threads run. A thread that used the
# class meanwhile would crash the process. So types are built under this lock, and used without
# it. An annotation may itself build a type, so its thread may take the lock again.
_building = threading.RLock()

_decoders: dict[object, msgspec.json.Decoder[object]] = {}


def _decoder(kind: "TypeForm[T]") -> msgspec.json.Decoder[T]:
    """Keep one decoder for each type; there are as many as the code has types, no more."""
    if kind not in _decoders:
        _decoders[kind] = cast("msgspec.json.Decoder[object]", make_decoder(kind))
    return cast("msgspec.json.Decoder[T]", _decoders[kind])


def make_decoder(kind: "TypeForm[T]", *, strict: bool = True) -> msgspec.json.Decoder[T]:
    """Make a decoder for a type; unlike those of `decode`, it is not kept here.

    One that is not strict also takes 3.0 for a whole number, and texts for numbers.

    Raises:
        TypeError: JSON can't express the type.
        NameError: an annotation names something that does not exist.
    """
    with _building:
        return msgspec.json.Decoder(cast("type[T]", kind), strict=strict)


def has_struct(hint: object) -> bool:
    """Whether a type is a struct, or has one or a `Meta` as a part, as in `list[Order] | None`."""
    kind = get_origin(hint) or hint
    if isinstance(hint, msgspec.Meta) or (
        isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    ):
        return True
    return any(map(has_struct, get_args(hint)))


def make_schema(kind: object) -> dict[str, object]:
    """Make the JSON Schema of a type; a field that is an `object` may hold any value.

    Raises:
        TypeError: JSON can't express the type.
        NameError: an annotation names something that does not exist.
    """
    with _building:
        return msgspec.json.schema(kind, schema_hook=_make_object_schema)


def _make_object_schema(kind: object) -> dict[str, object]:
    if kind is object:
        return {"description": "any JSON value"}
    raise TypeError(f"{kind!r} has no JSON Schema")


def make_components(
    kinds: Sequence[object], template: str, hook: Callable[[object], dict[str, object]]
) -> dict[str, dict[str, object]]:
    """Make the JSON Schemas of types and of all that they name, by their names.

    Args:
        kinds: the types.
        template: how one refers to another, with {name}.
        hook: as for `make_schema`.

    Raises:
        TypeError: JSON can't express a type.
        NameError: an annotation names something that does not exist.
    """
    with _building:
        return msgspec.json.schema_components(kinds, schema_hook=hook, ref_template=template)[1]


def dumps(value: object, *, pretty: bool = False) -> bytes:
    """Encode a plain value as JSON, compact or indented by two blanks with sorted keys.

    Raises:
        InvalidJSONError: the value holds something that JSON can't express.
    """
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS if pretty else 0
    try:
        return orjson.dumps(value, option=options)
    except TypeError as error:
        try:
            mended = _mend(value)
            if mended != value:
                return orjson.dumps(mended, option=options)
        except (TypeError, RecursionError):
            pass  # lone surrogates are not what is wrong with it
        raise InvalidJSONError(f"this value can't be written as JSON: {error}") from error


def to_text(value: object) -> str:
    """Return a string unchanged, and any other plain value as JSON.

    Raises:
        InvalidJSONError: the value holds something that JSON can't express.

    Example:
        >>> to_text("two"), to_text([1, "two"])
        ('two', '[1,"two"]')
    """
    return value if isinstance(value, str) else dumps(value).decode()


def loads(data: bytes | str) -> JSON:
    """Decode JSON into plain values.

    Raises:
        InvalidJSONError: the text is not JSON.
    """
    try:
        value: JSON = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise InvalidJSONError(f"not JSON: {error}") from error
    return value


def loads_utf16(data: str) -> JSON:
    r"""Decode JSON into plain values; half of a surrogate pair stays half a character.

    Raises:
        InvalidJSONError: the text is not JSON, or nested too deeply.

    Example:
        >>> loads_utf16(r'"a\ud83d"') + loads_utf16(r'"\ude00"')
        'a\ud83d\ude00'
    """
    import json  # the only decoder of the two that takes them

    try:
        value: JSON = json.loads(data, parse_int=loads, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"not JSON: {error}") from error
    return value


def loads_object(data: str, depth: int = MAX_DEPTH, *, strict: bool = True) -> dict[str, object]:
    """Decode one JSON object, as what a model sends to a tool must be.

    A repeated key is refused: two readers could take different values of it, so a call could run
    with another input than was judged. An empty text is an empty object, which is how providers
    send a call without arguments.

    Args:
        data: the text.
        depth: the most levels of lists and objects.
        strict: whether line breaks and other control characters in texts must be escaped.

    Raises:
        InvalidJSONError: it is not JSON or not an object, or has a repeated key, a lone surrogate,
            an unreadable number, or more levels than `depth`.

    Example:
        >>> loads_object('{"command": "ls"}')
        {'command': 'ls'}
    """
    if not data.strip():
        return {}
    try:
        value = _pairs_decoder(strict=strict).decode(data)
        data.encode()
        if "\\u" in data:  # what else could have made a lone surrogate?
            msgspec.json.encode(value)
    except (ValueError, RecursionError) as error:
        raise InvalidJSONError(f"not usable as JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidJSONError(f"expected a JSON object, got {type(value).__name__}")
    try:
        check_json(value, depth)
    except InvalidJSONError as error:
        raise InvalidJSONError(f"not usable as JSON: {error.message}") from error
    return value


def check_json(value: object, depth: int = MAX_DEPTH) -> int:
    """Check that every reader can read a value again; return the number of characters in its texts.

    Raises:
        InvalidJSONError: it has more levels than `depth`, or a number that JSON does not have.

    Example:
        >>> check_json({"a": ["text", 1.5]})
        4
    """
    level, size = [value], 0
    for _ in range(depth + 1):
        deeper: list[object] = []
        for each in level:
            if isinstance(each, str):
                size += len(each)
            elif isinstance(each, dict):
                deeper += each.values()
            elif isinstance(each, _SEQUENCES):
                deeper += each
            elif isinstance(each, float) and each - each != 0:
                raise InvalidJSONError(f"{each} is not a JSON number")
            elif isinstance(each, int) and each.bit_length() > _MAX_BITS:
                raise InvalidJSONError("an integer has more digits than can be read again")
        if not deeper:
            return size
        level = deeper
    raise InvalidJSONError(f"it is nested more than {depth} levels deep")


def plain(value: object, name: str) -> JSON:
    """Return a copy of a JSON value, which later changes to the original don't reach.

    Args:
        value: plain JSON already: nothing is converted, such as a tuple into a list.
        name: its name in the error message.

    Raises:
        InvalidJSONError: it holds something that JSON can't express, or would change.

    Example:
        >>> plain({"a": (1, 2)}, "metadata 'plan'")
        Traceback (most recent call last):
        ...
        greenroom.core.errors.InvalidJSONError: metadata 'plan' can't be stored: tuple is not a \
JSON type (use None, bool, finite numbers, strings, lists, and dicts with string keys)
    """
    return loads(dump_plain(value, name))


def dump_plain(value: object, name: str) -> bytes:
    """Encode a value that is JSON already; raises as `plain` does."""
    try:
        check_json(value)
        return dumps(_check_value(value))
    except (InvalidJSONError, TypeError, RecursionError) as error:
        raise InvalidJSONError(
            f"{name} can't be stored: {error}",
            hint="use None, bool, finite numbers, strings, lists, and dicts with string keys",
        ) from error


def _check_value(value: object) -> object:
    """Refuse values that a JSON encoder would convert, such as a tuple or a NaN."""
    if isinstance(value, dict):
        for key in value:
            if type(key) is not str:
                raise TypeError(f"the key {key!r} is not a string")
        return {key: _check_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_check_value(item) for item in value]
    if type(value) is float and value - value != 0:
        raise TypeError(f"{value} is not a JSON number")
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"{type(value).__name__} is not a JSON type")


@cache
def _pairs_decoder(*, strict: bool) -> "JSONDecoder":
    import json  # only the standard library's decoder shows every pair before they are merged

    return json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_no_constant, strict=strict)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:  # one pass: a model may send a hundred thousand keys
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice")
        found[key] = value
    return found


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _mend(value: object) -> object:
    if isinstance(value, str):
        return valid_unicode(value)
    if isinstance(value, dict):
        return {_mend(key): _mend(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_mend(item) for item in value]
    return value


class Wire(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A frozen value that travels as JSON; a `type` field tells the members of a union apart.

    JSON has no cycles, so the garbage collector skips these values: to scan a long conversation
    would hold up every agent of the process.
    """


class Reticent(msgspec.Struct, frozen=True):
    """A struct whose `repr` leaves something out: rich shows nothing of it.

    Rich, whose tracebacks may show local variables, asks a struct for its fields, and gets all.
    """

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Name no fields."""
        return []


_TOKEN = compile_later(
    r'(?P<key>"(?>(?:[^"\\]|\\.)*)")\s*+:|(?P<open>[\[{])|(?P<close>[\]}])|(?P<comma>,)'
    r'|"(?>(?:[^"\\]|\\.)*)"|[^\s,\[\]{}"]++'
)

E = TypeVar("E", bound=ConfigurationFileError)


def place_in_json(text: str, path: Sequence[str | int]) -> tuple[int, int]:
    r"""Find the line and column of the value at a path of keys and indexes, counted from 1.

    For a path that does not exist, it is the place of the last value on the way. The text must be
    valid JSON, or blank.

    Example:
        >>> place_in_json('{"rules":\n  [{"id": 1}]}', ["rules", 0, "id"])
        (2, 11)
    """
    at, depth = 0, -1
    steps: list[object] = []  # that lead to the token
    for found in _TOKEN.finditer(text):
        if found["key"]:
            steps[-1] = loads(found["key"])
        elif found["close"]:
            steps.pop()
        elif not found["comma"]:
            if len(steps) > depth and steps == list(path[: len(steps)]):
                at, depth = found.start(), len(steps)
            if found["open"]:
                steps.append(0 if found["open"] == "[" else None)
        elif isinstance(steps[-1], int):
            steps[-1] += 1
    return _place(text, at)


def _place(text: str, at: int) -> tuple[int, int]:
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)


def error_at(
    kind: type[E], text: str, path: str, steps: Sequence[str | int], message: str, hint: str = ""
) -> E:
    """Make the error about a value in a file: it names the file, line, column and field."""
    line, column = place_in_json(text, steps)
    field = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    message = f"{field.removeprefix('.')}: {message}"
    return kind(message, path=path, line=line, column=column, hint=hint)


def error_of_json(
    kind: type[E], text: str, error: InvalidJSONError, path: str, hint: str = ""
) -> E:
    """Make the error about a file that is not JSON; it names the line, if known."""
    line, column = (getattr(error.__cause__, each, None) for each in ("lineno", "colno"))
    if line is None:
        line, column = _place_of_repeated_key(text, error.message)
    return kind(error.message, path=path, line=line, column=column, hint=hint)


def _place_of_repeated_key(text: str, message: str) -> tuple[int, int] | tuple[None, None]:
    """Find the second of two equal keys of an object that a message names; the text may be cut."""
    seen: list[set[str]] = []  # for each list and object that is open
    for found in _TOKEN.finditer(text):
        key = found["key"]
        if found["open"]:
            seen.append(set())
        elif found["close"]:
            seen = seen[:-1]
        elif key and seen:
            if key in seen[-1] and repr(key[1:-1]) in message:
                return _place(text, found.start())
            seen[-1].add(key)
    return None, None
