"""URLs: checks, public addresses, proxies and redirects."""

import ipaddress
import os
import socket
from contextlib import suppress
from typing import TypeAlias
from urllib.parse import SplitResult, quote, urljoin, urlsplit

import trio

from greenroom.core import NetworkError
from greenroom.core._internal import (
    AddressRefusedError,
    NetworkTimeoutError,
    cache_short,
    compile_later,
)

DEFAULT_PORTS = {"http": 80, "https": 443}
"""The port of a URL that names none, by its scheme."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MAX_LENGTH = 8_192
_SAFE = "/%:@!$&'()*+,;=~?[]|"
# Blanks, controls and backslashes: two parsers may read two different hosts out of them.
_AMBIGUOUS = compile_later(r"[\x00-\x20\x7f-\xa0\\]")


def check_url(url: str) -> SplitResult:
    """Split an absolute web URL, and refuse what two parsers may read in different ways.

    Raises:
        AddressRefusedError: another scheme than http and https, no host, a user name or password,
            a character that makes it ambiguous, or more than 8,192 characters.

    Example:
        >>> check_url("https://docs.python.org/3/").hostname
        'docs.python.org'
        >>> check_url("file:///etc/passwd")
        Traceback (most recent call last):
        greenroom.core.errors.AddressRefusedError: the scheme 'file' ... (use http or https)
    """
    if len(url) > _MAX_LENGTH or _AMBIGUOUS.search(url):
        raise AddressRefusedError(
            "the URL is too long, or holds a blank, a control character or a backslash",
            hint="write %20 for a blank",
        )
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise AddressRefusedError(f"this is not a URL: {error}") from None
    if parts.scheme not in DEFAULT_PORTS:
        raise AddressRefusedError(
            f"the scheme {parts.scheme!r} is not fetched", hint="use http or https"
        )
    if not parts.hostname or "%" in parts.hostname or port == 0:
        raise AddressRefusedError("the URL names no host", hint="write https://host/path")
    if "@" in parts.netloc:
        raise AddressRefusedError("the URL holds a user name or a password", hint="leave them out")
    return parts


@cache_short(256)
def split_url(url: str) -> SplitResult:
    """Split an absolute web URL as it is; with `check_url` more is refused.

    Raises:
        NetworkError: it is not one.
    """
    with suppress(ValueError):
        parts = urlsplit(url)
        is_web = parts.scheme in DEFAULT_PORTS and bool(parts.hostname) and parts.port != 0
        if is_web and url.isprintable():
            return parts
    raise NetworkError(
        "this is not a URL that can be fetched", hint="write http://host/… or https://host/…"
    )


def write_authority(scheme: str, host: str, port: int | None) -> str:
    """Return a host, with the port unless it is the usual one, for the `Host` header.

    Example:
        >>> write_authority("http", "::1", 8000), write_authority("http", "a", 80)
        ('[::1]:8000', 'a')
    """
    name = f"[{host}]" if ":" in host else host
    return name if port in (None, DEFAULT_PORTS[scheme]) else f"{name}:{port}"


@cache_short(256)
def target_of(parts: SplitResult) -> str:
    """Return the path and query of a URL for a request, in ASCII.

    Example:
        >>> target_of(urlsplit("http://a/b c?d=%20é#e"))
        '/b%20c?d=%20%C3%A9'
    """
    path = quote(parts.path or "/", safe=_SAFE)
    return f"{path}?{quote(parts.query, safe=_SAFE)}" if parts.query else path


def port_of(parts: SplitResult) -> int:
    """Return the port of a URL, or the default port of its scheme."""
    return parts.port or DEFAULT_PORTS[parts.scheme]


def redirect_target(url: str, status: int, location: str) -> str | None:
    """Return where an answer redirects to, as an absolute URL, or None where it does not.

    A blank, which servers write as it is, becomes `%20`, as in a browser.

    Example:
        >>> redirect_target("http://a/b/c", 302, "../d")
        'http://a/d'
    """
    if status not in _REDIRECTS or not location:
        return None
    try:
        return urljoin(url, location).replace(" ", "%20")
    except ValueError as error:
        raise AddressRefusedError(f"it redirects to what is not a URL: {error}") from None


def is_same_host(one: str, other: str) -> bool:
    """Whether two URLs lead to the same server; http and then https, on their usual ports, do too.

    Example:
        >>> is_same_host("http://a/x", "https://a/y"), is_same_host("https://a/", "https://b/")
        (True, False)
    """
    first, second = check_url(one), check_url(other)
    if first.hostname != second.hostname:
        return False
    upgrade = (port_of(first), port_of(second)) == (80, 443)
    same = (first.scheme, port_of(first)) == (second.scheme, port_of(second))
    return same or (upgrade and second.scheme == "https")


_Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_SECONDS = 10.0

# Public by number, but answered by the cloud that a machine runs in (Azure's WireServer).
_CLOUD = ipaddress.ip_address("168.63.129.16")

# IPv6 ranges that carry an IPv4 address in their last 32 bits (RFC 6052, RFC 8215, RFC 4291).
_CARRIERS = tuple(
    map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0/96", "::ffff:0:0:0/96"))
)
# Local, though the tables of the oldest Python do not say so: RFC 6890, 8215, 3879 and 9602.
_LOCAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "64:ff9b:1::/48", "fec0::/10", "5f00::/16"))
)


def is_public(address: str) -> bool:
    """Whether an IP address can be reached from the public internet.

    Loopback, private, link-local (cloud metadata among them), shared, multicast, reserved and
    unspecified addresses are not, nor are IPv6 addresses that carry such an IPv4 address.

    Example:
        >>> is_public("1.1.1.1"), is_public("169.254.169.254"), is_public("::ffff:127.0.0.1")
        (True, False, False)
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return all(map(_is_reachable, (parsed, *_find_embedded(parsed))))


