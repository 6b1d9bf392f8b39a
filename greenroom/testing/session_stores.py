"""Checks for session stores: this project's own pass them, and so should yours.

`check_session_store` runs all of `SESSION_STORE_CHECKS`. The checks here are those of writing: one
holder, cancelled, cut off or replaced, and of deleting. What a store keeps and how it is read back
is in `session_store_contents`, with `StoreUnderTest`, which says how your store is opened; lists,
files and lost answers have modules of their own.
"""

import os
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from itertools import cycle
from typing import TypeVar, cast

import trio

from greenroom import core
from greenroom.core import Message, utc_now
from greenroom.core._internal import new_id, set_clock
from greenroom.session import (
    START,
    AgentSession,
    Position,
    SessionExistsError,
    SessionFencedError,
    SessionStore,
    SessionWriter,
)
from greenroom.session._internal import History, encode_line
from greenroom.testing.session_store_contents import (
    CONTENT_CHECKS,
    StoreUnderTest,
    add_and_save,
    check_equal,
    checks_in,
    expect_error,
    load_texts,
    save_new,
)
from greenroom.testing.session_store_files import FILE_CHECKS
from greenroom.testing.session_store_lists import LIST_CHECKS
from greenroom.testing.session_store_outcomes import OUTCOME_CHECKS

W = TypeVar("W")


class _CancelAfter(trio.abc.Instrument):
    """Cancels a scope when this task has made so many steps."""

    def __init__(self, scope: trio.CancelScope, steps: int) -> None:
        self._scope = scope
        self._steps_left = steps
        self._task = trio.lowlevel.current_task()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self._task:
            self._steps_left -= 1
            if self._steps_left == 0:
                self._scope.cancel()


@contextmanager
def cancel_after(scope: trio.CancelScope, steps: int) -> Iterator[None]:
    """Cancel a scope when the task that runs the block has made so many steps in it."""
    stop = _CancelAfter(scope, steps)
    if steps == 0:
        scope.cancel()
    trio.lowlevel.add_instrument(stop)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(stop)


async def act_within(
    work: Coroutine[object, object, W], step: int, act: Callable[[], Awaitable[None]]
) -> tuple[W, bool]:
    """Do the work, and the act after its step of this number, counted from 1.

    Both are done by this task, so nothing of the work happens meanwhile but what it has left to
    threads and to other machines, and for that its step waits.

    Returns:
        What the work returned, and whether it had as many steps as that.
    """
    steps = [0]

    async def interrupt() -> None:
        steps[0] += 1
        if steps[0] == step:
            await act()

    result = await _stepwise(work, interrupt)
    return result, steps[0] >= step


@types.coroutine
def _stepwise(
    work: Coroutine[object, object, W], between: Callable[[], Coroutine[object, object, None]]
) -> Generator[object, object, W]:
    """Pass on what the work asks of trio, and come in between each time it has an answer."""
    answer: object = None
    failure: BaseException | None = None
    while True:
        try:
            wish = work.send(answer) if failure is None else work.throw(failure)
        except StopIteration as done:
            result: W = done.value
            return result
        try:
            answer, failure = (yield wish), None
            yield from between().__await__()
        except BaseException as error:  # noqa: BLE001 -- it is raised in the work, which ends with it
            failure = error


class AfterAppend:
    """A store whose first line is followed by an act, before anything else happens."""

    def __init__(self, store: SessionStore, act: Callable[[], None]) -> None:
        self._store = store
        self.acts = [act]
        self.exists = store.exists
        self.read = store.read
        self.read_last = store.read_last
        self.list_all = store.list_all
        self.list_page = store.list_page
        self.put_file = store.put_file
        self.open_file = store.open_file
        self.list_files = store.list_files
        self.remove_file = store.remove_file
        self.folder = store.folder

    async def acquire(self, session_id: str) -> SessionWriter:
        """Acquire the session from the store; its writer acts after an append."""
        return cast(
            "SessionWriter", _ActingWriter(await self._store.acquire(session_id), self.acts)
        )


class _ActingWriter:
    """A writer in all but `append`."""

    def __init__(self, writer: SessionWriter, acts: list[Callable[[], None]]) -> None:
        self._writer = writer
        self._acts = acts

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)

    async def append(self, line: bytes, at: Position, *, flush: bool = True) -> None:
        await self._writer.append(line, at, flush=flush)
        while self._acts:
            self._acts.pop()()


