"""Caches results by short texts only: a full cache of long texts could hold gigabytes."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

_LONGEST = 1_000  # characters: usual paths, names, patterns and URLs are shorter


def cache_short(most: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache a function as `lru_cache` does, except for calls with more than 1,000 characters.

    For functions of texts that come from outside, and may be megabytes long.

    Args:
        most: the number of results that are kept: those used last.

    Example:
        >>> @cache_short(10)
        ... def count_ns(text):
        ...     print("counted")
        ...     return text.count("n")
        >>> count_ns("n") + count_ns("n")
        counted
        2
        >>> count_ns("n" * 1_001) + count_ns("n" * 1_001)
        counted
        counted
        2002
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        keep = cast("Callable[P, R]", lru_cache(most)(function))

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            room = _LONGEST
            for each in (*args, *kwargs.values()):
                room -= len(each) if isinstance(each, str) else _count_characters(each)
            return keep(*args, **kwargs) if room >= 0 else function(*args, **kwargs)

        return call

    return decorate


def _count_characters(given: object) -> int:
    """Count the characters of a text, or of all texts in a tuple."""
    if isinstance(given, str):
        return len(given)
    return sum(map(_count_characters, given)) if isinstance(given, tuple) else 0
