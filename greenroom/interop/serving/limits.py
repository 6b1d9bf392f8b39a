"""The bounds of a server."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """How much a server takes on, and how long it waits.

    Attributes:
        body: bytes of a request's body.
        streams: streams of chunks that are open at once.
        per_token: those of them that one name may have.
        sessions: agents that run at once for requests.
        heartbeat: seconds after which a stream without chunks sends a comment.
        write_timeout: seconds for a client to take the next 64 KB; then its connection is closed.
        body_timeout: seconds for a client to send the head of a request, and as many for its body.
        idle_agent: seconds after which an agent ends that has nothing to do and no reader; its
            session stays, and its next input starts it again.

    Raises:
        ValueError: one of them is not above 0.
    """

    body: int = 8 << 20
    streams: int = 1000
    per_token: int = 50
    sessions: int = 1000
    heartbeat: float = 15.0
    write_timeout: float = 30.0
    body_timeout: float = 10.0
    idle_agent: float = 3600.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"{name} is {value}: a limit is above 0")