async def one_writer_at_a_time(case: StoreUnderTest) -> None:
    """A second writer is refused, with the holder's process; readers are allowed."""
    store = await case.open()
    first = await save_new(store, "one")
    await first.open()
    await first.open()  # it is open already
    second = await AgentSession.load(first.session_id, store=store)
    for other in (store, await case.open()):
        second = await AgentSession.load(first.session_id, store=other)
        second.add_message(Message.user("two"))
        for attempt in (second.save, second.open):
            with expect_error(core.SessionLockedError) as caught:
                await attempt()
            check_equal(caught[0].session_id, first.session_id)
            assert caught[0].pid in (os.getpid(), None), "it names the process, if it knows it"
            assert caught[0].holder.count("/") in (0, 2), "HOST/PID/STORE, if it knows it"
        check_equal(await load_texts(other, first), ["one"])
    await first.close()
    await second.save()
    check_equal(await load_texts(store, first), ["one", "two"])


async def each_writer_has_a_higher_epoch(case: StoreUnderTest) -> None:
    """Whatever the wall clock does, and whether anything was stored or deleted meanwhile."""
    store, stored, last = await case.open(), await save_new(await case.open(), "one"), 0
    start, session_id = utc_now(), stored.session_id
    try:
        for hours in (0, 0, 2, 1, -5, -5):
            moment = start + timedelta(hours=hours)
            set_clock(partial(_just, moment))
            for each in (store, await case.open()):
                writer = await each.acquire(session_id)
                assert writer.epoch > last, f"{writer.epoch} follows {last}"
                assert writer.epoch >= moment.timestamp() * 1000, "it is the time at the least"
                last = writer.epoch
                await writer.release()
    finally:
        set_clock(None)
    await AgentSession.delete(session_id, store=store)
    writer = await store.acquire(session_id)
    assert writer.epoch > last, "a new session of that id has a later epoch"
    await writer.release()


def _just(moment: datetime) -> datetime:
    return moment


async def an_open_unsaved_session_holds_its_id(case: StoreUnderTest) -> None:
    """An id is reserved while a session holds it, and free again if nothing was stored."""
    store, session_id = await case.open(), new_id("s")
    first = AgentSession.new("checked", session_id=session_id, store=store)
    second = AgentSession.new("checked", session_id=session_id, store=await case.open())
    await first.open()
    with expect_error(core.SessionLockedError):
        await second.open()
    await first.close()
    await second.open()
    await second.close()


async def a_new_session_cannot_take_an_id_of_the_store(case: StoreUnderTest) -> None:
    """Neither while the session with that id is open nor later."""
    store = await case.open()
    first = await save_new(store, "one")
    second = AgentSession.new("checked", session_id=first.session_id, store=store)
    second.add_message(Message.user("other"))
    for attempt in (second.save, second.open):
        with expect_error(SessionExistsError):
            await attempt()
    await first.open()
    with expect_error(SessionExistsError):
        await second.open()
    await first.close()
    check_equal(await load_texts(store, first), ["one"])


async def opening_brings_in_what_another_writer_added(case: StoreUnderTest) -> None:
    """Opening a session loads its latest stored state."""
    store = await case.open()
    first = await save_new(store, "one")
    reader = await AgentSession.load(first.session_id, store=await case.open())
    first.add_message(Message.assistant("two"))
    first.set_metadata("title", "mine")
    await first.save()
    await reader.open()
    check_equal([message.text for message in reader.history], ["one", "two"])
    check_equal(reader.metadata, {"title": "mine"})
    await reader.close()


async def a_change_on_both_sides_is_refused(case: StoreUnderTest) -> None:
    """Only one of two loaded copies of a session can continue."""
    store = await case.open()
    first = await save_new(store, "one")
    second = await AgentSession.load(first.session_id, store=store)
    await add_and_save(first, Message.user("two"))
    second.add_message(Message.user("also two"))
    for attempt in (second.save, second.open):
        with expect_error(core.SessionError, message="another writer"):
            await attempt()
    await add_and_save(first, Message.user("three"))
    check_equal(await load_texts(store, first), ["one", "two", "three"])


