"""Blocking functions in threads, which a cancel leaves behind but can't stop."""

import dataclasses
import inspect
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Generic, TypeVar, TypeVarTuple, Unpack

import trio

from greenroom.core import AgentContext, ToolError
from greenroom.threads._internal import FileThreads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_threads = FileThreads("tool threads", 40)
"""The threads of plain function tools, also those left behind; 40 is trio's own default."""


_OF_ASYNCIO = ("no running event loop", "no current event loop", "unrecognized yield message")
"""What asyncio says where its loop does not run, and trio about what asyncio awaits."""


def hint_at_loop(failure: str) -> str:
    """Add what to do to the description of a failure, if asyncio was used on trio's event loop.

    Example:
        >>> hint_at_loop("ValueError: no such city")
        'ValueError: no such city'
    """
    if not any(each in failure for each in _OF_ASYNCIO):
        return failure
    return (
        f"{failure} (the tool uses asyncio, and the event loop here is trio's: make it a plain "
        "function that calls asyncio.run, or use a library that knows trio)"
    )


async def run_blocking(
    function: Callable[[AgentContext], T], name: str, context: AgentContext
) -> T:
    """Run a blocking function in a thread and return its result.

    It gets the context in a form for threads: reports are passed to the event loop and wait until
    it has taken them; clean-up scopes belong to async code and are refused.

    A cancel does not wait for the thread. If the function has not begun, it never will; if it is
    running, it is reported by `context.report_abandoned` and keeps its place among the 40 threads
    until it ends. Its reports from then on are dropped.
    """
    call = _ThreadCall(function, context)
    try:
        return await _threads.run(call.run, abandon_on_cancel=True)
    except trio.Cancelled:
        if call.give_up():
            context.report_abandoned(f"thread of {name}")
        raise


class _ThreadCall(Generic[T]):
    """One call of a function: either the thread begins it, or the caller gives it up before."""

    def __init__(self, function: Callable[[AgentContext], T], context: AgentContext) -> None:
        self._function = function
        self._context = dataclasses.replace(
            context,
            on_progress=self._from_thread(context.on_progress),
            on_abandon=self._from_thread(context.on_abandon),
            on_cleanup=_no_cleanup,
        )
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Lock()
        self._given_up = False
        self._running = False

    def run(self) -> T:
        with self._lock:
            if self._given_up:
                raise RuntimeError("given up before it began")  # nobody waits for it any more
            self._running = True
        try:
            return _refuse_coroutine(self._function(self._context))
        finally:
            with self._lock:
                self._running = False

    def give_up(self) -> bool:
        """Prevent the function from beginning; return whether it already runs."""
        with self._lock:
            self._given_up = True
            return self._running

    def _from_thread(self, hook: Callable[[Unpack[Ts]], None]) -> Callable[[Unpack[Ts]], None]:
        """Make a hook callable from any thread; it does nothing once the call is given up."""

        def report(*arguments: *Ts) -> None:
            if not self._given_up:
                with suppress(trio.RunFinishedError):  # from a thread that it left behind
                    trio.from_thread.run_sync(
                        self._receive, hook, *arguments, trio_token=self._token
                    )

        return report

    def _receive(self, hook: Callable[[Unpack[Ts]], None], *arguments: *Ts) -> None:
        if not self._given_up:
            hook(*arguments)


def _refuse_coroutine(value: T) -> T:
    if inspect.iscoroutine(value):
        value.close()
        raise ToolError("the function returned a coroutine", hint="make it an `async def`")
    return value


def _no_cleanup(_: str, __: float) -> AbstractContextManager[object]:
    raise ToolError(
        "context.cleanup was called in a thread, which no cancel stops",
        hint="clean up without it, or make the tool an async function",
    )
