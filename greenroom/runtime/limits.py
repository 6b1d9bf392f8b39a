"""`RuntimeLimits`: how much one agent may hold."""

import msgspec

from greenroom.core import ConfigurationError


class RuntimeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much one agent may hold before something waits, is refused, or is forgotten.

    Attributes:
        mailbox: inputs that may wait; `send_input` then waits for room, its twin raises. Word
            of other agents always finds room: `subagents` and `monitors` bound it.
        ring_chunks: output chunks that the ring keeps for late and slow readers; older ones are
            forgotten, and a reader that still wanted them gets `Lagged`. A turn with 2,000 deltas
            fits.
        ring_bytes: the same bound in bytes, by an estimate of each chunk's size.
        subagents: subagents of one agent that are alive, or whose result it has not taken.
        monitors: agents that one agent monitors, or of whose end it has not taken word.
        pending: permission requests, and results of client-run tools, that one agent has at once.
        partial_text: characters of an unfinished reply that `partial_text()` can still give.
        flush_grace: seconds for a save at the end of a turn or of an agent, and for the subagents
            of an agent that has returned.
        permission_timeout: seconds until an unanswered permission request counts as denied, or
            None to wait for as long as anyone may answer.
        watchdog: seconds that one call may hold up the event loop before the log names it; None for
            no watchdog. Runtimes in one event loop share one, and the lowest of theirs holds.

    Raises:
        ConfigurationError: a bound is below 1, or a time below 0 or not a number.
    """

    mailbox: int = 64
    ring_chunks: int = 4096
    ring_bytes: int = 4 * 1024 * 1024
    subagents: int = 64
    monitors: int = 1024
    pending: int = 64
    partial_text: int = 100_000
    flush_grace: float = 5.0
    permission_timeout: float | None = None
    watchdog: float | None = 1.0

    def __post_init__(self) -> None:
        """Refuse bounds under which nothing could work."""
        for name in (
            "mailbox",
            "ring_chunks",
            "ring_bytes",
            "subagents",
            "monitors",
            "pending",
            "partial_text",
        ):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"RuntimeLimits.{name} must be 1 or more")
        if not all(seconds >= 0 for seconds in (self.flush_grace, self.permission_timeout or 0.0)):
            raise ConfigurationError("times in RuntimeLimits must be numbers from 0")
        if self.watchdog is not None and not 0 < self.watchdog < float("inf"):
            raise ConfigurationError(
                "RuntimeLimits.watchdog must be above 0", hint="None turns the watchdog off"
            )