async def saves_at_the_same_time_store_everything_once(case: StoreUnderTest) -> None:
    """Tasks that share an open session may all save it."""
    store = await case.open()
    session = AgentSession.new("checked", store=store)

    async def say(number: int) -> None:
        await add_and_save(session, Message.user(str(number)))

    await session.open()
    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(say, number)
    await session.close()
    check_equal(await load_texts(store, session), [message.text for message in session.history])
    check_equal(len(session.history), 20)


async def a_save_cancelled_at_any_moment_can_be_repeated(case: StoreUnderTest) -> None:
    """Wherever it is cut off, it leaves the session free, and no message is stored twice."""
    store, steps, is_cut = await case.open(), 0, True
    while is_cut:
        session = AgentSession.new("checked", store=store)
        session.add_message(Message.user("one"))
        with trio.CancelScope() as scope:
            with cancel_after(scope, steps):
                await session.save()
        steps, is_cut = steps + 1, scope.cancelled_caught
        await session.save()
        check_equal(await load_texts(store, session), ["one"])
    assert steps > 1, "saving can be cancelled"


async def closing_releases_the_lock_even_when_cancelled(case: StoreUnderTest) -> None:
    """A cancelled holder leaves no lock behind."""
    store = await case.open()
    session = await save_new(store, "one")
    await session.open()
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.close()
    again = await AgentSession.load(session.session_id, store=store)
    await again.open()
    await again.close()


async def cancelling_between_the_two_writes_loses_nothing(case: StoreUnderTest) -> None:
    """A first save is a line and a description; cut off between them, it can be repeated."""
    for is_open in (True, False):
        store, session_id = await case.open(), new_id("s")
        scope = trio.CancelScope()
        cut = AfterAppend(store, scope.cancel)
        session = AgentSession.new("checked", session_id=session_id, store=cut)
        session.add_message(Message.user("one"))
        with scope:
            if is_open:
                await session.open()
            await session.save()
        await session.close()
        check_equal(await store.exists(session_id), not scope.cancelled_caught)
        await add_and_save(session, Message.user("two"))
        check_equal(await load_texts(store, session), ["one", "two"])


async def what_is_added_during_a_save_is_stored_by_the_next(case: StoreUnderTest) -> None:
    """A message that comes while a line is being written is neither lost nor written twice."""
    store = await case.open()
    busy = AfterAppend(store, lambda: session.add_message(Message.user("two")))
    session = AgentSession.new("checked", store=busy)
    await add_and_save(session, Message.user("one"))
    assert not session.is_saved, "the second is not stored yet"
    check_equal(await load_texts(store, session), ["one"])
    await session.save()
    assert session.is_saved, "the second is stored"
    check_equal(await load_texts(store, session), ["one", "two"])


async def a_writer_that_lost_its_session_writes_nothing(case: StoreUnderTest) -> None:
    """A writer that has lost its lock can write nothing once there is a new holder."""
    store = await case.open()
    session = await save_new(store, "one")
    stored = await store.read(session.session_id)
    end = stored.history.end
    line = encode_line([b'{"kind":"rewind","to":0}'], end)
    stale = await store.acquire(session.session_id)
    await case.lose_lock(session.session_id)
    heir = await (await case.open()).acquire(session.session_id)
    assert stored.metadata is not None, "it was stored"
    with expect_error(SessionFencedError):
        await stale.append(line, end)
    with expect_error(SessionFencedError):
        await stale.write_metadata(stored.metadata)
    with expect_error(SessionFencedError):
        await stale.set_aside(START)
    with expect_error(SessionFencedError):
        await stale.delete()
    await stale.release()
    with expect_error(core.SessionLockedError):
        await store.acquire(session.session_id)
    check_equal((await heir.read(START)).history, stored.history)
    await heir.append(line, end)
    await heir.release()
    check_equal(await load_texts(store, session), [])


