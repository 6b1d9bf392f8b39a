"""What the two kinds of connections have in common: where they lead, and what they carry."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

import msgspec

from greenroom._version import __version__
from greenroom.net.body import ACCEPTED_ENCODING, Body

AT_ONCE: Final = 2.0
"""Seconds within which a closed connection shows; later, the request may have had effect."""

OWN_HEADERS: Final = {
    "Accept": "*/*",
    "Accept-Encoding": ACCEPTED_ENCODING,
    "User-Agent": f"greenroom/{__version__}",
}
"""What each request has, unless its caller says otherwise."""


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds to wait in each phase; `math.inf` waits forever. All of them read trio's clock.

    Attributes:
        connect: for a new connection: name look-up, TCP, proxy, TLS. Waiting until the client has
            room for one does not count.
        response: for the request to go out, and again for the status line and the headers.
        read: for each next piece of the body.
        total: for all of it, from having room for a connection to the last piece of the body,
            including the time that the caller spends between pieces.
    """

    connect: float = 10.0
    response: float = 60.0
    read: float = 60.0
    total: float = math.inf


class Route(NamedTuple):
    """Where a connection leads; a request uses only connections of its own route.

    Attributes:
        scheme: http or https.
        host: the host of the URL.
        port: the port of the URL, or None where it names none.
        address: the IP address to connect to instead of looking the host up, or None; through a
            proxy it has no effect.
    """

    scheme: str
    host: str
    port: int | None
    address: str | None = None


class Answer(NamedTuple):
    """An answer whose headers have come."""

    status: int
    headers: Mapping[str, str]
    body: Body


class Connection(Protocol):
    """At most one connection, for one exchange at a time.

    Attributes:
        route: where it leads.
        idle_since: when the last exchange ended; its owner's to read and write.
    """

    route: Route
    idle_since: float

    async def send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout: Timeouts,
        deadline: float = math.inf,
    ) -> Answer:
        """Send a request, and return the answer when its headers have come.

        It waits for them no longer than the deadline, a moment of trio's clock. If the other side
        closes a kept connection at once and without a byte of an answer, it had given it up before
        the request came: then the request is sent again, once, on a new connection.

        Raises:
            NetworkTimeoutError: connecting, sending or the answer took too long.
            NetworkError: the other side can't be reached or broke off, or `aclose` was called.
        """

    @property
    def is_reusable(self) -> bool:
        """Whether the last exchange was read to its end, and both sides allow another one."""

    async def aclose(self) -> None:
        """Close the connection, even when cancelled; an exchange that is under way breaks."""
