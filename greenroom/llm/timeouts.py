"""How long to wait for a model."""

from dataclasses import dataclass


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
