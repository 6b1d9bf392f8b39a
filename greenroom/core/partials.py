"""Looks behind a `functools.partial`, which stands for a function and has none of its names."""

from functools import partial


def strip_partials(thing: object) -> object:
    """Return what a `partial` calls in the end; anything else is returned as it is.

    Example:
        >>> strip_partials(partial(partial(print, 1), 2)), strip_partials(3)
        (<built-in function print>, 3)
    """
    while isinstance(thing, partial):
        thing = thing.func
    return thing
