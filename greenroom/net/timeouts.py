"""Timeouts: how long we wait for the other side, in each phase of an exchange."""

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds to wait in each phase; `math.inf` waits for ever. All of them read trio's clock.

    Attributes:
        connect: for a new connection to be made: name look-up, TCP, proxy, TLS. To wait until the
            client has room for one does not count.
        response: for the request to go out, and again for the status line and the headers.
        read: for each next piece of the body.
        total: for all of it, from having room for a connection to the last piece of the body. What
            is done with the pieces in between counts as well.
    """

    connect: float = 10.0
    response: float = 60.0
    read: float = 60.0
    total: float = math.inf
