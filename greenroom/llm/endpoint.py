"""Where a provider is reached, with which key, how long to wait for it, and whether it may be called.

What is not passed comes from the environment.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from greenroom.core import ConfigurationError, ModelCallForbiddenError


@dataclass(frozen=True)
class Endpoint:
    """An address and what goes with every request to it; its keys never show.

    Attributes:
        provider: the provider's name, for messages and errors.
        url: the full address that requests are posted to.
        headers: the headers of every request; they hold the key, so they are not in the repr.
        secrets: the keys, to be taken out of whatever the other side echoes.
        hint: what to do where the key is refused.
    """

    provider: str
    url: str
    headers: Mapping[str, str] = field(repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    hint: str = ""

    def __post_init__(self) -> None:
        """Check what was configured.

        Raises:
            ConfigurationError: the address is not valid, or a key holds what no header can carry.
        """
        if not self.url.startswith(("http://", "https://")) or not _names_a_host(self.url):
            raise ConfigurationError(
                f"the base URL of {self.provider} is not an address: it must begin with https://",
                hint="correct the base URL in the environment or in the call",
            )
        if not all(secret.isascii() and secret.isprintable() for secret in self.secrets):
            raise ConfigurationError(
                f"the key of {self.provider} holds characters that no key has",
                hint="copy it again, without quotes or line ends",
            )

    def conceal(self, body: bytes) -> bytes:
        """Take the keys out of what the other side said, in plain or in JSON with escaped slashes."""
        for secret in filter(None, self.secrets):
            for form in (secret, secret.replace("/", r"\/")):
                body = body.replace(form.encode(), b"[key]")
        return body

    def conceal_text(self, said: str) -> str:
        """Take the keys out of a header that the other side sent."""
        return self.conceal(said.encode(errors="replace")).decode()


def setting(given: str | None, env: Mapping[str, str], variable: str, default: str = "") -> str:
    r"""Return what was given, else what the environment says, else the default; blank is unset.

    Example:
        >>> setting(None, {"OPENAI_API_KEY": " sk-1\n"}, "OPENAI_API_KEY")
        'sk-1'
    """
    found = env.get(variable, "") if given is None else given
    return found.strip() or default


def host_of(url: str) -> str:
    """Return the host's name or address in lower case; empty where there is none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # such as a bracket that is not closed
        return ""


def _names_a_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is not one
        return False


def is_local(url: str) -> bool:
    """Whether an address is on this machine or its private network, where servers ask for no key.

    Example:
        >>> is_local("http://localhost:11434/v1"), is_local("https://api.openai.com/v1")
        (True, False)
    """
    host = host_of(url)
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith((".local", ".internal", ".localhost"))
    return address.is_private or address.is_loopback


def missing_key(provider: str, variable: str) -> ConfigurationError:
    """Make the error of a provider that has no key."""
    return ConfigurationError(
        f"no key for {provider}",
        hint=f"set {variable}, or choose the model offline: which needs none",
    )


@dataclass(frozen=True)
class ModelTimeouts:
    """Seconds to wait, on trio's clock; pings and comments count as signs of life.

    To wait until the provider has room for another connection is bounded by none of them; all count
    from there at the earliest. `math.inf` waits for ever.

    Attributes:
        connect: for a new connection to be made.
        first_event: from sending the request to the answer's status, and again from there to its
            first bytes. A model that thinks before it speaks may take minutes.
        between_events: from one piece of the reply to the next.
        request: from having room for a connection to the end of the reply, with all that its reader
            does in between; None for no limit. It ends a server that says a little now and then and
            never comes to an end.
    """

    connect: float = 10.0
    first_event: float = 300.0
    between_events: float = 120.0
    request: float | None = 3600.0


FORBID_VARIABLE = "GREENROOM_FORBID_MODEL_CALLS"
"""The environment variable that forbids real calls, so that programs that a test starts obey as well."""

_OFF = frozenset({"", "0", "false", "no", "off"})


def forbids_calls(env: Mapping[str, str] = os.environ) -> bool:
    """Whether calls of real models are forbidden.

    Example:
        >>> forbids_calls({"GREENROOM_FORBID_MODEL_CALLS": "1"}), forbids_calls({})
        (True, False)
    """
    return env.get(FORBID_VARIABLE, "").strip().lower() not in _OFF


def check_call(endpoint: Endpoint, client: object) -> None:
    """Let a request pass unless it is forbidden: called before anything is sent.

    Servers on this very machine may be asked, and so may a client that replays what was recorded, which
    says so by `is_replay`.

    Raises:
        ModelCallForbiddenError: it would leave this machine, and that is switched off.
    """
    host = host_of(endpoint.url)
    if not forbids_calls() or _is_loopback(host) or getattr(client, "is_replay", False):
        return
    raise ModelCallForbiddenError(
        f"a request would have gone to {endpoint.provider} at {host}, "
        f"and {FORBID_VARIABLE} forbids that",
        provider=endpoint.provider,
        host=host,
        hint="use ScriptedProvider or a cassette of greenroom.testing, or a server on 127.0.0.1",
    )


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
