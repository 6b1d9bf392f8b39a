"""The bounds of one runtime."""

from dataclasses import dataclass

__all__ = ["RuntimeLimits"]


@dataclass(frozen=True, kw_only=True)
class RuntimeLimits:
    """How much one agent may hold before something waits, is refused, or is forgotten.

    Attributes:
        mailbox: inputs that may wait; `send_input` then waits for room, its twin raises. The
            results of subagents always find room: there are no more of them than subagents.
        ring_chunks: output chunks kept for late and slow readers; older ones are forgotten, and a
            reader who still wanted them gets `Lagged`. A turn with 2,000 deltas fits.
        ring_bytes: the same bound in bytes, by an estimate of each chunk's size.
        subagents: subagents of one agent alive at once.
        pending: permission requests, and results of client-run tools, held at once by one agent.
        partial_text: characters of an unfinished reply that `partial_text()` can still give.
        flush_grace: seconds for the last save of an ending agent.
        permission_timeout: seconds until an unanswered permission request counts as denied, or
            None to wait for as long as somebody may answer.
    """

    mailbox: int = 64
    ring_chunks: int = 4096
    ring_bytes: int = 4 * 1024 * 1024
    subagents: int = 64
    pending: int = 64
    partial_text: int = 100_000
    flush_grace: float = 5.0
    permission_timeout: float | None = None
