"""Looks behind what is called: a `functools.partial`, or an object with a `__call__`."""

from functools import partial
from inspect import iscoroutinefunction


def strip_partials(thing: object) -> object:
    """Return what a `partial` calls in the end; anything else is returned as it is.

    Example:
        >>> strip_partials(partial(partial(print, 1), 2)), strip_partials(3)
        (<built-in function print>, 3)
    """
    while isinstance(thing, partial):
        thing = thing.func
    return thing


def is_async(function: object) -> bool:
    """Whether it is an async function, or an object with an async `__call__`."""
    return any(map(iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004
