"""The servers of tools of a run: which files list them, which of these count, and their start."""

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import trio

from greenroom.agents._internal import user_rules_path
from greenroom.cli.formatting import one_line, shorten_home
from greenroom.cli.hook_files import find_files
from greenroom.cli.options import Options
from greenroom.cli.settings_layers import is_trusted_here
from greenroom.core import ConfigurationError, NetworkError
from greenroom.tools import ToolRegistry

if TYPE_CHECKING:
    from greenroom.interop import MCPServer, MCPServers
    from greenroom.interop._internal import MCPPrompt

_PROMPT_SECONDS = 2.0


def user_servers_path() -> Path:
    """Return the user's own file of servers, which counts in every project."""
    return user_rules_path().with_name("mcp.json")


def logins_folder() -> Path:
    """Return where the user's logins at servers are kept."""
    return user_rules_path().with_name("mcp-logins")


def definitions_folder() -> Path:
    """Return where the user's runs keep what tools of servers said of themselves."""
    return user_rules_path().with_name("mcp-definitions")


def project_servers_path(workspace: Path) -> Path:
    """Return a project's file of servers."""
    return workspace / ".mcp.json"


def named_files(options: Options) -> tuple[Path, ...]:
    """Return the file of servers that the command line or a setting names, if one does.

    Raises:
        ConfigurationError: a setting names it by a relative path, so that each project could bring
            another file in its place.
    """
    if not options.mcp_config:
        return ()
    path = Path(options.mcp_config).expanduser()
    if "mcp_config" not in options.given and not path.is_absolute():
        raise ConfigurationError(
            f"the setting mcp_config is {options.mcp_config}, which is another file in each folder",
            hint="write the whole path, or begin it with ~/",
        )
    return (path,)


class FoundServer(NamedTuple):
    """A server that a file lists.

    Attributes:
        name: its name.
        path: the file.
        place: its command or its address, for people.
        fault: why it does not count, or empty.
        server: how it is reached; None if it does not count.
    """

    name: str
    path: Path
    place: str
    fault: str = ""
    server: "MCPServer | None" = None

    def __repr__(self) -> str:
        """Say which it is, and nothing of how it is reached, where tokens may stand."""
        return f"<MCP server {self.name} of {self.path}>"


def find_servers(workspace: Path, env: Mapping[str, str], *more: Path) -> tuple[FoundServer, ...]:
    """Find the servers of the files named, of the user and of the project. It blocks.

    The first file that has a name wins. A project's file counts once the user has agreed to it, and
    so does each file of the project that a command in it names.

    Raises:
        ConfigurationError: a file can't be read or used.
    """
    paths = [*more, user_servers_path(), project_servers_path(workspace)]
    paths = [each for each in paths if os.path.lexists(each)]
    if not paths:
        return ()
    from greenroom.interop._internal import read_server_file

    found = dict[str, FoundServer]()
    for path in paths:
        is_projects = path == project_servers_path(workspace)
        is_trusted = not is_projects or is_trusted_here(path)
        for each in read_server_file(path, env, logins_folder()):
            place = each.server.place if each.server else ""
            fault, server = each.fault, each.server
            if not is_trusted:
                # What its variables hold is nobody's business yet.
                fault, server, place = "the project's file is not trusted", None, ""
            elif is_projects and server is not None:
                words = " ".join((server.command, *server.args))
                files = find_files(words, workspace).items() if server.command else ()
                foreign = [str(name) for name, digest in files if not is_trusted_here(name, digest)]
                if foreign:
                    fault, server = f"{min(foreign)} is of the project, and not trusted", None
            found.setdefault(each.name, FoundServer(each.name, path, place, fault, server))
    return tuple(found.values())


def list_commands(workspace: Path) -> tuple[str, ...]:
    """List the command lines of the project's own servers, whether they count or not. It blocks.

    Raises:
        ConfigurationError: the file can't be read or used.
    """
    path = project_servers_path(workspace)
    if not os.path.lexists(path):
        return ()
    from greenroom.interop._internal import read_server_file

    listed = read_server_file(path, os.environ)
    servers = (each.server for each in listed if each.server is not None)
    return tuple(" ".join((each.command, *each.args)) for each in servers if each.command)


class OpenServers(NamedTuple):
    """The servers of a run: connected, with the prompts that they offer, and notes on the others.

    Attributes:
        connected: the servers, or None.
        prompts: what they offer for a person to choose.
        notes: what the user should know, a line each.
    """

    connected: "MCPServers | None" = None
    prompts: tuple["MCPPrompt", ...] = ()
    notes: tuple[str, ...] = ()


@asynccontextmanager
async def open_servers(
    workspace: Path,
    env: Mapping[str, str],
    tools: ToolRegistry,
    more: Sequence[Path] = (),
    others: Sequence["MCPServer"] = (),
) -> AsyncIterator[OpenServers]:
    """Connect to the servers that count, and add their tools.

    Of two with one name, the one of a file counts, not that of `others`.

    Raises:
        ConfigurationError: a file that was named can't be read or used.
    """
    found, notes = tuple[FoundServer, ...](), tuple[str, ...]()
    try:
        found = await trio.to_thread.run_sync(find_servers, workspace, env, *more)
    except ConfigurationError as error:
        if more:
            raise
        notes = (f"no MCP servers: {error}",)
    notes = (*notes, *(_describe_fault(each) for each in found if each.fault))
    servers = [each.server for each in found if each.server is not None]
    names = {each.name.casefold() for each in servers}
    servers += [each for each in others if each.name.casefold() not in names]
    async with open_connections(servers, tools) as opened:
        yield opened._replace(notes=(*notes, *opened.notes))


@asynccontextmanager
async def open_connections(
    servers: Sequence["MCPServer"], tools: ToolRegistry
) -> AsyncIterator[OpenServers]:
    """Connect to servers, and add their tools; what is wrong with one is a note."""
    if not servers:
        yield OpenServers()
        return
    from greenroom.interop import MCPServers

    try:
        connected = MCPServers(*servers, required=False, definitions=definitions_folder())
    except ConfigurationError as error:  # without the SDK
        yield OpenServers(notes=(f"no MCP servers: {error}",))
        return
    async with connected:
        tools.add(connected)
        prompts, notes = tuple["MCPPrompt", ...](), tuple[str, ...]()
        try:
            with trio.move_on_after(_PROMPT_SECONDS):
                prompts = await connected.list_prompts()
        except NetworkError as error:
            notes = (str(error),)
        late = (each for each in connected.status if each.state != "connected")
        told = (
            f"the MCP server {each.name} is {each.state}: {' '.join(each.error.split())}"
            for each in late
        )
        yield OpenServers(connected, prompts, (*notes, *told))


def _describe_fault(found: FoundServer) -> str:
    trust = "; greenroom permissions trust shows it" if "trusted" in found.fault else ""
    path = shorten_home(one_line(found.path))
    return f"the MCP server {found.name} of {path} is left out: {found.fault}{trust}"
