"""Wall time for timestamps, behind one function that tests may replace.

Nothing waits on this clock: deadlines and graces read trio's.
"""

from collections.abc import Callable
from datetime import UTC, datetime


def _system() -> datetime:
    return datetime.now(UTC)


_clock: Callable[[], datetime] = _system


def now() -> datetime:
    """Return the present time, aware and in UTC, to the second."""
    return _clock().replace(microsecond=0)


def timestamp(moment: datetime) -> str:
    """Write a time as ISO 8601 with a final Z, as the session files hold it.

    Example:
        >>> timestamp(datetime(2026, 1, 14, 10, 30, tzinfo=UTC))
        '2026-01-14T10:30:00Z'
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def set_clock(clock: Callable[[], datetime] | None) -> None:
    """Replace the wall clock in this process, or with None put the system's clock back."""
    global _clock  # noqa: PLW0603
    _clock = clock or _system
