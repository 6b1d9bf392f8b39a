"""The address and the key of a provider, its time-outs, and the switch that forbids real calls.

Settings that are not passed come from the environment. One request may have headers of its own,
which authorise it: signatures, and tokens that expire.
"""

import ipaddress
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
import trio
from msgspec.structs import replace

from greenroom.core import ConfigurationError
from greenroom.core._internal import Reticent, compile_later, quantity
from greenroom.llm.model_errors import (
    ModelAuthenticationError,
    ModelCallForbiddenError,
    ModelConnectTimeoutError,
    ModelError,
)

_SHORTEST_SECRET = 8
_LIKE_A_KEY = compile_later(r"\d|^sk[-_]|.{20}")

RequestAuth: TypeAlias = Callable[
    [str, str, Mapping[str, str], bytes], Awaitable[Mapping[str, str]]
]
"""Authorises one request: `await auth(method, url, headers, body)` returns headers to add to it.

They take the place of headers with the same names, whatever their case. It is awaited for each
attempt, so keep a token until it expires; let a library that blocks run in a thread. Raise a
`ModelConnectionError` for what may succeed in another attempt.
"""


class Endpoint(Reticent, frozen=True, dict=True):
    """An address and the headers of every request to it; its keys are never shown.

    Attributes:
        provider: the provider's name, for messages and errors.
        url: the full address that requests are posted to.
        headers: the headers of every request; they contain the key, so they are not in the repr.
        secrets: the keys, which are removed from everything that the server echoes.
        hint: what to do if the key is refused.
        model: the model's name, for errors; may be empty.
        auth: returns more headers for each request; see `RequestAuth`.
    """

    provider: str
    url: str
    headers: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    hint: str = ""
    model: str = ""
    auth: RequestAuth | None = None

    def __post_init__(self) -> None:
        """Check the address and the keys.

        Raises:
            ConfigurationError: the address is not valid, or a key has a character that no header
                can have.
        """
        if not self.url.startswith(("http://", "https://")) or not _has_host(self.url):
            raise ConfigurationError(
                f"the base URL of {self.provider} is not valid: "
                "it must begin with https:// or http://",
                hint="correct the base URL in the environment or in the call",
            )
        if not all(secret.isascii() and secret.isprintable() for secret in self.secrets):
            raise ConfigurationError(
                f"the key of {self.provider} has characters that a key can't have",
                hint="copy it again, without quotes or line ends",
            )

    def __repr__(self) -> str:
        """Describe it without what authorises a request."""
        return (
            f"Endpoint(provider={self.provider!r}, url={self.url!r}, hint={self.hint!r},"
            f" model={self.model!r})"
        )

    @property
    def account(self) -> str:
        """What the provider's limits count for: the host and the key, of which this is a digest."""
        text = "\n".join((urlsplit(self.url).netloc, *self.secrets))
        return sha256(text.encode()).hexdigest()

    def conceal(self, body: bytes) -> bytes:
        """Remove the keys from a body that the server sent, as they are or with escaped slashes.

        A short key stays, since other words may contain it, and so does a word that a server on a
        private network takes for a key, such as "lm-studio".
        """
        for form in self._hidden_forms:
            body = body.replace(form, b"[key]")
        return body

    @cached_property
    def _hidden_forms(self) -> Sequence[bytes]:
        long = {secret for secret in self.secrets if len(secret) >= _SHORTEST_SECRET}
        hidden = set(filter(_LIKE_A_KEY.search, long)) if is_local(self.url) else long
        forms = {form for secret in hidden for form in (secret, secret.replace("/", r"\/"))}
        return [form.encode() for form in sorted(forms, key=len, reverse=True)]

    def conceal_text(self, text: str) -> str:
        """Remove the keys from a header that the server sent."""
        return self.conceal(text.encode(errors="replace")).decode()


def read_setting(
    value: str | None, env: Mapping[str, str], variable: str, default: str = ""
) -> str:
    r"""Return the value of a setting, else of its variable, else the default; blank is unset.

    Example:
        >>> read_setting(None, {"OPENAI_API_KEY": " sk-1\n"}, "OPENAI_API_KEY")
        'sk-1'
    """
    return (env.get(variable, "") if value is None else value).strip() or default


def host_of(url: str) -> str:
    """Return the host's name or address in lower case, or an empty text."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:  # such as a bracket that is not closed
        return ""


def server_name(url: str) -> str:
    """Return the name of a server by its address: its host, and the port of a local one.

    Several servers may run on one machine, each with models and peculiarities of its own.

    Example:
        >>> server_name("https://llm.example.com/v1"), server_name("http://127.0.0.1:8000/v1")
        ('llm.example.com', '127.0.0.1:8000')
    """
    host = host_of(url)
    try:
        port = urlsplit(url).port
    except ValueError:  # it is refused where it is used
        port = None
    if not (host and port and is_local(url)):
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bare_host(name: str) -> str:
    """Return the host in a server's name with a port, which is its name in older sessions, or "".

    Example:
        >>> bare_host("127.0.0.1:8000"), bare_host("[::1]:8000"), bare_host("llm.example.com")
        ('127.0.0.1', '::1', '')
    """
    return name.rpartition(":")[0].strip("[]")


GEMINI_KEYS = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""The variables of Gemini's key; the first one that is set counts, as in Google's own library."""

