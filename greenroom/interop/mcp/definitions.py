"""What tools said of themselves when their calls were last allowed, over processes.

A person who is asked again about a tool has to see how it has changed since they agreed, which may
have been in another process: so its definition is kept with the server's name once a call runs.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from greenroom.core._internal import InvalidJSONError, serde
from greenroom.fs._internal import decode_text, durable, read_beginning
from greenroom.interop.mcp.server import MCPServer

_MOST = 1_000  # tools of a server; of more the first ones used are forgotten
_MAX_DEFINITION = 65_536  # characters of one
_MAX_FILE = 64 << 20


class AllowedDefinitions:
    """The definitions of a server's tools that a person or a rule has let run.

    Example:
        >>> known = AllowedDefinitions(Path("shop.json"))
        >>> known.note("add", {"description": "Adds."})
        True
        >>> known.note("add", {"description": "Adds."}), known.get("add")
        (False, {'description': 'Adds.'})
    """

    def __init__(self, path: Path | None) -> None:
        """Keep them in a file, or in this process alone."""
        self._path = path
        self._known: dict[str, dict[str, object]] = {}

    @classmethod
    def of(cls, server: MCPServer, folder: Path | None) -> "AllowedDefinitions":
        """Return those of a server, in a file of the folder, or in this process alone."""
        if folder is None:
            return cls(None)
        place = serde.dumps([server.command, *server.args, server.url])
        digest = hashlib.sha256(place).hexdigest()[:16]
        return cls(folder / f"{server.name}-{digest}.json")

    def load(self) -> None:
        """Read what is kept; what can't be read is forgotten. It blocks."""
        if self._path is None:
            return
        try:
            found = serde.loads_object(decode_text(read_beginning(self._path, _MAX_FILE)))
        except (OSError, ValueError, InvalidJSONError):
            return
        self._known = {name: each for name, each in found.items() if isinstance(each, dict)}

    def get(self, name: str) -> Mapping[str, object] | None:
        """Return the definition of a tool when it last ran, or None."""
        return self._known.get(name)

    def note(self, name: str, definition: Mapping[str, object]) -> bool:
        """Note that a call of a tool runs; return whether there is something to save."""
        if self._known.get(name) == definition:
            return False
        if len(serde.dumps(dict(definition))) > _MAX_DEFINITION:
            return False
        self._known.pop(name, None)
        self._known[name] = dict(definition)
        while len(self._known) > _MOST:
            del self._known[next(iter(self._known))]
        return self._path is not None

    def save(self) -> None:
        """Keep them in the file, if there is one. It blocks.

        Raises:
            OSError: they can't be written.
        """
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            durable.write_file(str(self._path), serde.dumps(self._known))
