"""Blocking: a plain function in a thread, which can be left behind but not stopped."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

import trio

from greenroom.core import AgentContext

__all__ = ["run_blocking"]

T = TypeVar("T")

_MAX_THREADS = 40
"""Tool threads in one event loop, those left behind included; trio's own default."""

_threads: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("tool threads")


async def run_blocking(function: Callable[[], T], name: str, context: AgentContext) -> T:
    """Run a blocking function in a thread and return its result.

    A cancel does not wait for the thread. If the function has not begun it never will; if it runs,
    it is reported to `context.abandoned` and keeps its place among the 40 threads until it ends.
    """
    work = _Work(function)
    try:
        return await trio.to_thread.run_sync(work.run, abandon_on_cancel=True, limiter=_limiter())
    except trio.Cancelled:
        if work.give_up():
            context.abandoned(f"thread of {name}")
        raise


def _limiter() -> trio.CapacityLimiter:
    try:
        return _threads.get()
    except LookupError:
        limiter = trio.CapacityLimiter(_MAX_THREADS)
        _threads.set(limiter)
        return limiter


class _Work(Generic[T]):
    """One function call that either side may be the first to settle: it begins, or never does."""

    def __init__(self, function: Callable[[], T]) -> None:
        self._function = function
        self._lock = threading.Lock()
        self._given_up = False
        self._running = False

    def run(self) -> T:
        with self._lock:
            if self._given_up:
                raise RuntimeError("given up before it began")  # nobody is left to see this
            self._running = True
        try:
            return self._function()
        finally:
            with self._lock:
                self._running = False

    def give_up(self) -> bool:
        """Keep the function from beginning; return whether it is running already."""
        with self._lock:
            self._given_up = True
            return self._running
