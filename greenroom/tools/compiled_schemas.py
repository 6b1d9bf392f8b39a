"""Compiles the schemas of tools, each once for all agents whose tools have it.

A program makes the same tools again for each of its agents. To compile a schema takes as long as
many checks, and a hundred objects, which many agents at once would have a hundred times.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeVar, cast

from greenroom.core import ToolError
from greenroom.core._internal import serde

V = TypeVar("V")

_MOST = 256  # schemas that are kept: those used last
_LONGEST = 10_000  # bytes of such a schema as JSON


def compile_schema(
    kind: Callable[[str, Mapping[str, object]], V], name: str, schema: Mapping[str, object]
) -> V:
    """Return the validator of this kind for a schema of the tool of this name.

    It is of a copy of the schema, as it is now: later changes of that do not reach it.

    Raises:
        ToolError: the schema is not JSON, or can't be used.
    """
    try:
        text = serde.dumps(dict(schema))
    except serde.InvalidJSONError as error:
        raise ToolError(f"tool {name}: its schema is not JSON: {error}") from error
    return _compile(kind, name, text) if len(text) <= _LONGEST else _make(kind, name, text)


def _make(kind: Callable[[str, Mapping[str, object]], V], name: str, text: bytes) -> V:
    return kind(name, cast("dict[str, object]", serde.loads(text)))


_compile = lru_cache(_MOST)(_make)