GEMINI = "https://generativelanguage.googleapis.com"
"""Google's own server of Gemini."""

LOCAL_PROGRAMS = frozenset({"vllm", "sglang", "lmstudio", "llamacpp"})
"""Programs that are providers by name, and whose ports other programs use as well."""


def is_same_server(stored: str, provider: str) -> bool:
    """Whether the provider's name in a stored message is this one, with or without its port.

    A reply that is named after a local address may be of any program that runs there.

    Example:
        >>> is_same_server("127.0.0.1", "127.0.0.1:8000"), is_same_server("openai", "groq")
        (True, False)
        >>> is_same_server("localhost:8000", "vllm"), is_same_server("groq", "vllm")
        (True, False)
    """
    if provider in LOCAL_PROGRAMS and bare_host(stored):
        return True
    return stored in (provider, bare_host(provider) or provider)


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:  # such as a port that is not a number
        return False


def is_local(url: str) -> bool:
    """Whether an address is on this machine or its private network, where servers need no key.

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
    """Return the error of a provider without a key."""
    return ConfigurationError(
        f"no key for {provider}",
        hint=f"set {variable}, or choose the model offline: which needs none",
    )


class ModelTimeouts(msgspec.Struct, frozen=True):
    """Seconds to wait, on trio's clock; pings and comments count as pieces of the reply.

    None of them covers the wait until the provider has room for another connection. `math.inf`
    waits forever.

    Attributes:
        connect: until a new connection is made, and before that, until `auth` has returned.
        first_event: from sending the request to the answer's status, and again from there to its
            first bytes. A model that thinks before it answers may take minutes.
        between_events: from one piece of the reply to the next.
        request: from having room for a connection to the end of the reply, including the time that
            its reader takes; None for no limit. It stops a server that sends pieces but never ends.
    """

    connect: float = 10.0
    first_event: float = 300.0
    between_events: float = 120.0
    request: float | None = 3600.0


FORBID_VARIABLE = "GREENROOM_FORBID_MODEL_CALLS"
"""The environment variable that forbids real calls, also to programs that a test starts."""

_OFF = frozenset({"", "0", "false", "no", "off"})


def forbids_calls(env: Mapping[str, str] | None = None) -> bool:
    """Whether calls of real models are forbidden.

    Example:
        >>> forbids_calls({"GREENROOM_FORBID_MODEL_CALLS": "1"}), forbids_calls({})
        (True, False)
    """
    env = os.environ if env is None else env
    return env.get(FORBID_VARIABLE, "").strip().lower() not in _OFF


def check_call(endpoint: Endpoint, client: object) -> None:
    """Check that a request is allowed, before anything is sent.

    Requests to servers on this machine are always allowed, and so are those that a client answers
    from a recording, whose attribute `is_replay` is true.

    Raises:
        ModelCallForbiddenError: the request would leave this machine, which is forbidden.
    """
    if not forbids_calls() or getattr(client, "is_replay", False):
        return
    host = host_of(endpoint.url)
    if _is_loopback(host):
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


async def authorize(
    endpoint: Endpoint, method: str, content: bytes | None, seconds: float
) -> Endpoint:
    """Return the endpoint with the headers for one request, which its errors won't show.

    Raises:
        ModelAuthenticationError: `auth` has failed, or has returned something else than headers.
        ModelConnectTimeoutError: it took longer than these seconds.
        ModelError: it has raised one.
    """
    if endpoint.auth is None:
        return endpoint
    given = {name.lower(): value for name, value in endpoint.headers.items()}
    added: object = None
    with trio.move_on_after(seconds) as scope:
        try:
            added = await endpoint.auth(method, endpoint.url, dict(given), content or b"")
        except ModelError as error:
            error.provider = error.provider or endpoint.provider
            raise
        except Exception as error:
            # Its own text may have a part of a key.
            raise _failure(endpoint, f"failed with {type(error).__name__}") from error
    if scope.cancelled_caught:
        raise ModelConnectTimeoutError(
            f"`auth` of {endpoint.provider} did not return within {quantity(seconds, 'second')}",
            provider=endpoint.provider,
            hint="check what it waits for, or allow more time with ModelTimeouts(connect=…)",
        )
    if not isinstance(added, Mapping) or not all(
        _is_header(part) for pair in added.items() for part in pair
    ):
        raise _failure(endpoint, "did not return headers", "return a dict of ASCII texts")
    new = {name.lower(): value for name, value in added.items()}
    secrets = [value for name, value in new.items() if value != given.get(name)]
    words = [word for value in secrets for word in value.replace(",", " ").split()]
    return replace(endpoint, headers=given | new, secrets=(*endpoint.secrets, *secrets, *words))


def _is_header(part: object) -> bool:
    return isinstance(part, str) and part.isascii() and part.isprintable()


def _failure(endpoint: Endpoint, what: str, hint: str = "") -> ModelAuthenticationError:
    return ModelAuthenticationError(
        f"`auth` of {endpoint.provider} {what}",
        provider=endpoint.provider,
        hint=hint or "its cause says why",
    )
