"""What an async iterator in trio's thread yields, iterated over in asyncio."""

from collections import deque
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Self, TypeVar

import trio

from greenroom.runtime.thread.waiter import LoopWaiter

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable

    from greenroom.runtime.thread.crossing import Crossing
    from greenroom.runtime.thread.runtime_thread import RuntimeThread

T = TypeVar("T")

_AHEAD = 64  # items that are fetched before they are asked for


class CrossedItems(Generic[T]):
    """An iterator for asyncio, made by `RuntimeThread.iterate`; use it with `async with`.

    At most 64 items are fetched ahead, so that a slow reader slows the source down; a subscription
    tells it with `Lagged` what it missed. What the source raises is raised here.
    """

    def __init__(self, thread: "RuntimeThread", source: "Callable[[], AsyncIterable[T]]") -> None:
        """Made by `RuntimeThread.iterate`."""
        self._thread = thread
        self._source = source
        self._items = deque[T]()
        self._room = trio.Event()
        self._is_entered = False
        self._waiter: LoopWaiter | None = None
        self._crossing: Crossing[None] | None = None

    async def __aenter__(self) -> Self:
        """Enter the source, and return when that is done; so a subscriber misses nothing from then on."""
        self._waiter = waiter = LoopWaiter()
        crossing: Crossing[None] = self._thread.begin(self._fetch, waiter.wake)
        self._crossing = crossing
        give_up = partial(self._thread.cancel, crossing)
        try:
            await waiter.wait(lambda: self._is_entered or crossing.is_over, give_up)
        except BaseException:
            await waiter.wait(lambda: crossing.is_over, give_up)
            raise
        if not self._is_entered:
            crossing.result()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the source, and return when that is done."""
        crossing, waiter = self._require_open()
        self._thread.cancel(crossing)
        await waiter.wait(lambda: crossing.is_over, lambda: None)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        crossing, waiter = self._require_open()
        while not self._items:
            # Items that came before the end are there by the time that it is over.
            if crossing.is_over and not self._items:
                crossing.result()
                raise StopAsyncIteration
            if not self._items:
                await waiter.next()
        item = self._items.popleft()
        if len(self._items) == _AHEAD - 1:  # it may wait for this one
            self._thread.soon(self._make_room)
        return item

    def _require_open(self) -> "tuple[Crossing[None], LoopWaiter]":
        if self._crossing is None or self._waiter is None:
            raise TypeError(
                "write: async with greenroom.iterate(…) as items: async for item in items"
            )
        return self._crossing, self._waiter

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
