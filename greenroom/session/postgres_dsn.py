"""Where a PostgreSQL server is: connection strings, without letting their secrets out.

The string is libpq's: a URI or `key=value` pairs, with a service file and a pass file as usual.
"""

import ipaddress
import os
import threading
from typing import Self

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict

from greenroom.core import ConfigurationError

DSN = "GREENROOM_DSN"
"""The variable of the environment that names the server where a program does not."""

_SAFE_MODES = {"require", "verify-ca", "verify-full"}


class Address:
    """A connection string that was read and checked; two are equal if they name one database."""

    def __init__(self, settings: dict[str, str], defaults: dict[str, str]) -> None:
        """Take the settings that the string has, and those of the environment."""
        self._settings = settings
        self._defaults = defaults
        self._secrets = {
            each for each in (settings.get("password"), defaults.get("password")) if each
        }
        self._is_checked = False
        self._guard = threading.Lock()  # several threads may connect at once
        if "service" not in settings:
            self._check_encryption({**defaults, **settings})

    @classmethod
    def read(cls, dsn: str | None) -> Self:
        """Read a connection string, by default that of `GREENROOM_DSN` or of libpq's variables.

        Raises:
            ConfigurationError: there is none, it can't be read, or what is sent could be read by
                others on the way. The error does not show the string, which may hold a password.
        """
        text = os.environ.get(DSN, "") if dsn is None else dsn
        if not text and not {"PGSERVICE", "PGHOST", "PGDATABASE"} & os.environ.keys():
            raise ConfigurationError(
                "no PostgreSQL server is named",
                hint=f"set {DSN}, for instance to postgresql://db.example.org/agents or "
                "service=agents; the password belongs in ~/.pgpass",
            )
        try:
            settings = {key: str(value) for key, value in conninfo_to_dict(text).items()}
        except psycopg.Error:
            settings = {"host": "@@"}
        ports = settings.get("port", "5432").replace(",", "")
        if "@" in settings.get("host", "")[1:] or not ports.isdigit():
            raise ConfigurationError(
                f"the connection string of PostgreSQL{f' in {DSN}' * (dsn is None)} can't be read",
                hint="write postgresql://USER@HOST:PORT/DATABASE or key=value pairs; in a URI, "
                "signs such as @ : / of a password are written as %40 %3A %2F",
            ) from None
        found = {each.keyword.decode(): each.val for each in pq.Conninfo.get_defaults()}
        return cls(settings, {key: value.decode() for key, value in found.items() if value})

    def __str__(self) -> str:
        found = {**self._defaults, **self._settings}
        if service := self._settings.get("service"):
            return f"postgresql:service={service}"
        host = found.get("hostaddr") or found.get("host", "")
        place = "" if not host or host[0] in "/@" else f"{host}:{found.get('port', '5432')}"
        return f"postgresql://{place}/{found.get('dbname') or found.get('user', '')}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())

    def connect(self, **limits: int) -> "psycopg.Connection[tuple[object, ...]]":
        """Open a connection, each statement of which is a transaction of its own.

        Raises:
            ConfigurationError: what is sent could be read by others on the way.
            psycopg.Error: the server can't be reached, or refused.
        """
        with self._guard:
            if not self._is_checked:
                self._check_encryption(self._read_service())
        settings: dict[str, int | str] = {
            "keepalives_interval": 3,
            "keepalives_count": 3,
            "application_name": "greenroom",
            **limits,
            **self._settings,
        }
        return psycopg.Connection[tuple[object, ...]].connect(
            autocommit=True,
            **settings,  # type: ignore[arg-type]  # they are libpq's, by name
        )

    def shows_secret(self, text: str) -> bool:
        """Whether a text holds the password."""
        return any(secret in text for secret in self._secrets)

    def hide_secret(self, text: str) -> str:
        """Return a text without the password."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def _identity(self) -> tuple[str, ...]:
        found = {**self._defaults, **self._settings}
        keys = ("service", "host", "hostaddr", "port", "dbname", "user")
        return tuple(found.get(key, "") for key in keys)

    def _read_service(self) -> dict[str, str]:
        """Return all settings, with those of the service file, which only libpq can find.

        Raises:
            psycopg.OperationalError: the service is not in the file, or there is no file.
        """
        text = psycopg.conninfo.make_conninfo("", **self._settings)
        # It looks the host up and begins to connect, but sends nothing yet.
        started = pq.PGconn.connect_start(text.encode())
        try:
            found = {each.keyword.decode(): each.val for each in started.info}
            problem = started.error_message.decode("utf-8", "replace")
        finally:
            started.finish()
        settings = {key: value.decode() for key, value in found.items() if value}
        if "service" not in settings:  # libpq could not read it, so nothing was checked
            raise psycopg.OperationalError(problem.strip())
        self._secrets |= {settings["password"]} if "password" in settings else set()
        return settings

    def _check_encryption(self, found: dict[str, str]) -> None:
        """Ask for TLS, unless the server is on this machine."""
        hosts = (found.get("hostaddr") or found.get("host", "")).split(",")
        if all(map(_is_here, hosts)) or found.get("sslmode") in _SAFE_MODES:
            self._is_checked = True
            return
        if "sslmode" in self._settings or "PGSSLMODE" in os.environ:
            raise ConfigurationError(
                "the connection to PostgreSQL could be read on the way: sslmode is "
                f"{found.get('sslmode')}, and the server is on another machine",
                hint="use sslmode=verify-full, or at least require",
            )
        self._settings["sslmode"] = "require"
        self._is_checked = True


def _is_here(host: str) -> bool:
    """Whether a host is this machine, or a socket on it."""
    if not host or host[0] in "/@" or host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
