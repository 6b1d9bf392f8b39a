"""Logins at servers over HTTP (OAuth): how one is made, and where its tokens are kept.

The tokens of a server are in a file that only the user may read, or in the keyring of the system.
The name of the entry has a hash of the server's URL, so no other server is ever sent them.
"""

import hashlib
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from greenroom.core import ConfigurationError
from greenroom.core._internal import InvalidJSONError, describe_error, serde
from greenroom.fs._internal import decode_text, durable, read_beginning

ShowPage: TypeAlias = Callable[[str], Awaitable[None]]
"""Shows a person the URL of the page at which they log in; nothing opens it by itself."""

_MAX_FILE = 1 << 20
_KEYRING = "keyring"
_SERVICE = "greenroom"


@dataclass(frozen=True, kw_only=True)
class MCPLogin:
    """How to log in at a server that asks for it; `MCPServer.with_login` explains the fields."""

    folder: str | Path
    show: ShowPage | None = None
    keyring: bool = False
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    client_url: str = ""
    port: int = 0


@dataclass(frozen=True)
class LoginRecord:
    """Where the login at one server is kept.

    Attributes:
        path: the file.
        entry: the name of the entry in the keyring.
        in_keyring: whether a new login goes there.
    """

    path: Path
    entry: str
    in_keyring: bool = False

    @classmethod
    def of(cls, login: MCPLogin, name: str, url: str) -> "LoginRecord":
        """Return where the login at the server of this name and URL is."""
        entry = f"mcp-{name}-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
        return cls(Path(login.folder) / f"{entry}.json", entry, login.keyring)

    def read(self) -> dict[str, object]:
        """Return what is kept; nothing if there is no login. It blocks.

        Raises:
            ConfigurationError: it can't be read, or others than the user may use the file.
        """
        try:
            if os.stat(self.path).st_mode & 0o077:
                raise ConfigurationError(
                    f"{self.path} may be read by others", hint=f"chmod 600 {self.path}"
                )
            found = serde.loads_object(decode_text(read_beginning(self.path, _MAX_FILE)))
            return self._read_keyring() if found.get(_KEYRING) is True else found
        except FileNotFoundError:
            return {}
        except (OSError, InvalidJSONError) as error:
            raise ConfigurationError(
                f"the login in {self.path} can't be read: {describe_error(error)}",
                hint="log in again",
            ) from error

    def write(self, content: dict[str, object]) -> None:
        """Keep a login in place of the one before. It blocks.

        Raises:
            ConfigurationError: it can't be written.
        """
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self.in_keyring:
                self._keyring("set_password", serde.to_text(content))
                content = {_KEYRING: True}
            durable.write_file(str(self.path), serde.dumps(content))
        except OSError as error:
            raise ConfigurationError(
                f"the login in {self.path} can't be written: {describe_error(error)}"
            ) from error

    def remove(self) -> bool:
        """Forget the login; return whether there was one. It blocks.

        Raises:
            ConfigurationError: it can't be removed.
        """
        try:
            found = serde.loads_object(decode_text(read_beginning(self.path, _MAX_FILE)))
        except FileNotFoundError:
            return False
        except (OSError, InvalidJSONError):
            found = {}
        if found.get(_KEYRING) is True and self._keyring("get_password") is not None:
            self._keyring("delete_password")  # which fails where there is no entry
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigurationError(
                f"the login in {self.path} can't be removed: {describe_error(error)}"
            ) from error
        return True

    def _read_keyring(self) -> dict[str, object]:
        text = self._keyring("get_password")
        return serde.loads_object(text) if isinstance(text, str) else {}

    def _keyring(self, action: str, *values: str) -> object:
        try:
            keyring = import_module("keyring")
        except ImportError as error:
            raise ConfigurationError(
                "the keyring can't be used: it is not installed",
                hint="pip install 'greenroom[keyring]'",
            ) from error
        try:
            found: object = getattr(keyring, action)(_SERVICE, self.entry, *values)
        except keyring.errors.KeyringError as error:
            raise ConfigurationError(
                f"the keyring can't be used: {describe_error(error)}", hint="unlock the keyring"
            ) from error
        return found
