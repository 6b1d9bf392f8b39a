"""Checks what a tool returned against the schema that it states for its results."""

from collections.abc import Mapping
from contextlib import suppress

import trio
from msgspec.structs import replace

from greenroom.core import ToolResult
from greenroom.core._internal import serde
from greenroom.schemas._internal import (
    INLINE_STEPS,
    MAX_STEPS,
    BoundedValidator,
    TooMuchWorkError,
    list_lines,
)
from greenroom.threads._internal import is_large

STRUCTURED = "structured"
"""The key of a result's metadata that holds its content as a value."""

_LONGEST = 1_000_000  # characters of a result that are read as JSON
_MAX_ERRORS = 100


class OutputValidator:
    """A compiled JSON Schema of one tool's results.

    Attributes:
        schema: the schema, in the words of 2020-12.

    Example:
        >>> validator = OutputValidator("add", {"properties": {"sum": {"type": "integer"}}})
        >>> validator.read(ToolResult.ok('{"sum": 3}')).metadata
        {'structured': {'sum': 3}}
        >>> print(validator.read(ToolResult.ok('{"sum": "3"}')).text)
        add has run, but its result does not fit what the tool promises.
        - sum: expected integer, got string '3'
    """

    def __init__(self, name: str, schema: Mapping[str, object]) -> None:
        """Check and compile the schema of the results of the tool of this name.

        Raises:
            ToolError: it is unusable; see `InputValidator`.
        """
        self._name = name
        self._validator = BoundedValidator(name, schema, what="output schema")
        self.schema = self._validator.schema

    async def check(self, result: ToolResult) -> ToolResult:
        """Do as `read`, in a thread if it may take long, so other tasks go on."""
        if not self._validator.has_patterns and not is_large(result):
            with suppress(TooMuchWorkError):
                return self._read(result, INLINE_STEPS)
        return await trio.to_thread.run_sync(self.read, result, abandon_on_cancel=True)

    def read(self, result: ToolResult) -> ToolResult:
        """Return a result that fits with its value in its metadata, and an error for another one.

        The value is the metadata's own `structured`, if the tool has set it, else the text, read as
        JSON. A failed result is returned as it is, and so is a text of more than a million
        characters, or one that takes too much work to check.
        """
        try:
            return self._read(result, MAX_STEPS)
        except TooMuchWorkError:
            return result

    def _read(self, result: ToolResult, steps: int) -> ToolResult:
        if result.is_error:
            return result
        if STRUCTURED not in result.metadata and len(result.text) > _LONGEST:
            return result
        value = result.metadata.get(STRUCTURED)
        try:
            value = serde.loads(result.text) if value is None else value
            errors = self._validator.errors(value, steps=steps, limit=_MAX_ERRORS)
            lines = list_lines(errors)
        except serde.InvalidJSONError as error:
            lines = [f"- it is not JSON: {error.message}"]
        except RecursionError:
            lines = ["- it is nested too deeply"]
        if not lines:
            return replace(result, metadata={**result.metadata, STRUCTURED: value})
        first = f"{self._name} has run, but its result does not fit what the tool promises."
        told = ToolResult.error("\n".join([first, *lines]))
        return replace(told, metadata=result.metadata)
