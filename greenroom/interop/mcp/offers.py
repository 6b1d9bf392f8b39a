"""What servers offer besides tools: prompts for a person to choose, and resources to read."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import mcp_types as types
import trio
from mcp.client import Client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from greenroom.core import Message
from greenroom.core._internal import ResultContent, clip, describe_error, visible
from greenroom.interop.mcp.result import read_blocks, read_resource
from greenroom.interop.mcp.server import MCPServer, MCPServerError

T = TypeVar("T")

_MAX_LISTED = 1_000  # prompts, or resources, of one server
_MAX_PAGES = 100
_MAX_TEXT = 1_000  # characters of a description


@dataclass(frozen=True)
class MCPPrompt:
    """A prompt that a server offers.

    Attributes:
        server: the name of the server.
        name: its name there.
        description: what it is for, in the server's words.
        arguments: the names of its arguments.
        required: those that have to be given.
    """

    server: str
    name: str
    description: str
    arguments: tuple[str, ...]
    required: tuple[str, ...]


@dataclass(frozen=True)
class MCPResource:
    """A resource that a server offers.

    Attributes:
        server: the name of the server.
        uri: where it is, for the server.
        name: what the server calls it.
        description: what it is, in the server's words.
    """

    server: str
    uri: str
    name: str
    description: str


async def list_prompts(client: Client, server: MCPServer) -> tuple[MCPPrompt, ...]:
    """List the prompts of a server; none if it has none."""
    found = list[MCPPrompt]()
    if client.server_capabilities.prompts is None:
        return ()
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_prompts(cursor=cursor)
        for each in page.prompts:
            arguments = each.arguments or []
            found.append(
                MCPPrompt(
                    server.name,
                    each.name,
                    _describe(each.description),
                    tuple(argument.name for argument in arguments),
                    tuple(argument.name for argument in arguments if argument.required),
                )
            )
        cursor = page.next_cursor
        if not cursor or len(found) >= _MAX_LISTED:
            break
    return tuple(found[:_MAX_LISTED])


async def list_resources(client: Client, server: MCPServer) -> tuple[MCPResource, ...]:
    """List the resources of a server; none if it has none."""
    found = list[MCPResource]()
    if client.server_capabilities.resources is None:
        return ()
    cursor = None
    for _ in range(_MAX_PAGES):
        page = await client.list_resources(cursor=cursor)
        found += [
            MCPResource(server.name, str(each.uri), each.name, _describe(each.description))
            for each in page.resources
        ]
        cursor = page.next_cursor
        if not cursor or len(found) >= _MAX_LISTED:
            break
    return tuple(found[:_MAX_LISTED])


async def get_prompt(
    client: Client, name: str, arguments: Mapping[str, str]
) -> tuple[Message, ...]:
    """Return the messages of a prompt."""
    result = await client.get_prompt(name, dict(arguments))
    return tuple(_read_message(each) for each in result.messages)


def _read_message(message: types.PromptMessage) -> Message:
    blocks = tuple(read_blocks([message.content]))
    return Message.assistant(blocks) if message.role == "assistant" else Message.user(blocks)


async def fetch_resource(client: Client, uri: str) -> tuple[ResultContent, ...]:
    """Return the contents of a resource."""
    result = await client.read_resource(uri)
    return tuple(map(read_resource, result.contents))


async def ask_server(
    client: Client, server: MCPServer, request: Callable[[Client], Awaitable[T]]
) -> T:
    """Make a request that is no call of a tool.

    Raises:
        MCPServerError: the server refuses, takes too long, or has ended.
    """
    try:
        with trio.fail_after(server.call_timeout):
            return await request(client)
    except MCPError as error:
        text = visible(clip(error.error.message, _MAX_TEXT))
        raise MCPServerError(server.name, f"reports an error: {text}") from error
    except (ValidationError, trio.TooSlowError) as error:
        raise MCPServerError(server.name, f"gave no answer: {describe_error(error)}") from error


def _describe(text: str | None) -> str:
    return visible(clip(text or "", _MAX_TEXT))