def _is_reachable(address: _Address) -> bool:
    local = any(address in network for network in _LOCAL)
    if _is_carrier(address):
        return True  # what it carries is judged in its place
    return address.is_global and not (address.is_multicast or local or address == _CLOUD)


def _is_carrier(address: _Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and any(address in net for net in _CARRIERS)


def _find_embedded(address: _Address) -> list[_Address]:
    """Return the IPv4 addresses inside an IPv6 one: mapped, translated, 6to4 and Teredo."""
    if not isinstance(address, ipaddress.IPv6Address):
        return []
    found: list[_Address] = []
    if _is_carrier(address):
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    if address.sixtofour:
        found.append(address.sixtofour)
    if address.teredo:
        found.extend(address.teredo)
    return found


async def public_address(host: str, port: int, *, proxied: bool = False) -> str | None:
    """Look a host up once, and return the address to connect to.

    With `proxied` a name that is not known here gives None: the proxy may know it, and connects.

    Raises:
        AddressRefusedError: one of the host's addresses is not public.
        NetworkTimeoutError: the look-up took longer than 10 seconds.
        NetworkError: the name is not known.
    """
    try:
        addresses = await _resolve(host, port)
    except NetworkError:
        if proxied:
            return None
        raise
    for address in addresses:
        if not is_public(address):
            raise AddressRefusedError(
                f"{host} is at {address}, which is not a public address",
                hint="hosts of the local machine and network are off limits here",
            )
    return addresses[0]


async def _resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host in the order in which the system would try them."""
    try:
        with trio.fail_after(_SECONDS):
            found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except trio.TooSlowError:
        raise NetworkTimeoutError(f"{host}: the name look-up took too long") from None
    except (OSError, UnicodeError) as error:
        raise NetworkError(
            f"{host}: the name is not known", hint="check the spelling of the host"
        ) from error
    return [str(entry[4][0]) for entry in found]


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the URL of the proxy for this scheme and host, or None for a direct connection.

    `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY` name it, in capitals or not. `NO_PROXY` lists what
    is contacted directly: hosts, domains with all their hosts, addresses, networks such as
    `10.0.0.0/8`, or `*` for everything.
    """
    proxy = _read_setting(scheme) or _read_setting("all")
    if not proxy:
        return None
    direct = (entry.strip() for entry in _read_setting("no").split(","))
    if any(_covers(entry, host) for entry in direct if entry):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _read_setting(name: str) -> str:
    """Read a variable as `urllib` does, but without a copy of the environment for each request."""
    small = os.environ.get(f"{name}_proxy")
    if small is not None:
        return small
    if name == "http" and "REQUEST_METHOD" in os.environ:
        return ""  # in a CGI script, the header `Proxy` of a request sets HTTP_PROXY
    return os.environ.get(f"{name.upper()}_PROXY", "")


def _covers(entry: str, host: str) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name = entry.lower().removeprefix("*").removeprefix(".").partition(":")[0]
        return host.lower() == name or host.lower().endswith(f".{name}")
