"""A runtime in a thread of its own: for asyncio, web frameworks, notebooks and plain threads."""

import atexit
import inspect
import threading
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Generic, ParamSpec, Protocol, Self, TypeVar, TypeVarTuple, Unpack, cast, overload

import trio

from greenroom.core import ContentBlock
from greenroom.resilience import Budget
from greenroom.runtime.agent_runtime import AgentRuntime
from greenroom.runtime.approvals import Unattended
from greenroom.runtime.errors import RuntimeClosedError
from greenroom.runtime.handle import AgentHandle
from greenroom.runtime.internals import AgentInternals
from greenroom.runtime.results import TurnResult
from greenroom.runtime.tasks import unwrap
from greenroom.runtime.thread_calls import LoopWaiter, ThreadCall, ThreadWaiter
from greenroom.session import AgentSession

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Ts = TypeVarTuple("Ts")

_AT_EXIT = 10.0  # seconds that the end of the interpreter waits for


class _Runnable(Protocol[P, T_co]):
    """Something that has an async method `run`, such as an agent."""

    @property
    def run(self) -> Callable[P, Awaitable[T_co]]:
        """The method to call."""


class RuntimeThread:
    """Runs an `AgentRuntime` in a thread of its own, and carries work to it and results back.

    It opens with `async with` in asyncio, or with `with` in a plain thread; its methods may be
    called from any thread, those that are awaited from any asyncio event loop. Handles belong to
    the thread: reach their methods through `run`, `ask` and `iterate`.

    Errors come back as they were raised. Where the task that waits is cancelled, the work is
    cancelled, and the wait ends when it has ended. Leaving the block shuts the runtime down as
    leaving that of an `AgentRuntime` does: within five seconds of grace, or at once if it is left
    by an exception. If the thread itself breaks, all that wait get a `RuntimeClosedError`, and the
    block raises what broke it. A block that is never left ends with the interpreter, which waits
    ten seconds at the most. A forked process has no such thread, and calls there raise a
    `RuntimeClosedError`.

    Args:
        runtime: the runtime to run, not opened yet; by default `AgentRuntime()`.

    Example:
        ```python
        async with RuntimeThread() as greenroom:  # in asyncio
            print((await greenroom.run(agent, "What is the weather in Tokyo?")).output)
        ```
    """

    def __init__(self, runtime: AgentRuntime | None = None) -> None:
        """Make a thread; it starts when the block is entered."""
        self.runtime = runtime or AgentRuntime()
        """The runtime; call its methods through `run`."""
        # A daemon: where its end takes too long, the interpreter must end all the same.
        self._thread = threading.Thread(  # noqa: TID251 (it runs trio, so it can't be trio's)
            target=self._run_trio, name="greenroom runtime", daemon=True
        )
        self._lock = threading.Lock()  # held for the fields below, never while anything is awaited
        self._calls: set[ThreadCall[object]] = set()
        # Called when it has opened, and when it is over.
        self._watchers: list[Callable[[], None]] = []
        self._is_open = False
        self._is_over = False
        self._aborts = False
        self._crash: BaseException | None = None
        # Of trio's thread; the token is there once it is open.
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._scope = trio.CancelScope()
        self._closing = trio.Event()

    async def __aenter__(self) -> Self:
        waiter = LoopWaiter()
        self._start(waiter.wake)
        try:
            await waiter.wait(self._has_started, partial(self._close, abort=True))
        except BaseException:
            try:
                await waiter.wait(self._has_ended, lambda: None)
            finally:
                self._join()
            raise
        self._check_start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shut the runtime down, and return when its thread has ended."""
        waiter = LoopWaiter()
        self._watch(waiter.wake)
        self._close(abort=error is not None)
        try:
            await waiter.wait(self._has_ended, partial(self._close, abort=True))
        finally:
            self._join()
        self._raise_crash(error)

    def __enter__(self) -> Self:
        waiter = ThreadWaiter()
        self._start(waiter.wake)
        try:
            waiter.wait(self._has_started, partial(self._close, abort=True))
        except BaseException:
            try:
                waiter.wait(self._has_ended, lambda: None)
            finally:
                self._join()
            raise
        self._check_start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Shut the runtime down, and return when its thread has ended."""
        waiter = ThreadWaiter()
        self._watch(waiter.wake)
        self._close(abort=error is not None)
        try:
            waiter.wait(self._has_ended, partial(self._close, abort=True))
        finally:
            self._join()
        self._raise_crash(error)

    def _start(self, wake: Callable[[], None]) -> None:
        if self._thread.ident is not None:
            raise RuntimeClosedError(
                "a runtime thread is entered once", hint="make a new RuntimeThread"
            )
        self._watch(wake)
        self._thread.start()
        atexit.register(self._end_with_interpreter)

    def _watch(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._watchers.append(wake)

    def _has_started(self) -> bool:
        return self._is_open or self._is_over

    def _has_ended(self) -> bool:
        return self._is_over or not self._thread.is_alive()  # in a fork there is no such thread

    def _check_start(self) -> None:
        """Raise the error that kept the runtime from opening."""
        if self._is_over:
            self._join()
            self._raise_crash(None)
            raise _closed_error(None)

    def _join(self) -> None:
        """Wait for the thread, which has nothing left to do."""
        if self._has_ended():
            atexit.unregister(self._end_with_interpreter)
            self._thread.join()

    def _raise_crash(self, own: BaseException | None) -> None:
        """Raise what broke the thread, unless the block has an error of its own."""
        if self._crash is not None and own is None:
            raise self._crash

    def _close(self, *, abort: bool) -> None:
        """Let the runtime end: with grace, or at once."""
        with self._lock:
            self._is_open = False
            self._aborts = self._aborts or abort
        self.call_soon(self._scope.cancel if abort else self._closing.set)

    def _end_with_interpreter(self) -> None:
        self._close(abort=False)
        self._thread.join(_AT_EXIT)

    def _run_trio(self) -> None:
        try:
            trio.run(self._live)
        except BaseException as crash:  # noqa: BLE001 (raised by the block, and to all that wait)
            self._crash = unwrap(crash)
        finally:
            with self._lock:
                self._is_open, self._is_over = False, True
                calls, self._calls = self._calls, set()
                watchers = tuple(self._watchers)
            for call in calls:  # if the loop broke, they have not ended on their own
                call.fail(_closed_error(self._crash))
            for wake in watchers:
                wake()

    async def _live(self) -> None:
        with self._scope:
            # Calls end after the agents, which they may wait for.
            async with trio.open_nursery() as nursery:
                async with self.runtime:
                    self._open(nursery)
                    await self._closing.wait()
                nursery.cancel_scope.cancel()

    def _open(self, nursery: trio.Nursery) -> None:
        with self._lock:
            self._nursery, self._token = nursery, trio.lowlevel.current_trio_token()
            self._is_open = not self._aborts
            watchers = tuple(self._watchers)
        if self._aborts:  # given up before there was a token to say so
            self._scope.cancel()
        for wake in watchers:
            wake()

    def begin(
        self, work: Callable[[], Awaitable[T] | T], wake: Callable[[], None]
    ) -> ThreadCall[T]:
        """Begin work in the thread; `wake` is called when it is over.

        Raises:
            RuntimeClosedError: the block is not entered yet, or has been left.
        """
        call: ThreadCall[T]

        def end() -> None:
            with self._lock:
                self._calls.discard(cast("ThreadCall[object]", call))
            wake()

        call = ThreadCall(work, copy_context(), end)
        with self._lock:
            if not self._is_open or self._nursery is None or not self._thread.is_alive():
                raise _closed_error(self._crash)
            self._calls.add(cast("ThreadCall[object]", call))
            nursery = self._nursery
        if not self.call_soon(partial(call.begin, nursery)):
            call.fail(_closed_error(self._crash))
        return call

    def cancel(self, call: ThreadCall[T]) -> None:
        """Cancel work that was begun; it is over when its clean-up is."""
        self.call_soon(call.cancel)

    def call_soon(self, function: Callable[[], None]) -> bool:
        """Call a function in the thread, soon; False where its loop has ended."""
        if self._token is not None:
            with suppress(trio.RunFinishedError):
                self._token.run_sync_soon(function)
                return True
        return False

    @overload
    async def run(self, agent: _Runnable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    async def run(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    async def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    async def run(self, thing: object, /, *args: object, **kwargs: object) -> object:
        """Run an agent in the thread, or call any function there; wait for it in asyncio.

        Args:
            thing: an object with an async method `run`, which is called, and given this runtime if
                it takes one; or a function, async or not, such as `handle.interrupt`.
            *args: its arguments.
            **kwargs: likewise.

        Returns:
            What it returned.

        Raises:
            RuntimeClosedError: the block is not entered yet, or was left before it had ended.
            EventLoopError: no asyncio event loop runs here.
            BaseException: what it raised.
        """
        waiter = LoopWaiter()
        call = self.begin(self._make_work(thing, args, kwargs), waiter.wake)
        await waiter.wait(lambda: call.is_over, partial(self.cancel, call))
        return call.result()

    @overload
    def run_sync(self, agent: _Runnable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    @overload
    def run_sync(
        self, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T: ...
    @overload
    def run_sync(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
    def run_sync(self, thing: object, /, *args: object, **kwargs: object) -> object:
        """Do what `run` does, and wait in a plain thread; Ctrl-C cancels it.

        Raises:
            RuntimeClosedError: as `run`.
            EventLoopError: an event loop runs in this thread, and would be blocked.
            BaseException: what was raised.
        """
        waiter = ThreadWaiter()
        call = self.begin(self._make_work(thing, args, kwargs), waiter.wake)
        waiter.wait(lambda: call.is_over, partial(self.cancel, call))
        return call.result()

    def _make_work(
        self, thing: object, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> Callable[[], object]:
        method = getattr(thing, "run", None)
        if method is None:
            return partial(cast("Callable[[], object]", thing), *args, **kwargs)
        if "runtime" not in kwargs and "runtime" in inspect.signature(method).parameters:
            kwargs = {**kwargs, "runtime": self.runtime}
        return partial(method, *args, **kwargs)

    async def spawn(
        self,
        session: AgentSession,
        agent_fn: Callable[[AgentInternals, Unpack[Ts]], Awaitable[object]],
        *args: *Ts,
        unattended: Unattended = "ask",
        name: str | None = None,
        budget: Budget | None = None,
    ) -> AgentHandle:
        """Start an agent, as `AgentRuntime.spawn` does, and return its handle.

        Raises:
            GreenroomError: as `AgentRuntime.spawn` and `run`.
        """

        def spawn() -> AgentHandle:
            return self.runtime.spawn(
                session, agent_fn, *args, unattended=unattended, name=name, budget=budget
            )

        return await self.run(spawn)

    async def ask(
        self,
        handle: AgentHandle,
        content: str | Iterable[ContentBlock],
        timeout: float | None = None,
        *,
        sender: str = "",
        metadata: Mapping[str, object] | None = None,
        id: str | None = None,  # noqa: A002 (the field's word for it)
    ) -> TurnResult:
        """Ask an agent, as `AgentHandle.ask` does; a cancel of this interrupts the turn.

        Raises:
            GreenroomError: as `AgentHandle.ask` and `run`.
        """
        message = handle._input(content, sender, metadata, id)
        return await self.run(handle._wait_or_give_up, message, timeout)

    def iterate(
        self, source: Callable[P, AsyncIterable[T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> "ThreadIterator[T]":
        """Iterate in asyncio over what an async iterator of the thread yields, such as chunks.

        Args:
            source: a function that makes it, such as `handle.subscribe` or `handle.stream`; what it
                makes is entered and left in the thread, if it is an async context manager.
            *args: its arguments.
            **kwargs: likewise.

        Example:
            ```python
            async with greenroom.iterate(handle.subscribe, "all") as chunks:
                async for chunk in chunks:
                    print(chunk)
            ```
        """
        return ThreadIterator(self, partial(source, *args, **kwargs))


def _closed_error(crash: BaseException | None) -> RuntimeClosedError:
    if crash is None:
        return RuntimeClosedError(
            "the runtime's thread is not running", hint="use it inside of its `async with` block"
        )
    error = RuntimeClosedError(f"the runtime's thread has crashed: {crash!r}")
    error.__cause__ = crash
    return error


_AHEAD = 64  # items that are fetched before they are asked for


class ThreadIterator(Generic[T]):
    """An iterator for asyncio, made by `RuntimeThread.iterate`; use it with `async with`.

    At most 64 items are fetched ahead, so a slow reader slows the source down; a subscription then
    gives `Lagged`. What the source raises is raised here.
    """

    def __init__(self, thread: RuntimeThread, source: Callable[[], AsyncIterable[T]]) -> None:
        """Made by `RuntimeThread.iterate`."""
        self._thread = thread
        self._source = source
        self._items = deque[T]()
        self._room = trio.Event()
        self._is_entered = False
        self._waiter: LoopWaiter | None = None
        self._call: ThreadCall[None] | None = None

    async def __aenter__(self) -> Self:
        """Enter the source, and return when that is done; from then on nothing is missed."""
        self._waiter = waiter = LoopWaiter()
        call: ThreadCall[None] = self._thread.begin(self._fetch, waiter.wake)
        self._call = call
        give_up = partial(self._thread.cancel, call)
        try:
            await waiter.wait(lambda: self._is_entered or call.is_over, give_up)
        except BaseException:
            await waiter.wait(lambda: call.is_over, give_up)
            raise
        if not self._is_entered:
            call.result()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the source, and return when that is done."""
        call, waiter = self._require_open()
        self._thread.cancel(call)
        await waiter.wait(lambda: call.is_over, lambda: None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        call, waiter = self._require_open()
        while not self._items:
            # Items that came before the end are there by the time that it is over.
            if call.is_over and not self._items:
                call.result()
                raise StopAsyncIteration
            if not self._items:
                await waiter.next()
        item = self._items.popleft()
        if len(self._items) == _AHEAD - 1:  # it may wait for this one
            self._thread.call_soon(self._make_room)
        return item

    def _require_open(self) -> tuple[ThreadCall[None], LoopWaiter]:
        if self._call is None or self._waiter is None:
            raise TypeError(
                "write: async with greenroom.iterate(…) as items: async for item in items"
            )
        return self._call, self._waiter

    async def _fetch(self) -> None:
        """Iterate over the source, in trio's thread."""
        assert self._waiter is not None
        async with AsyncExitStack() as stack:
            source = self._source()
            if isinstance(source, AbstractAsyncContextManager):
                source = await stack.enter_async_context(source)
            self._is_entered = True
            self._waiter.wake()
            async for item in source:
                self._items.append(item)
                self._waiter.wake()
                while len(self._items) >= _AHEAD:
                    await self._room.wait()
                    self._room = trio.Event()

    def _make_room(self) -> None:
        self._room.set()