async def a_writer_that_loses_its_session_within_a_write_does_not_go_on(
    case: StoreUnderTest,
) -> None:
    """Checking the lock and writing is one step: nothing can come between.

    Whichever step of an append the next writer comes behind: once that one has its right, the
    history is its own, with the line or without.
    """
    step, is_within = 1, True
    while is_within:
        store, seen = await case.open(), list[History]()
        session = await save_new(store, "one")
        end = (await store.read(session.session_id)).history.end
        stale = await store.acquire(session.session_id)

        async def take_over(session_id: str = session.session_id) -> None:
            await case.lose_lock(session_id)
            heir = await (await case.open()).acquire(session_id)
            seen.append((await heir.read(START)).history)  # noqa: B023 -- it is called in this round
            heirs.append(heir)  # noqa: B023

        heirs = list[SessionWriter]()
        line = encode_line([b'{"kind":"rewind","to":0}'], end)
        try:
            _, is_within = await act_within(stale.append(line, end), step, take_over)
        except SessionFencedError:
            is_within = True
        if heirs:
            check_equal((await heirs[0].read(START)).history, seen[0])
            await heirs[0].release()
        await stale.release()
        step += 1
    assert step > 1, "appending takes a step at the least"


async def a_deleted_session_is_gone_and_its_id_is_free(case: StoreUnderTest) -> None:
    """It is not found any more, the others are unchanged, and a new session may have its id."""
    store = await case.open()
    session, other = await save_new(store, "one", "two"), await save_new(store, "other")
    await AgentSession.delete(session.session_id, store=store)
    for each in (store, await case.open()):
        await _is_gone(each, session.session_id)
        check_equal(await load_texts(each, other), ["other"])
    with expect_error(core.SessionNotFoundError) as caught:
        await AgentSession.delete(session.session_id, store=store)
    check_equal(caught[0].session_id, session.session_id)
    again = AgentSession.new("checked", session_id=session.session_id, store=store)
    await add_and_save(again, Message.user("new"))
    check_equal(await load_texts(store, again), ["new"])


async def a_deleted_session_cannot_be_stored_again(case: StoreUnderTest) -> None:
    """Saving and opening fail, with changes or without, and restore nothing."""
    store = await case.open()
    session = await save_new(store, "one")
    loaded = await AgentSession.load(session.session_id, store=await case.open())
    await AgentSession.delete(session.session_id, store=store)
    with expect_error(core.SessionNotFoundError):
        await loaded.open()
    loaded.add_message(Message.user("more"))
    for attempt in (loaded.save, loaded.open):
        with expect_error(core.SessionNotFoundError):
            await attempt()
    await _is_gone(store, session.session_id)


async def a_session_that_is_written_is_not_deleted(case: StoreUnderTest) -> None:
    """Its holder continues unaffected."""
    store = await case.open()
    session = await save_new(store, "one")
    await session.open()
    for each in (store, await case.open()):
        with expect_error(core.SessionLockedError):
            await AgentSession.delete(session.session_id, store=each)
    await add_and_save(session, Message.assistant("two"))
    await session.close()
    check_equal(await load_texts(store, session), ["one", "two"])
    await AgentSession.delete(session.session_id, store=store)


async def a_damaged_session_can_be_deleted(case: StoreUnderTest) -> None:
    """A session that can't be read can still be deleted."""
    store = await case.open()
    session = await save_new(store, "one")
    await add_and_save(session, Message.assistant("two"))
    await case.damage(session.session_id, 0)
    await AgentSession.delete(session.session_id, store=store)
    await _is_gone(store, session.session_id)


async def a_writer_that_deleted_its_session_writes_nothing(case: StoreUnderTest) -> None:
    """It loses its right with the session; once it has released the id, others can acquire it."""
    store = await case.open()
    session = await save_new(store, "one")
    stored = await store.read(session.session_id)
    writer = await store.acquire(session.session_id)
    await writer.delete()
    assert stored.metadata is not None, "it was stored"
    with expect_error(SessionFencedError):
        await writer.append(encode_line([b'{"kind":"rewind","to":0}'], START), START)
    with expect_error(SessionFencedError):
        await writer.write_metadata(stored.metadata)
    await _is_gone(store, session.session_id)
    await writer.release()
    await (await store.acquire(session.session_id)).release()
    await _is_gone(store, session.session_id)


