"""Validates the input of a call against its tool's schema, and explains each fault to the model."""

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

import trio

from greenroom.core._internal import freeze
from greenroom.schemas.bounded_check import BoundedValidator, TooMuchWorkError
from greenroom.schemas.faults import explain
from greenroom.schemas.quoted_json import unquote
from greenroom.threads._internal import is_large

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

T = TypeVar("T")

MAX_STEPS = 100_000
"""Keywords that one check of an input tries, each for each value: about half a second."""

INLINE_STEPS = 1_000
"""The same, of a check in the event loop."""

_MISFIT = "was not run: its input does not fit."
_MAX_FAULTS = 5
_MAX_ERRORS = 100
_MAX_ROUNDS = 3  # of values in strings in values in strings


class InputValidator:
    """A compiled JSON Schema (2020-12) of one tool's input.

    Patterns are matched in bounded time. One that can't be, because it is not a regular expression
    for us or takes too long, is left unchecked, with one warning in the log for each schema.

    Attributes:
        schema: the schema, with the words of older drafts and of OpenAPI rewritten.

    Example:
        >>> validator = InputValidator("Add", {"type": "object", "required": ["a"]})
        >>> print(validator.fault({}))
        Add was not run: its input does not fit.
        - the parameter 'a' is missing
    """

    def __init__(self, name: str, schema: Mapping[str, object]) -> None:
        """Check and compile the schema of the tool of this name.

        Raises:
            ToolError: it is not a valid schema, not of type object, nested too deeply, or points to
                a schema that is not part of it; the message says where.
        """
        self._name = name
        self._validator = BoundedValidator(name, schema)
        self.schema = self._validator.schema
        self._fitting: object = None  # the frozen input that was last found to fit

    def fault(self, input: object) -> str | None:  # noqa: A002
        """Return the faults of an input, at most five, in words for the model; None if it fits."""
        return self.examine(input)[1]

    def examine(self, input: T) -> tuple[T, str | None]:  # noqa: A002
        """Return the input, with values that were sent as JSON in strings parsed, and its faults.

        A list or an object in a string is parsed wherever the schema allows no string there; a
        number or a boolean only if the schema allows just that type.

        Example:
            >>> names = {"type": "array", "items": {"type": "string"}}
            >>> validator = InputValidator("Find", {"properties": {"names": names}})
            >>> validator.examine({"names": '["a", "b"]'})
            ({'names': ['a', 'b']}, None)
        """
        try:
            return self._examine(input, MAX_STEPS)
        except TooMuchWorkError:
            return input, self._describe(["- it takes too much work to check: send less at once"])

    async def check(self, input: T) -> tuple[T, str | None]:  # noqa: A002
        """Do as `examine`, in a thread if it may take long, so other tasks go on.

        A frozen input is examined once where two checks follow each other, as those of a call do:
        before it is judged, and before it runs.
        """
        known, self._fitting = self._fitting, None
        if known is not None and known is input:
            return input, None
        value, fault = await self._check(input)
        if fault is None and freeze(value) is value:
            self._fitting = value
        return value, fault

    async def _check(self, input: T) -> tuple[T, str | None]:  # noqa: A002
        if not self._validator.has_patterns and not is_large(input):
            with suppress(TooMuchWorkError):
                return self._examine(input, INLINE_STEPS)
        return await trio.to_thread.run_sync(self.examine, input, abandon_on_cancel=True)

    def _examine(self, input: T, steps: int) -> tuple[T, str | None]:  # noqa: A002
        value: T = input
        try:
            errors = self._find_errors(value, steps)
            for _ in range(_MAX_ROUNDS):
                parsed = cast("T", unquote(value, errors)) if errors else value
                if parsed is value:
                    break
                value, errors = parsed, self._find_errors(parsed, steps)
            return value, self._describe(list_lines(errors)) if errors else None
        except RecursionError:
            line = "- the input, or the schema that it has to fit, is nested too deeply"
            return input, self._describe([line])

    def _find_errors(self, value: object, steps: int) -> list["ValidationError"]:
        return self._validator.errors(value, steps=steps, limit=_MAX_ERRORS)

    def _describe(self, lines: list[str]) -> str:
        return "\n".join([f"{self._name} {_MISFIT}", *lines])


def list_lines(errors: list["ValidationError"]) -> list[str]:
    """Write errors as at most six lines, in the order of their places."""
    errors = sorted(errors, key=lambda error: list(map(str, error.absolute_path)))
    # Several missing parameters are one fault.
    lines = list(dict.fromkeys(f"- {line}" for error in errors for line in explain(error)))
    if len(lines) > _MAX_FAULTS:
        lines[_MAX_FAULTS:] = [f"- and {len(lines) - _MAX_FAULTS} more"]
    return lines


def is_misfit(text: str) -> bool:
    """Whether a result says that a call was not run because its input did not fit.

    Example:
        >>> is_misfit(InputValidator("Add", {"required": ["a"]}).fault({}))
        True
    """
    return text.partition("\n")[0].endswith(_MISFIT)


def read_integer(data: Mapping[str, object], name: str, default: int) -> int:
    """Return the integer of this name; in JSON Schema, 3.0 is one as well.

    Example:
        >>> read_integer({"limit": 3.0}, "limit", 10), read_integer({}, "limit", 10)
        (3, 10)
    """
    value = data.get(name, default)
    return int(value) if isinstance(value, int | float) else default
