"""Prompts and resources of servers."""

import pytest

from greenroom.core import ConfigurationError
from greenroom.interop import MCPServers
from greenroom.interop._internal import MCPServerError
from tests.interop.servers import demo


async def test_prompts_are_listed_and_filled_in() -> None:
    async with MCPServers(demo()) as servers:
        (prompt,) = await servers.list_prompts()
        assert (prompt.server, prompt.name, prompt.required) == ("demo", "greet", ("who",))
        (message,) = await servers.get_prompt("demo", "greet", {"who": "Ada"})
    assert (message.role, message.text) == ("user", "Greet Ada.")


async def test_resources_are_listed_and_read() -> None:
    async with MCPServers(demo()) as servers:
        (resource,) = await servers.list_resources()
        assert (resource.server, resource.uri) == ("demo", "demo://a")
        (block,) = await servers.read_resource("demo", "demo://a")
        assert block.text == "[resource demo://a]\nthe text of a"
        with pytest.raises(MCPServerError, match="Method not found"):
            await servers.read_resource("demo", "demo://b")
        with pytest.raises(ConfigurationError, match="there are: demo"):
            await servers.read_resource("other", "demo://a")
