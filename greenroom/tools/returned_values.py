"""Makes results of what tools return: texts, values of JSON, and results of another type."""

from collections.abc import Mapping

from greenroom.core import TextBlock, ToolError, ToolResult, ToolStatus
from greenroom.core._internal import valid_unicode


def to_result(name: str, value: object) -> ToolResult:
    """Make a result of the value that the tool of this name returned.

    A text is the result's text, None is "done", and anything else becomes JSON.

    Raises:
        ToolError: JSON can't express it.

    Example:
        >>> to_result("add", 3).text, to_result("add", None).text
        ('3', 'done')
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult.ok("done")
    if isinstance(value, str):
        return ToolResult.ok(value)
    return ToolResult.ok(_to_json(name, value))


def _to_json(name: str, value: object) -> str:
    """Write a value as JSON: also dataclasses, models, dates and the like."""
    import pydantic_core

    try:
        return pydantic_core.to_json(value).decode()
    except ValueError as error:
        raise ToolError(
            f"{name} returned {type(value).__name__}, which can't be written as JSON: {error}"
        ) from error


def read_result(name: str, value: object) -> ToolResult:
    """Do as `to_result`, but take what is like a result for one, so a failure stays one.

    It is an object with a text `content` and a `status` or an `is_error`.

    Raises:
        ToolError: JSON can't express it.
    """
    content: object = getattr(value, "content", None)
    is_result = hasattr(value, "status") or hasattr(value, "is_error")
    if isinstance(value, ToolResult) or not isinstance(content, str) or not is_result:
        return to_result(name, value)
    metadata: object = getattr(value, "metadata", None)
    message: object = getattr(value, "error_message", "")
    return ToolResult(
        (TextBlock(valid_unicode(content)),),
        _read_status(value),
        dict(metadata) if isinstance(metadata, Mapping) else {},
        message if isinstance(message, str) else "",
    )


def _read_status(value: object) -> ToolStatus:
    word: object = getattr(value, "status", ToolStatus.SUCCESS)
    try:
        status = ToolStatus(str(getattr(word, "value", word)).lower())
    except ValueError:
        return ToolStatus.ERROR  # when in doubt, it failed
    failed = status is ToolStatus.SUCCESS and getattr(value, "is_error", False)
    return ToolStatus.ERROR if failed else status
