"""Servers of tools that an editor names: which of them a person has agreed to, by their content.

The content is the command with its arguments, and what files of the project it names hold; or the
address; and the names of variables and headers, not their values.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from greenroom.agents._internal import user_rules_path
from greenroom.cli.hook_files import find_files
from greenroom.core._internal import ConfigurationFileError, InvalidJSONError, serde
from greenroom.fs._internal import durable, read_beginning

if TYPE_CHECKING:
    from greenroom.interop import MCPServer

_MAX_KEPT = 1_000
_MAX_FILE = 1 << 20


def agreed_path() -> Path:
    """Return the file that says which servers of editors a person has agreed to."""
    return user_rules_path().with_name("editor-servers.json")


def find_new(servers: Sequence["MCPServer"], workspace: Path) -> tuple["MCPServer", ...]:
    """Find the servers that the user has not agreed to in their present form. It blocks."""
    agreed = set(_read()) if servers else set[str]()
    return tuple(each for each in servers if _digest(each, workspace) not in agreed)


def agree(servers: Iterable["MCPServer"], workspace: Path) -> None:
    """Remember that a person has agreed to these servers, as they are now. It blocks.

    Raises:
        ConfigurationFileError: that can't be written.
    """
    path = agreed_path()
    kept = dict.fromkeys([*_read(), *(_digest(each, workspace) for each in servers)])
    data = serde.dumps({"agreed": list(kept)[-_MAX_KEPT:]}, pretty=True) + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(str(path), data)
    except OSError as error:
        raise ConfigurationFileError(f"can't be written: {error}", path=str(path)) from error


def _read() -> list[str]:
    """Read the digests; a file that can't be used holds none, so that all is asked about again."""
    path = agreed_path()
    if not os.path.lexists(path):
        return []
    try:
        agreed = serde.loads_object(read_beginning(path, _MAX_FILE).decode()).get("agreed")
    except (OSError, ValueError, InvalidJSONError):
        return []
    return [each for each in agreed if isinstance(each, str)] if isinstance(agreed, list) else []


def _digest(server: "MCPServer", workspace: Path) -> str:
    words = (server.command, *server.args) if server.command else ()
    files = find_files(" ".join(words), workspace) if words else {}
    content = [
        list(words),
        server.url,
        sorted(server.env),
        sorted(server.headers),
        sorted((str(path), digest) for path, digest in files.items()),
    ]
    return hashlib.sha256(serde.dumps(content)).hexdigest()
