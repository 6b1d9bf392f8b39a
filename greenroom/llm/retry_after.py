"""The time that a provider asks to wait, from the headers of an error response."""

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from greenroom.core import utc_now

_LONGEST = 86_400.0
"""The most seconds to wait: more than a day is not a pause."""

_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "us": 1e-6, "ns": 1e-9}
_PART = r"(\d{1,15}(?:\.\d{1,15})?)(ms|us|ns|d|h|m|s)"
_EPOCH = 1e9
_EPOCH_IN_MS = 1e12


def read_retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait, at most a day, or None if the headers do not say.

    Reads `retry-after-ms` (milliseconds) and `retry-after` (seconds, or an HTTP date, RFC 9110
    section 10.2.3). Azure sends both, the finer one rounded down to 0, so the longer wait counts.
    Without them, the reset times of used-up limits count: headers such as
    `anthropic-ratelimit-tokens-reset` or `x-ratelimit-reset-requests` whose `remaining` is 0.

    Pass the headers of errors only: some providers send them with every answer.

    Example:
        >>> read_retry_after({"retry-after": "1", "retry-after-ms": "0"})
        1.0
        >>> limit = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "6m0s"}
        >>> read_retry_after(limit)
        360.0
    """
    value = headers.get("retry-after", "")
    milliseconds = headers.get("retry-after-ms", "")
    waits = (_number(milliseconds, 0.001), _number(value), _until_date(value))
    longest = _longest(waits)
    return _longest(_renewals(headers)) if longest is None else longest


def read_should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return the value of `x-should-retry`, or None if it is missing.

    Example:
        >>> read_should_retry({"x-should-retry": "false"}), read_should_retry({})
        (False, None)
    """
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def read_duration(value: str) -> float | None:
    """Read a duration as Go and protobuf write it: seconds, at most a day; otherwise None.

    Example:
        >>> read_duration("1m30s"), read_duration("120ms"), read_duration("soon")
        (90.0, 0.12, None)
    """
    if not re.fullmatch(f"(?:{_PART}){{1,7}}", value, re.ASCII):
        return None
    parts = re.findall(_PART, value, re.ASCII)
    return min(sum(float(count) * _UNITS[unit] for count, unit in parts), _LONGEST)


def _longest(waits: Iterable[float | None]) -> float | None:
    longest = max((wait for wait in waits if wait is not None), default=None)
    return None if longest is None else min(longest, _LONGEST)


def _renewals(headers: Mapping[str, str]) -> list[float | None]:
    """Return in how many seconds each used-up limit is renewed."""
    return [
        _until_renewal(value.strip())
        for name, value in headers.items()
        if "ratelimit" in name
        and "reset" in name
        and _number(headers.get(name.replace("reset", "remaining"), "")) == 0
    ]


def _until_renewal(value: str) -> float | None:
    """Read seconds, a duration, a time (RFC 3339), or seconds or milliseconds since 1970."""
    number = _number(value)
    if number is None:
        wait = read_duration(value)
        return _until_time(value) if wait is None else wait
    if number < _EPOCH:
        return number
    since = number / 1000 if number >= _EPOCH_IN_MS else number
    return max(0.0, since - utc_now().timestamp())


def _number(value: str, unit: float = 1.0) -> float | None:
    try:
        number = float(value) * unit
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _until_date(value: str) -> float | None:
    from email.utils import parsedate_to_datetime  # few errors have a date, and it loads a lot

    try:
        return _until(parsedate_to_datetime(value))
    except (ValueError, OverflowError, TypeError):  # the parser lets its own mistakes through
        return None


def _until_time(value: str) -> float | None:
    try:
        return _until(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return None


def _until(moment: datetime) -> float:
    in_utc = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (in_utc - utc_now()).total_seconds())
