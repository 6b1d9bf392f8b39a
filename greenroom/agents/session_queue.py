"""The queue of runs that wait for the same session, each for the end of the one before.

It holds for the runs of one event loop. No run waits for a session that a spawned agent, another
loop or another process has, since it could not be told when that is free.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Literal, TypeAlias

import trio

from greenroom.core import SelfWaitError, SessionInUseError
from greenroom.session import SessionStore
from greenroom.session._internal import default_store

OnBusy: TypeAlias = Literal["error", "queue"]
"""What a run does if another run has its session: fails, or waits for that one's end."""

MOST_WAITING = 16
"""How many runs may wait for one session."""

_Key: TypeAlias = tuple[object, str, object]  # the event loop, the session, and where it is stored


class _Waiter:
    """A run that waits, and the sessions that it keeps from others meanwhile."""

    def __init__(self, held: tuple[_Key, ...]) -> None:
        self.held = held
        self.is_next = trio.Event()


class _Queue:
    """The runs that wait for a session which another run has."""

    def __init__(self) -> None:
        self.waiting: deque[_Waiter] = deque()
        self.is_used = False  # a run without a place in it must not overtake those that have one


_queues: dict[_Key, _Queue] = {}
"""One for each session that a run has."""

_held: ContextVar[tuple[_Key, ...]] = ContextVar("held_sessions", default=())
"""The sessions of the runs in which the caller runs."""


@asynccontextmanager
async def hold_session(
    session_id: str, store: SessionStore | None, on_busy: OnBusy
) -> AsyncIterator[None]:
    """Keep a session for the run in the block; first wait for the runs before it, if it may.

    Raises:
        SessionInUseError: 16 runs wait already; or runs wait, and this one may not.
        SelfWaitError: the run that has the session waits for this one.
    """
    store = store or default_store()
    place = store.folder(session_id) or id(store)
    key = (trio.lowlevel.current_trio_token(), session_id, place)
    queue = _queues.get(key)
    if queue is None:
        queue = _queues[key] = _Queue()
    elif on_busy == "queue":
        await _wait(key, queue)
    elif queue.is_used:
        raise SessionInUseError(
            f"the session {session_id} has a running agent, and other runs wait for it",
            session_id=session_id,
            hint='pass on_busy="queue" to wait behind them',
        )
    else:
        yield  # where the agent is spawned, it is refused as any other agent would be
        return
    before = _held.set((*_held.get(), key))
    try:
        yield
    finally:
        _pass_on(key, queue)
        _held.reset(before)


async def _wait(key: _Key, queue: _Queue) -> None:
    waiter = _Waiter(_held.get())
    _refuse_circle(key, waiter.held)
    if len(queue.waiting) >= MOST_WAITING:
        raise SessionInUseError(
            f"{MOST_WAITING} runs wait for the session {key[1]} already",
            session_id=key[1],
            hint="try again later, or fork the session",
        )
    queue.is_used = True
    queue.waiting.append(waiter)
    try:
        await waiter.is_next.wait()
    except BaseException:
        if waiter in queue.waiting:
            queue.waiting.remove(waiter)
        else:
            _pass_on(key, queue)
        raise


def _pass_on(key: _Key, queue: _Queue) -> None:
    if queue.waiting:
        queue.waiting.popleft().is_next.set()
    else:
        del _queues[key]


def _refuse_circle(key: _Key, held: tuple[_Key, ...]) -> None:
    """Refuse a wait for a run that waits, perhaps through others, for one that the caller is in."""
    reached, found = {key}, [key]
    while found:
        each = found.pop()
        if each in held:
            raise SelfWaitError(
                f"the run that has the session {key[1]} would wait for this one",
                hint="give the inner run a session of its own, or fork this one",
            )
        for other, queue in _queues.items():
            if other not in reached and any(each in waiter.held for waiter in queue.waiting):
                reached.add(other)
                found.append(other)
