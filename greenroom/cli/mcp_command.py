"""`greenroom mcp`: list, add, remove and test servers of tools, log in and out."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from greenroom.cli.command_options import MCPOptions
from greenroom.cli.formatting import one_line, shorten_home
from greenroom.cli.mcp_setup import (
    FoundServer,
    find_servers,
    named_files,
    project_servers_path,
    user_servers_path,
)
from greenroom.cli.options import FAILED, USAGE
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.core import ConfigurationError, NetworkError
from greenroom.core._internal import quantity, serde

if TYPE_CHECKING:
    from greenroom.interop import MCPServer
    from greenroom.interop._internal import MCPServerStatus


async def list_servers(options: MCPOptions) -> int:
    """Print the servers that files list, where each comes from, and whether it counts.

    Raises:
        ConfigurationError: a file can't be used.
        OSError: standard output can't be written.
    """
    found = await _find(options)
    page = OutputWriter()
    if options.json:
        rows = [
            {"name": each.name, "place": each.place, "path": str(each.path), "fault": each.fault}
            for each in found
        ]
        await page.line(serde.dumps(rows))
    elif not found:
        tell("there are no MCP servers here; greenroom mcp add NAME COMMAND adds one")
    for each in () if options.json else found:
        await page.text(f"{each.name}: {one_line(each.place) or 'unknown'}")
        fault = f"  ({each.fault})" if each.fault else ""
        await page.text(f"    {shorten_home(one_line(each.path))}{fault}")
    return 0


async def add_server(options: MCPOptions) -> int:
    """Add a server to the user's file, or to the project's.

    Raises:
        ConfigurationError: it makes no sense, or the file can't be used.
    """
    from greenroom.interop._internal import write_server

    path = _path_of(options)
    place, arguments = options.place, options.words
    entry: dict[str, object]
    if place.startswith(("http://", "https://")):
        if arguments or options.env:
            raise ConfigurationError("a URL takes no arguments and no --env")
        entry = {"type": "http", "url": place}
        entry |= {"headers": _pairs(options.header, ":")} if options.header else {}
    else:
        if options.header:
            raise ConfigurationError("--header belongs to a URL")
        entry = {"command": place, "args": list(arguments)}
        entry |= {"env": _pairs(options.env, "=")} if options.env else {}
    had = await trio.to_thread.run_sync(write_server, path, options.name, entry)
    what = "replaced" if had else "added"
    tell(f"{what} {options.name} in {shorten_home(str(path))}; greenroom mcp test tries it")
    if options.project:
        tell("it counts once you agree: greenroom permissions trust")
    return 0


async def remove_server(options: MCPOptions) -> int:
    """Remove a server from the user's file, or from the project's.

    Raises:
        ConfigurationError: the file can't be used.
    """
    from greenroom.interop._internal import write_server

    path = _path_of(options)
    if await trio.to_thread.run_sync(write_server, path, options.name, None):
        tell(f"removed {options.name} from {shorten_home(str(path))}")
        return 0
    tell(f"{shorten_home(str(path))} has no server {one_line(options.name)}")
    return FAILED


async def test_servers(options: MCPOptions) -> int:
    """Connect to servers, print what tools they have, and disconnect.

    Raises:
        ConfigurationError: a file can't be used, or the SDK is not installed.
        OSError: standard output can't be written.
    """
    from greenroom.interop import MCPServers

    found = [each for each in await _find(options) if options.name in ("", each.name)]
    if not found:
        tell(_no_server(options.name))
        return USAGE
    page, failed = OutputWriter(), False
    for each in found:
        if each.server is None:
            failed = True
            await page.text(f"{each.name}: left out: {each.fault}")
            continue
        try:
            async with MCPServers(each.server) as servers:
                await page.text("\n".join(describe_status(servers.status[0])))
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001  (this is what the command is for)
            failed = True
            await page.text(f"{each.name}: {error}")
    return FAILED if failed else 0


async def log_in(options: MCPOptions) -> int:
    """Show the page at which a person logs in at a server, and keep what comes of it.

    Raises:
        ConfigurationError: a file can't be used, or the SDK is not installed.
        OSError: standard output can't be written.
    """
    from greenroom.interop import MCPServers
    from greenroom.interop._internal import LoginRecord

    server = await _find_remote(options)
    if server is None or server.login is None:
        return USAGE
    shown = False

    async def show(url: str) -> None:
        nonlocal shown
        shown = True
        tell("open this page to log in; it comes back to this machine:", url)
        await trio.lowlevel.checkpoint()

    login = replace(server.login, show=show, keyring=options.keyring)
    await trio.to_thread.run_sync(LoginRecord.of(login, server.name, server.url).remove)
    try:
        async with MCPServers(replace(server, login=login, start_timeout=_LOGIN_SECONDS)) as found:
            tools = quantity(len(found.status[0].tools), "tool")
    except NetworkError as error:
        tell(str(error))
        return FAILED
    done = f"logged in at {server.name}" if shown else f"{server.name} wants no login"
    await OutputWriter().text(f"{done}: {tools}")
    return 0


async def log_out(options: MCPOptions) -> int:
    """End the login at a server, where it offers that, and forget it in any case.

    Raises:
        ConfigurationError: a file can't be used.
    """
    from greenroom.interop._internal import LoginRecord

    server = await _find_remote(options)
    if server is None or server.login is None:
        return USAGE
    record = LoginRecord.of(server.login, server.name, server.url)
    told = await _end_login(server)
    if await trio.to_thread.run_sync(record.remove):
        tell(f"forgot the login at {server.name}; {told}")
        return 0
    tell(f"there is no login at {server.name}")
    return FAILED


async def _end_login(server: "MCPServer") -> str:
    """End a login where it was made; say what became of it."""
    left = "what others may have copied counts until it expires"
    try:
        from greenroom.interop._internal import revoke_login

        is_ended = await revoke_login(server)
    except ImportError:
        return f"without greenroom[mcp] it can't be ended there: {left}"
    except (ConfigurationError, NetworkError) as error:
        return f"it can't be ended there ({error.message}): {left}"
    return "it is ended there, too" if is_ended else f"it can't be ended there: {left}"


async def _find_remote(options: MCPOptions) -> "MCPServer | None":
    """Return the server that is meant, if one can log in there; else say why not."""
    for each in await _find(options):
        if each.name == options.name:
            if each.server is not None and each.server.login is not None:
                return each.server
            told = each.fault or "it is a program, or its headers have a token already"
            tell(f"there is no login at {each.name}: {told}")
            return None
    tell(_no_server(options.name))
    return None


def _no_server(name: str) -> str:
    what = f"there is no MCP server {one_line(name)}".rstrip()
    return f"{what} (`greenroom mcp list` shows them; `greenroom mcp add` adds one)"


def describe_status(status: "MCPServerStatus") -> list[str]:
    """Describe a server in lines: its state, its tools, and what is left out."""
    head = f"{status.name}: {status.state}, {quantity(len(status.tools), 'tool')}"
    lines = [head, *(f"  {one_line(line)}" for line in status.error.splitlines())]
    lines += [f"  {name}" for name in status.tools[:_SHOWN]]
    more = len(status.tools) - _SHOWN
    lines += [f"  … and {more} more"] if more > 0 else []
    lines += [f"  {one_line(name)} is left out: {one_line(why)}" for name, why in status.left_out]
    return lines


_SHOWN = 30
_LOGIN_SECONDS = 600.0


def _path_of(options: MCPOptions) -> Path:
    if options.project:
        return project_servers_path(working_folder())
    path = user_servers_path()
    return Path(os.path.realpath(path)) if path.is_symlink() else path  # the link stays


async def _find(options: MCPOptions) -> tuple[FoundServer, ...]:
    files = named_files(options)
    return await trio.to_thread.run_sync(find_servers, working_folder(), os.environ, *files)


def _pairs(texts: tuple[str, ...], sign: str) -> dict[str, str]:
    found = {}
    for text in texts:
        name, separator, value = text.partition(sign)
        if not separator or not name.strip():
            raise ConfigurationError(f"{text!r} is not NAME{sign}VALUE")
        found[name.strip()] = value.strip()
    return found
