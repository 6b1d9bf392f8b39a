"""Files that list servers of tools, as other programs write them, too: `.mcp.json`.

    {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"], "env": {"TZ": "UTC"}},
                    "docs": {"type": "http", "url": "https://example.com/mcp",
                             "headers": {"Authorization": "Bearer ${DOCS_TOKEN}"}}}}

`${NAME}` stands for a variable of the environment, `${NAME:-text}` for the text where there is
none. What a variable holds is never shown: errors name the variable.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from greenroom.core import ConfigurationError
from greenroom.core._internal import ConfigurationFileError, InvalidJSONError, serde, visible
from greenroom.fs._internal import decode_text, durable, read_beginning
from greenroom.interop.mcp.server import MCPServer, check_server_name

_SERVERS = "mcpServers"
_MAX_FILE = 1 << 20
_MAX_SERVERS = 100
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True)
class ListedServer:
    """A server of a file.

    Attributes:
        name: its name.
        server: how it is reached; None if it can't be used.
        fault: why not, or empty.
        entry: what the file says of it.
    """

    name: str
    server: MCPServer | None
    fault: str = ""
    entry: Mapping[str, object] | None = None


def read_server_file(
    path: Path, env: Mapping[str, str], logins: Path | None = None
) -> tuple[ListedServer, ...]:
    """Read the servers of a file; none if there is no such file. It blocks.

    A server that can't be used is listed with the reason, and the others are as they are.

    Args:
        path: the file.
        env: the variables that it may name.
        logins: where the logins at servers over HTTP are kept; None for without.

    Raises:
        ConfigurationFileError: the file can't be read, or is not of this form.
    """
    entries = _read_entries(path)
    listed = [_read_server(name, entry, env, logins) for name, entry in entries.items()]
    for number in range(_MAX_SERVERS, len(listed)):
        fault = f"a file lists at most {_MAX_SERVERS} servers"
        listed[number] = ListedServer(listed[number].name, None, fault)
    return tuple(listed)


def write_server(path: Path, name: str, entry: Mapping[str, object] | None) -> bool:
    """Put a server into a file, or take it out if there is no entry; the rest stays. It blocks.

    Returns:
        Whether the file had a server of that name.

    Raises:
        ConfigurationError: the name or the entry can't be used.
        ConfigurationFileError: the file can't be read or written; it is left as it is.
    """
    if entry is not None:
        found = _read_server(name, entry, {})
        if found.server is None and not _names_variables(entry):
            raise ConfigurationError(
                f"the server {visible(name)[:80]} can't be used: {found.fault}"
            )
    content = _read_file(path)
    servers = content.setdefault(_SERVERS, {})
    assert isinstance(servers, dict)  # else reading it had failed
    had = name in servers
    if entry is None:
        servers.pop(name, None)
    else:
        servers[name] = dict(entry)
    if entry is not None or had:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            durable.write_file(str(path), serde.dumps(content, pretty=True) + b"\n")
        except OSError as error:
            raise ConfigurationFileError(f"can't be written: {error}", path=str(path)) from error
    return had


def _read_entries(path: Path) -> Mapping[str, object]:
    return cast("Mapping[str, object]", _read_file(path).get(_SERVERS, {}))


def _read_file(path: Path) -> dict[str, object]:
    """Return what a file says, which is about servers if about anything."""
    try:
        data = read_beginning(path, _MAX_FILE + 1)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationFileError(f"can't be read: {error}", path=str(path)) from error
    if len(data) > _MAX_FILE:
        raise ConfigurationFileError(f"larger than {_MAX_FILE >> 20} MiB", path=str(path))
    try:
        content = serde.loads_object(decode_text(data))
    except InvalidJSONError as error:
        raise ConfigurationFileError(error.message, path=str(path), hint=_FORM) from error
    if not isinstance(content.get(_SERVERS, {}), dict):
        raise ConfigurationFileError(f"{_SERVERS} is not an object", path=str(path), hint=_FORM)
    return content


_FORM = 'write {"mcpServers": {"time": {"command": "uvx", "args": ["mcp-server-time"]}}}'


def _read_server(
    name: str, entry: object, env: Mapping[str, str], logins: Path | None = None
) -> ListedServer:
    shown = visible(name)[:80]
    if why := check_server_name(name):
        return ListedServer(shown, None, why)
    if not isinstance(entry, dict):
        return ListedServer(shown, None, "it is not an object")
    if entry.get("disabled") is True:
        return ListedServer(shown, None, "it is switched off in the file", entry)
    try:
        server = _make_server(name, cast("dict[str, object]", entry), env, logins)
    except ConfigurationError as error:
        return ListedServer(shown, None, error.message, entry)
    return ListedServer(shown, server, entry=entry)


def _make_server(
    name: str, entry: dict[str, object], env: Mapping[str, str], logins: Path | None
) -> MCPServer:
    kind = entry.get("type") or ("http" if "url" in entry else "stdio")
    if kind in ("http", "streamable-http", "streamableHttp"):
        url = _expand(_text(entry, "url"), env)
        headers = _expand_all(_texts(entry, "headers"), env)
        has_token = any(each.lower() == "authorization" for each in headers)
        server = MCPServer.http(name, url, headers=headers)
        return server if logins is None or has_token else _add_login(server, entry, env, logins)
    if kind != "stdio":
        raise ConfigurationError(f"its type is {visible(str(kind))[:40]!r}, not stdio or http")
    arguments = entry.get("args", [])
    if not isinstance(arguments, list) or not all(isinstance(each, str) for each in arguments):
        raise ConfigurationError("its args are not a list of texts")
    folder = entry.get("cwd")
    return MCPServer.stdio(
        name,
        _expand(_text(entry, "command"), env),
        [_expand(each, env) for each in arguments],
        env=_expand_all(_texts(entry, "env"), env),
        cwd=_expand(folder, env) if isinstance(folder, str) else None,
    )


def _add_login(
    server: MCPServer, entry: dict[str, object], env: Mapping[str, str], folder: Path
) -> MCPServer:
    """Read how to log in: a client that is registered already, and where the browser comes back."""
    oauth = entry.get("oauth", {})
    if not isinstance(oauth, dict):
        raise ConfigurationError("its oauth is not an object")
    texts = {key: oauth.get(key, "") for key in ("clientId", "clientSecret", "clientUrl")}
    port = oauth.get("callbackPort", 0)
    if not all(isinstance(each, str) for each in texts.values()) or not isinstance(port, int):
        raise ConfigurationError("its oauth has clientId and clientSecret as texts, callbackPort")
    known = _expand_all(texts, env)
    return server.with_login(
        folder,
        client_id=known["clientId"],
        client_secret=known["clientSecret"],
        client_url=known["clientUrl"],
        port=port,
    )


def _text(entry: Mapping[str, object], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"it has no {key}")
    return value


def _texts(entry: Mapping[str, object], key: str) -> dict[str, str]:
    values = entry.get(key, {})
    if not isinstance(values, dict) or not all(isinstance(each, str) for each in values.values()):
        raise ConfigurationError(f"its {key} are not an object of texts")
    return values


def _expand_all(values: Mapping[str, str], env: Mapping[str, str]) -> dict[str, str]:
    return {name: _expand(value, env) for name, value in values.items()}


def _expand(text: str, env: Mapping[str, str]) -> str:
    """Put in the values of variables.

    Example:
        >>> _expand("${HOST:-localhost}:${PORT}", {"PORT": "80"})
        'localhost:80'
    """

    def find(match: re.Match[str]) -> str:
        name, usual = match[1], match[2]
        if name in env:
            return env[name]
        if usual is None:
            raise ConfigurationError(f"it needs the variable {name}, which is not set")
        return usual

    return _VARIABLE.sub(find, text)


def _names_variables(entry: Mapping[str, object]) -> bool:
    return _VARIABLE.search(serde.to_text(entry)) is not None
