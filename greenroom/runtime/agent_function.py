"""What may be spawned: an async function, and a clear word about the usual mistakes."""

import functools
import inspect

__all__ = ["check_agent_function"]


def check_agent_function(function: object) -> None:
    """Refuse what is no async function; partials and objects with an async `__call__` are.

    Raises:
        TypeError: it is something else; the message says what was probably meant.
    """
    if inspect.iscoroutine(function):
        function.close()
        raise TypeError(
            "spawn was given a coroutine: write spawn(session, fn, x), not spawn(session, fn(x))"
        )
    while isinstance(function, functools.partial):
        function = function.func
    if not inspect.iscoroutinefunction(function) and not inspect.iscoroutinefunction(
        getattr(type(function), "__call__", None)  # noqa: B004 (an object with an async __call__)
    ):
        raise TypeError(f"an agent is an async function, and {function!r} is none")
