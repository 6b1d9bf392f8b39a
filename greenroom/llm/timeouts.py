"""How long to wait for a model."""

from dataclasses import dataclass

__all__ = ["ModelTimeouts"]


@dataclass(frozen=True)
class ModelTimeouts:
    """Seconds to wait, on trio's clock; pings and comments count as signs of life.

    To wait until the provider has room for another connection is bounded by none of them.

    Attributes:
        connect: for a new connection to be made.
        first_event: from sending the request to the answer's status, and again from there to its
            first bytes. A model that thinks before it speaks may take minutes.
        between_events: from one piece of the reply to the next.
    """

    connect: float = 10.0
    first_event: float = 300.0
    between_events: float = 120.0
