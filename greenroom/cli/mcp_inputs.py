"""What servers of tools add to an input: `/server:prompt WORDS`, and `@server:uri`.

What comes of it goes to the model with the line, marked as the server's words, not the person's.
"""

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from greenroom.cli.commands import Command
from greenroom.core import ContentBlock, DocumentBlock, GreenroomError, ImageBlock, TextBlock
from greenroom.core._internal import compile_later

if TYPE_CHECKING:
    from greenroom.interop import MCPServers
    from greenroom.interop._internal import MCPPrompt

_RESOURCE = compile_later(r"(?:^|(?<=\s))@([A-Za-z0-9_-]+):(\S+)")
_MAX_RESOURCES = 20
_SENT = (TextBlock, ImageBlock, DocumentBlock)


def name_prompts(prompts: Sequence["MCPPrompt"], taken: Sequence[str]) -> dict[str, "MCPPrompt"]:
    """Name prompts as commands: `server:prompt`, or `mcp:server:prompt` where that is taken.

    Names with blanks or slashes can't be typed, and are left out.
    """
    found: dict[str, MCPPrompt] = {}
    for each in prompts:
        name = f"{each.server}:{each.name}".casefold()
        name = f"mcp:{name}" if name in taken else name
        if re.fullmatch(r"[^\s/]+", name) and name.isprintable():
            found.setdefault(name, each)
    return found


def list_prompt_commands(prompts: Mapping[str, "MCPPrompt"]) -> tuple[Command, ...]:
    """Return prompts as commands of the input line, which are sent to the agent."""
    return tuple(
        Command(
            name,
            " ".join(each.description.split()) or f"a prompt of the MCP server {each.server}",
            "",
            " ".join(
                word.upper() if word in each.required else f"[{word.upper()}]"
                for word in each.arguments
            ),
            is_sent=True,
        )
        for name, each in prompts.items()
    )


async def read_server_parts(
    text: str, servers: "MCPServers", prompts: Mapping[str, "MCPPrompt"]
) -> tuple[list[ContentBlock], list[str]]:
    """Return what prompts and resources that an input names send with it, and notes."""
    blocks, notes = list[ContentBlock](), list[str]()
    first, _, words = text.strip().partition(" ")
    prompt = prompts.get(first[1:].casefold()) if first.startswith("/") else None
    try:
        if prompt is not None:
            given = _read_arguments(prompt, words)
            messages = await servers.get_prompt(prompt.server, prompt.name, given)
            blocks.append(_introduce(f"The prompt {prompt.name}", prompt.server))
            blocks += [each for message in messages for each in message.content]
    except GreenroomError as error:
        notes.append(f"not sent: {first}: {error}")
    known = {each.name for each in servers.status}
    named = dict.fromkeys(
        (found[1], found[2].rstrip(".,;!?)"))
        for found in _RESOURCE.finditer(text)
        if found[1] in known
    )
    for server, uri in list(named)[:_MAX_RESOURCES]:
        try:
            contents = await servers.read_resource(server, uri)
        except GreenroomError as error:
            notes.append(f"not sent: @{server}:{uri}: {error}")
            continue
        blocks.append(_introduce(f"The resource {uri}", server))
        blocks += [each for each in contents if isinstance(each, _SENT)]
    return blocks, notes


def _introduce(what: str, server: str) -> TextBlock:
    return TextBlock(f"{what} of the MCP server {server}, in its words, not the user's:")


def _read_arguments(prompt: "MCPPrompt", words: str) -> dict[str, str]:
    """Give each argument a word, and the last one the rest."""
    count = len(prompt.arguments)
    parts = words.split(maxsplit=count - 1) if count > 1 else [words.strip()] * bool(words.strip())
    return dict(zip(prompt.arguments, parts, strict=False))
