"""What may be given to a runtime and to `spawn`, and a clear word about usual mistakes."""

import functools
import inspect
import os

from greenroom.core import ConfigurationError
from greenroom.resilience import Budget
from greenroom.session import AgentSession

__all__ = [
    "check_agent_function",
    "check_budget",
    "check_session",
    "check_store",
    "check_unattended",
]


def check_store(store: object) -> None:
    """Refuse a path where a store is meant.

    Raises:
        TypeError: it is a path; the message says which stores there are.
    """
    if isinstance(store, str | os.PathLike):
        raise TypeError(
            f"{store!r} is a path, no store: write store=FileStore({str(store)!r}), "
            "or SQLiteStore for one file"
        )


def check_session(session: object) -> None:
    """Refuse what is no session.

    Raises:
        TypeError: it is something else; the message says how to make one.
    """
    if not isinstance(session, AgentSession):
        raise TypeError(
            f"spawn wants a session first, and {session!r} is none: write "
            "spawn(AgentSession.new('coder'), fn, x), or load one by its id"
        )


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
        raise TypeError(
            f"an agent is an async function, and {function!r} is none: write "
            "`async def fn(agent, x)`, without a yield"
        )


def check_budget(budget: object) -> None:
    """Refuse what is no budget.

    Raises:
        TypeError: it is something else; the message says how to make one.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(f"{budget!r} is no budget: write budget=Budget(tokens=100_000)")


def check_unattended(unattended: object) -> None:
    """Refuse a word that says neither to wait nor to deny.

    Raises:
        ConfigurationError: it is something else.
    """
    if unattended not in ("ask", "deny"):
        raise ConfigurationError(
            f"unattended={unattended!r} is neither 'ask' nor 'deny'",
            hint="what is to be allowed is for the rules to say",
        )
