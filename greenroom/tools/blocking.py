"""Plain functions, which block, run in threads: left behind by a cancel, never stopped."""

import dataclasses
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Generic, TypeVar, TypeVarTuple, Unpack

import trio

from greenroom.core import (
    AgentContext,
    ToolError,
)
from greenroom.threads import FileThreads

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_threads = FileThreads("tool threads", 40)
"""Those of plain function tools, those left behind included; the number is trio's own default."""


async def run_blocking(
    function: Callable[[AgentContext], T], name: str, context: AgentContext
) -> T:
    """Run a blocking function in a thread and return its result.

    It is given the context as a thread may use it: what it reports is handed to the event loop, and
    the report waits until the loop has it; clean-up scopes belong to async code and are refused.

    A cancel does not wait for the thread. If the function has not begun it never will; if it runs,
    it is reported to `context.report_abandoned` and keeps its place among the 40 threads until it ends.
    Whatever it reports from then on is dropped; it is not stopped by that.
    """
    work = _Work(function, context)
    try:
        return await trio.to_thread.run_sync(
            work.run, abandon_on_cancel=True, limiter=_threads.limiter
        )
    except trio.Cancelled:
        if work.give_up():
            context.report_abandoned(f"thread of {name}")
        raise


class _Work(Generic[T]):
    """One function call that either side may be the first to settle: it begins, or never does."""

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
                raise RuntimeError("given up before it began")  # it is not seen any more
            self._running = True
        try:
            return self._function(self._context)
        finally:
            with self._lock:
                self._running = False

    def give_up(self) -> bool:
        """Keep the function from beginning; return whether it is running already."""
        with self._lock:
            self._given_up = True
            return self._running

    def _from_thread(self, hook: Callable[[Unpack[Ts]], None]) -> Callable[[Unpack[Ts]], None]:
        """Make a hook callable from any thread; it is dumb once the call has been left behind."""

        def report(*arguments: *Ts) -> None:
            if not self._given_up:
                with suppress(trio.RunFinishedError):  # it left a thread of its own behind
                    trio.from_thread.run_sync(
                        self._receive, hook, *arguments, trio_token=self._token
                    )

        return report

    def _receive(self, hook: Callable[[Unpack[Ts]], None], *arguments: *Ts) -> None:
        if not self._given_up:
            hook(*arguments)


def _no_cleanup(_: str, __: float) -> AbstractContextManager[object]:
    raise ToolError(
        "context.cleanup was called in a thread, which no cancel stops",
        hint="clean up without it, or make the tool an async function",
    )
