"""Async code for callers that are not: in a loop of its own, or in the one that a tool's thread is of."""

import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

from greenroom.core import EventLoopError
from greenroom.runtime import run_in_call
from greenroom.tools import is_worker

T = TypeVar("T")


def run_in_loop(function: Callable[[], Awaitable[T]], name: str) -> T:
    """Run an async function to its end and return what it returns.

    In a thread that trio has started, as that of a plain tool, it runs in the event loop of that thread, and
    no longer than the tool call.

    Args:
        function: takes no arguments.
        name: the plain function that calls this, for its errors, such as "run_sync".

    Raises:
        EventLoopError: an event loop runs here already, which this would block; or this is the process
            of a tool, where no agent is.
        TurnError: the tool call has ended before it.
    """
    awaited = f"write `await agent.{name.removesuffix('_sync')}(…)`"
    if trio.lowlevel.in_trio_run():
        raise EventLoopError(f"{name}() was called in a running event loop", hint=awaited)
    if _is_in_asyncio():
        raise EventLoopError(
            f"{name}() was called in a running event loop, which is asyncio's",
            hint="write `async with RuntimeThread() as greenroom: await greenroom.run(agent, …)`",
        )
    if is_worker():
        raise EventLoopError(
            f'{name}() was called by a tool with isolation="process", where the agent is not',
            hint="leave isolation='process' out, or make the tool an async function",
        )
    if _is_in_thread_of_trio():
        return trio.from_thread.run(run_in_call, function)
    return trio.run(function)


def _is_in_asyncio() -> bool:
    """Whether asyncio runs a loop in this thread; asked without importing it."""
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None


def _is_in_thread_of_trio() -> bool:
    try:
        trio.from_thread.run_sync(_do_nothing)
    except RuntimeError:
        return False
    return True


def _do_nothing() -> None:
    pass
