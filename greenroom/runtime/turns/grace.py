"""Graces: how many seconds something may still take."""

__all__ = ["check_grace"]


def check_grace(seconds: float) -> None:
    """Refuse what is no length of time; infinity is one.

    Raises:
        ValueError: it is negative, or not a number.
    """
    if not seconds >= 0:  # so that NaN, which compares to nothing, is refused too
        raise ValueError(f"a grace is a number of seconds from 0, not {seconds!r}")
