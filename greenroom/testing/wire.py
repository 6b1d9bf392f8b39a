"""Requests as they are on the wire, read back into our words: for tests on recorded traffic."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from greenroom.core import ModelRequest
from greenroom.llm import (
    read_anthropic_request,
    read_chat_request,
    same_request as same_request,  # noqa: PLC0414
)

WireAPI: TypeAlias = Literal["anthropic-messages", "openai-chat"]
"""Whose words a request is in."""


def request_from_wire(body: Mapping[str, object], api: WireAPI) -> ModelRequest:
    """Read the body of a recorded request; a provider of this API writes the same body of it.

    What has no typed place stands in the `extra` of messages, blocks and tools, and in `options`, where
    `msgspec.UNSET` leaves out what the provider would add. `same_request` compares two bodies.

    Args:
        body: the JSON object that was sent.
        api: "anthropic-messages" or "openai-chat".

    Raises:
        ValueError: there is no such API.

    Example:
        >>> body = {"model": "m", "messages": [{"role": "user", "content": "hi", "name": "Ann"}]}
        >>> [message] = request_from_wire(body, "openai-chat").messages
        >>> message.text, message.extra
        ('hi', {'name': 'Ann'})
    """
    match api:
        case "anthropic-messages":
            return read_anthropic_request(body)
        case "openai-chat":
            return read_chat_request(body)
        case _:
            raise ValueError(f"no such API: {api!r}")
