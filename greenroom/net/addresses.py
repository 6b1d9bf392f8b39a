"""Addresses: which of them the public internet reaches, and which lie behind our own walls."""

import ipaddress
import socket
from typing import TypeAlias

import trio

from greenroom.core import AddressRefusedError, NetworkError, NetworkTimeoutError

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
    """Whether an IP address is one that anybody on the internet can reach.

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
    return all(map(_reachable, (parsed, *_carried(parsed))))


def _reachable(address: _Address) -> bool:
    local = any(address in network for network in _LOCAL)
    if _is_carrier(address):
        return True  # what it carries is judged in its place
    return address.is_global and not (address.is_multicast or local or address == _CLOUD)


def _is_carrier(address: _Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and any(address in net for net in _CARRIERS)


def _carried(address: _Address) -> list[_Address]:
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
