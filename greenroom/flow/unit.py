"""A unit of work: a subtask, a node or one of its items, a member of a team. It starts and ends."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Start:
    """The last start of a unit.

    Attributes:
        session_id: the session in which it ran; empty if it is a function.
        at: when it started, if that is on record.
        count: how often it has started.
    """

    session_id: str = ""
    at: datetime | None = None
    count: int = 1

    def __str__(self) -> str:
        often = "once" if self.count == 1 else f"{self.count} times, the last time"
        at = f" at {self.at:%Y-%m-%d %H:%M:%S} UTC" if self.at else ""
        return f"It was started {often}{at}."