async def a_delete_cancelled_at_any_moment_leaves_a_session_whole_or_gone(
    case: StoreUnderTest,
) -> None:
    """Wherever it is cut off, no half of a session is left, and no lock."""
    store, steps, is_cut = await case.open(), 0, True
    while is_cut:
        session = await save_new(store, "one", "two")
        with trio.CancelScope() as scope:
            with cancel_after(scope, steps):
                await AgentSession.delete(session.session_id, store=store)
        steps, is_cut = steps + 1, scope.cancelled_caught
        if await store.exists(session.session_id):
            check_equal(await load_texts(store, session), ["one", "two"])
            await AgentSession.delete(session.session_id, store=store)
        await _is_gone(store, session.session_id)
    assert steps > 1, "deleting can be cancelled"


async def children_are_deleted_with_their_parent_where_that_is_asked_for(
    case: StoreUnderTest,
) -> None:
    """Their children too, and no other sessions; a session in use keeps its ancestors."""
    store = await case.open()
    parent, other = await save_new(store, "parent"), await save_new(store, "other")
    child = await _child(store, parent)
    grandchild = await _child(store, child)
    await AgentSession.delete(grandchild.session_id, store=store)
    check_equal(await load_texts(store, child), ["child"])
    grandchild = await _child(store, child)
    for busy in (parent, grandchild):
        await busy.open()
        with expect_error(core.SessionLockedError):
            await AgentSession.delete(parent.session_id, store=store, children=True)
        for each in (parent, child, grandchild):
            check_equal(await store.exists(each.session_id), True)
        await busy.close()
    await AgentSession.delete(parent.session_id, store=store, children=True)
    for each in (parent, child, grandchild):
        await _is_gone(store, each.session_id)
    check_equal(await load_texts(store, other), ["other"])


async def many_sessions_are_deleted_side_by_side(case: StoreUnderTest) -> None:
    """Deletes at the same time don't get in each other's way, with children or without."""
    store = await case.open()
    alone = [await save_new(store, "alone") for _ in range(60)]
    parents = [await save_new(store, "parent") for _ in range(10)]
    children = [await _child(store, parent) for parent in parents for _ in range(5)]
    other = await save_new(store, "other")

    stores = cycle((store, await case.open()))
    async with trio.open_nursery() as nursery:
        for each in (*alone, *parents):
            delete = partial(AgentSession.delete, store=next(stores), children=each in parents)
            nursery.start_soon(delete, each.session_id)
    remaining = {each.session_id for each in await store.list_all()}
    check_equal(remaining & {each.session_id for each in (*alone, *parents, *children)}, set())
    check_equal(await load_texts(store, other), ["other"])


async def _child(store: SessionStore, parent: AgentSession) -> AgentSession:
    session = AgentSession.new_subagent(
        "checked", parent.session_id, session_id=new_id("s"), store=store
    )
    await add_and_save(session, Message.user("child"))
    return session


async def _is_gone(store: SessionStore, session_id: str) -> None:
    """Check that neither `exists` nor a load nor the list finds it."""
    check_equal(await store.exists(session_id), False)
    with expect_error(core.SessionNotFoundError):
        await AgentSession.load(session_id, store=store)
    assert session_id not in [each.session_id for each in await store.list_all()], "it is listed"


_PATIENCE = 60.0
"""Seconds for one check, which takes milliseconds on any store that does not hang."""

SESSION_STORE_CHECKS = (
    *CONTENT_CHECKS,
    *LIST_CHECKS,
    *FILE_CHECKS,
    *OUTCOME_CHECKS,
    *checks_in(__name__),
)
"""All checks, to be run one by one: `@pytest.mark.parametrize("check", SESSION_STORE_CHECKS)`."""


async def check_session_store(case: StoreUnderTest) -> None:
    """Run every check on a store, in turn; each makes its own sessions in it.

    What passes behaves as this project's stores do. It does not show that a store survives a crash
    or a loss of power: that takes a process that is killed, and a disk that fails.

    Raises:
        AssertionError: the store did something wrong.
        trio.TooSlowError: a check hung.
        Exception: whatever the store raised; each has a note that names the check.

    Example:
        ```python
        trio.run(check_session_store, MyStoreUnderTest())
        ```
    """
    for check in SESSION_STORE_CHECKS:
        try:
            with trio.fail_after(_PATIENCE):
                await check(case)
        except Exception as error:
            error.add_note(f"in the check {check.__name__}")
            raise
