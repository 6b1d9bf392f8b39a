"""Timeouts: how long we wait for the other side, in each phase of an exchange."""

from dataclasses import dataclass

__all__ = ["Timeouts"]


@dataclass(frozen=True, kw_only=True)
class Timeouts:
    """Seconds to wait in each phase; `math.inf` waits for ever. All of them read trio's clock.

    Attributes:
        connect: for a free connection of the pool, and again for a new one to be made (name
            look-up, TCP, TLS).
        response: for the status line and the headers, once connected; the request's body goes out
            within it.
        read: for each next piece of the body.
    """

    connect: float = 10.0
    response: float = 60.0
    read: float = 60.0
