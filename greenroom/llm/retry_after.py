"""How long a provider asks to wait, from the headers of an error response."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from greenroom.core import clock

__all__ = ["retry_after"]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, or None where the headers say nothing usable.

    Reads `retry-after-ms` (milliseconds) and `retry-after` (seconds, or an HTTP date, RFC 9110
    section 10.2.3). Azure sends both, the finer one rounded down to 0, so the longer wait counts.
    Only an error's headers mean a wait: some providers send them with every answer.

    Example:
        >>> retry_after({"retry-after": "1", "retry-after-ms": "0"})
        1.0
    """
    waits = (
        _seconds(headers.get("retry-after-ms", ""), 0.001),
        _seconds(headers.get("retry-after", ""), 1.0),
        _until(headers.get("retry-after", "")),
    )
    return max((wait for wait in waits if wait is not None), default=None)


def _seconds(value: str, unit: float) -> float | None:
    try:
        seconds = float(value) * unit
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _until(value: str) -> float | None:
    try:
        wait = _in_utc(parsedate_to_datetime(value)) - clock.now()
    except (ValueError, OverflowError, TypeError):  # the parser lets its own mistakes through
        return None
    return max(0.0, wait.total_seconds())


def _in_utc(moment: datetime) -> datetime:
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
