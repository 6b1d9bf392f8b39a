"""What comes between the steps of a save: a cancel, or an act of another writer."""

import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

import trio

from greenroom.session import (
    Position,
    SessionMetadata,
    SessionStore,
    SessionWriter,
    StoredSession,
)

T = TypeVar("T")


class _Stop(trio.abc.Instrument):
    """Cancels a scope when this task has made so many steps."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self._left = steps
        self._task = trio.lowlevel.current_task()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._left -= 1
            if self._left == 0:
                self._scope.cancel()


@contextmanager
def cancelling(scope: trio.CancelScope, steps: int) -> Iterator[None]:
    """Cancel a scope when the task that runs the block has made so many steps in it."""
    stop = _Stop(scope, steps)
    if steps == 0:
        scope.cancel()
    trio.lowlevel.add_instrument(stop)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(stop)


async def act_within(
    work: Coroutine[object, object, T], step: int, act: Callable[[], Awaitable[None]]
) -> tuple[T, bool]:
    """Do the work, and the act behind its step of this number, from 1, before it goes on.

    Both are done by this task, so nothing of the work happens meanwhile but what it has left to threads
    and to other machines, and for that its step waits.

    Returns:
        What the work returned, and whether it had as many steps as that.
    """
    steps = [0]

    async def interrupt() -> None:
        steps[0] += 1
        if steps[0] == step:
            await act()

    found = await _stepwise(work, interrupt)
    return found, steps[0] >= step


@types.coroutine
def _stepwise(
    work: Coroutine[object, object, T], between: Callable[[], Coroutine[object, object, None]]
) -> Generator[object, object, T]:
    """Pass on what the work asks of trio, and come in between each time it has an answer."""
    answer: object = None
    failure: BaseException | None = None
    while True:
        try:
            wish = work.send(answer) if failure is None else work.throw(failure)
        except StopIteration as done:
            found: T = done.value
            return found
        try:
            answer, failure = (yield wish), None
            yield from between().__await__()
        except BaseException as error:  # noqa: BLE001 -- it is raised in the work, which ends with it
            failure = error


class AfterAppend:
    """A store whose first line is followed by an act, before anything else happens."""

    def __init__(self, store: SessionStore, act: Callable[[], None]) -> None:
        """Put it around a store."""
        self._store = store
        self.acts = [act]
        self.exists = store.exists
        self.read = store.read
        self.read_last = store.read_last
        self.list_all = store.list_all
        self.folder = store.folder

    async def acquire(self, session_id: str) -> SessionWriter:
        """Acquire the session from the store, with an eye on its lines."""
        return _ActingWriter(await self._store.acquire(session_id), self.acts)


class _ActingWriter:
    def __init__(self, writer: SessionWriter, acts: list[Callable[[], None]]) -> None:
        self._writer = writer
        self._acts = acts

    @property
    def is_broken(self) -> bool:
        return self._writer.is_broken

    async def read(self, since: Position) -> StoredSession:
        return await self._writer.read(since)

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        await self._writer.append(line, at, flush=flush)
        while self._acts:
            self._acts.pop()()

    async def write_metadata(self, metadata: SessionMetadata) -> None:
        await self._writer.write_metadata(metadata)

    async def set_aside(self, at: Position) -> str:
        return await self._writer.set_aside(at)

    async def delete(self) -> None:
        await self._writer.delete()

    async def release(self) -> None:
        await self._writer.release()
