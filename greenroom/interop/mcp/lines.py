"""Reads a line of a stream as a message of the protocol, or says why it is not one."""

import mcp_types as types
from pydantic import ValidationError

from greenroom.interop.line_reader import mend_escapes


class UnreadableError(Exception):
    """A line is not a message."""


def read_line(line: bytes) -> types.JSONRPCMessage:
    """Read a message; lone surrogates, which no text can have, become U+FFFD.

    Raises:
        UnreadableError: the line is not one; it says in words what is wrong.
    """
    try:
        return _validate(line)
    except (ValidationError, RecursionError) as error:
        mended, first = mend_escapes(line), error
    try:
        if mended != line:
            return _validate(mended)
    except (ValidationError, RecursionError) as error:
        first = error
    raise UnreadableError(_explain(first)) from first


def _validate(line: bytes) -> types.JSONRPCMessage:
    return types.jsonrpc_message_adapter.validate_json(line, by_name=False)


def _explain(error: ValidationError | RecursionError) -> str:
    found = error.errors(include_url=False) if isinstance(error, ValidationError) else []
    if len(found) == 1 and found[0]["type"] == "json_invalid":
        return found[0]["msg"]
    return "it is not a message of JSON-RPC 2.0"
