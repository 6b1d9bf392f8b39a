"""Checks of what a session store keeps, and `StoreUnderTest`, the store that is checked.

The checks are about stored values, the history as lines, and its last page. `session_stores` runs
them.
"""

import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, TypeVar

import msgspec
import trio

from greenroom import core
from greenroom.core import Message
from greenroom.core._internal import InvalidSessionIdError, new_id, set_clock
from greenroom.session import START, AgentSession, Position, SessionCorruptError, SessionStore
from greenroom.session._internal import encode_line, read_last

E = TypeVar("E", bound=Exception)


class StoreUnderTest(ABC):
    """A store to check with `check_session_store`: how to open it, and how to damage it.

    All that `open` returns holds the same sessions. They may hold others than the checks make.
    """

    @abstractmethod
    async def open(self) -> SessionStore:
        """Open the store as another process would; one in memory returns the same object."""

    @abstractmethod
    async def lose_lock(self, session_id: str) -> None:
        """Make the store consider the session's writer dead, though it is alive."""

    @abstractmethod
    async def remove(self, session_id: str) -> None:
        """Remove all that is stored of a session."""

    @abstractmethod
    async def damage(self, session_id: str, line: int) -> None:
        """Change a byte in this line of the history, counted from 0, but not its newline."""


SessionStoreCheck: TypeAlias = Callable[[StoreUnderTest], Awaitable[None]]
"""One check: it returns, or fails with an error that says what the store did wrong."""


def checks_in(module: str) -> tuple[SessionStoreCheck, ...]:
    """Return the checks that a module defines so far: its functions that take only a `case`."""
    functions = filter(inspect.isfunction, vars(sys.modules[module]).values())
    own = (each for each in functions if each.__module__ == module)
    return tuple(each for each in own if [*inspect.signature(each).parameters] == ["case"])


async def save_new(store: SessionStore, *messages: Message | str) -> AgentSession:
    """Store a new session with these messages."""
    session = AgentSession.new("checked", session_id=new_id("s"), store=store)
    for message in messages:
        session.add_message(Message.user(message) if isinstance(message, str) else message)
    await session.save()
    return session


async def add_and_save(session: AgentSession, message: Message) -> None:
    """Add a message to a session, and save it."""
    session.add_message(message)
    await session.save()


async def load_texts(store: SessionStore, session: AgentSession) -> list[str]:
    """Load a session, check that nothing is torn, and return the texts of its messages."""
    loaded = await AgentSession.load(session.session_id, store=store)
    check_equal(loaded.repair, None)
    return [message.text for message in loaded.history]


def check_equal(actual: object, expected: object) -> None:
    """Fail unless both are equal.

    Raises:
        AssertionError: they are not; it shows both.
    """
    assert actual == expected, f"found {actual!r}, expected {expected!r}"


@contextmanager
def expect_error(kind: type[E], *, message: str = "") -> Iterator[list[E]]:
    """Fail unless the block raises this error, with these words; the list then holds it.

    Raises:
        AssertionError: it did not.
    """
    caught: list[E] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
    assert caught, f"{kind.__name__} was not raised"
    assert message in str(caught[0]), f"the error should say {message!r}: {caught[0]}"


_CONVERSATION = (
    Message.user("read a.txt\u2028please"),
    Message.assistant(
        [core.TextBlock("Gladly."), core.ToolUseBlock("t1", "Read", {"file_path": "a.txt"})]
    ),
    Message.user([core.ToolResultBlock("t1", (core.TextBlock("hällo\n"),))]),
    Message.assistant("It says hällo."),
)
_HOSTILE_IDS = ("", "a\0b", "a\n", "\x85", "\ud800", "a" * 201)
_STRANGE_IDS = (
    *("ann@x.org", "org/1", ".", "..", "../a", "/a", "a\\b", "%2e", "a'", "a b", " ", "#", "~"),
    *("Ann", "ann", "ANN", "CON", "con", "nul.txt", "-rf", "lock", "metadata.json", ".deleted-a"),
    *(
        "\u00e9",
        "e\u0301",
        "\u212b",
        "\u202e",
        "stra\u00dfe",
        "STRASSE",
        "\U0001f3ad" * 200,
        "x" * 200,
    ),
)


async def a_loaded_session_equals_the_saved_one(case: StoreUnderTest) -> None:
    """Messages, lineage and metadata come back as they were, through a newly opened store."""
    store = await case.open()
    session = AgentSession.new_subagent("checked", new_id("s"), "t9", store=store)
    for message in _CONVERSATION:
        session.add_message(message)
    session.set_model("anthropic", "claude-sonnet-4-5")
    session.description.add_child(new_id("s"))
    session.set_metadata("custom_key", {"a": [1, None, "ü"]})
    with control_clock():  # a line that is stored a second later makes the session newer
        await session.save()
    assert session.is_saved, "nothing is left to save"
    loaded = await AgentSession.load(session.session_id, store=await case.open())
    check_equal(loaded.history, _CONVERSATION)
    check_equal([each.id for each in loaded.history], [each.id for each in _CONVERSATION])
    check_equal(loaded.description.record, session.description.record)
    check_equal(loaded.repair, None)
    assert loaded.is_saved, "loading changes nothing"


async def a_session_grows_over_many_saves_and_loads(case: StoreUnderTest) -> None:
    """Each holder continues where the one before stopped."""
    store = await case.open()
    session_id = (await save_new(store, _CONVERSATION[0])).session_id
    for message in (_CONVERSATION[3], Message.user("and?"), _CONVERSATION[3]):
        session = await AgentSession.load(session_id, store=await case.open())
        await add_and_save(session, message)
    history = (await AgentSession.load(session_id, store=store)).history
    check_equal([message.role for message in history], ["user", "assistant", "user", "assistant"])


async def the_stored_description_is_the_last(case: StoreUnderTest) -> None:
    """A description replaces the one before, as a whole."""
    store = await case.open()
    with control_clock():
        session = await save_new(store, "one")
        for title in ("first", "second"):
            session.set_metadata("title", title)
            await session.save()
        session.set_model("offline", "offline")
        await session.save()
    stored = await store.read(session.session_id)
    check_equal(stored.metadata, session.description.record)
    check_equal(stored.metadata and stored.metadata.metadata, {"title": "second"})


async def any_json_survives(case: StoreUnderTest) -> None:
    """Numbers, nulls and texts of every kind and size come back as they were."""
    store = await case.open()
    wild = {
        "a": [1.5, None, True, {"ключ": "\u2028\x00'\"\\"}],
        "big": 2**70,
        "": "",
        "long": "ß" * 600_000,
    }
    session = await save_new(store, Message.assistant([core.ToolUseBlock("t", "X", wild)]))
    loaded = await AgentSession.load(session.session_id, store=store)
    check_equal(loaded.history[0].tool_uses[0].input, wild)


async def keys_of_newer_versions_survive(case: StoreUnderTest) -> None:
    """Fields that a newer version wrote into a description survive a writer that lacks them."""
    store = await case.open()
    session = await save_new(store, "one")
    newer = {"hologram": {"points": [1.5, None]}, "mood": "good"}
    writer = await store.acquire(session.session_id)
    await writer.write_metadata(msgspec.structs.replace(session.description.record, unknown=newer))
    await writer.write_metadata(session.description.record)
    await writer.release()
    for each in (store, await case.open()):
        stored = await each.read(session.session_id)
        check_equal(stored.metadata and stored.metadata.unknown, newer)
    loaded = await AgentSession.load(session.session_id, store=store)
    loaded.set_metadata("title", "mine")
    await loaded.save()
    stored = await store.read(session.session_id)
    check_equal(stored.metadata and stored.metadata.unknown, newer)
    check_equal(stored.metadata and stored.metadata.metadata, {"title": "mine"})


async def a_call_without_a_result_shows_as_interrupted(case: StoreUnderTest) -> None:
    """A call that was recorded as started is neither forgotten nor shown as not started."""
    store = await case.open()
    session = await save_new(store, *_CONVERSATION[:2])
    session.mark_tools_started(["t1"])
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    assert "outcome is unknown" in loaded.history[-1].tool_results[0].text, "it had started"
    await loaded.save()
    again = await AgentSession.load(session.session_id, store=store)
    check_equal(again.history, loaded.history)
    assert again.is_saved, "the answer is stored now"


async def a_description_alone_is_stored(case: StoreUnderTest) -> None:
    """A session may have values and no messages yet."""
    store = await case.open()
    session = AgentSession.new("checked", store=store)
    session.set_metadata("title", "mine")
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    check_equal((loaded.metadata, loaded.history), ({"title": "mine"}, ()))
    await add_and_save(loaded, Message.user("hi"))
    check_equal(await load_texts(store, session), ["hi"])


async def a_blank_session_is_never_stored(case: StoreUnderTest) -> None:
    """Opening and saving a session that says nothing leaves nothing behind."""
    store = await case.open()
    session = AgentSession.new("checked", store=store)
    session.set_model("offline", "offline")
    await session.save()
    await session.open()
    await session.save()
    assert not await store.exists(session.session_id), "nothing was said yet"
    await session.close()
    assert not await store.exists(session.session_id), "nothing was ever said"
    assert session.session_id not in [each.session_id for each in await store.list_all()]


async def an_unknown_session_is_not_found(case: StoreUnderTest) -> None:
    """What was never stored is not there, and looking for it does not make it."""
    store = await case.open()
    session_id = new_id("s")
    for _ in range(2):
        with expect_error(core.SessionNotFoundError) as caught:
            await AgentSession.load(session_id, store=store)
        check_equal(caught[0].session_id, session_id)
        check_equal(await store.exists(session_id), False)
        assert session_id not in [each.session_id for each in await store.list_all()]


async def a_removed_session_is_not_brought_back(case: StoreUnderTest) -> None:
    """A copy loaded before the removal can't be stored again."""
    store = await case.open()
    session = await save_new(store, "one")
    loaded = await AgentSession.load(session.session_id, store=store)
    loaded.add_message(Message.user("more"))
    await case.remove(session.session_id)
    with expect_error(core.SessionNotFoundError):
        await loaded.save()
    check_equal(await store.exists(session.session_id), False)


async def any_text_is_an_id(case: StoreUnderTest) -> None:
    """Each of them names a session of its own, which is loaded, listed, forked and deleted."""
    store, prefix = await case.open(), new_id("s")
    for session_id in _STRANGE_IDS:
        if not await store.exists(session_id):
            session = AgentSession.new("checked", session_id=session_id, store=store)
            await add_and_save(session, Message.user(f"{prefix} {session_id}"))
    listed = {each.session_id for each in await (await case.open()).list_all()}
    check_equal(listed & {*_STRANGE_IDS}, {*_STRANGE_IDS})
    for session_id in _STRANGE_IDS:
        session = await AgentSession.load(session_id, store=await case.open())
        check_equal(
            (session.session_id, session.history[0].text), (session_id, f"{prefix} {session_id}")
        )
        fork = await session.fork()
        check_equal(fork.forked_from and fork.forked_from.session_id, session_id)
        await AgentSession.delete(fork.session_id, store=store)
        await AgentSession.delete(session_id, store=store)
        check_equal(await store.exists(session_id), False)


async def a_hostile_id_is_refused(case: StoreUnderTest) -> None:
    """No id is empty, endless or leads out of the store."""
    store = await case.open()
    for session_id in _HOSTILE_IDS:
        for ask in (store.exists, store.read, store.acquire):
            with expect_error(InvalidSessionIdError):
                await ask(session_id)
        with expect_error(InvalidSessionIdError):
            store.folder(session_id)


async def many_sessions_grow_side_by_side(case: StoreUnderTest) -> None:
    """Sessions of one store are saved at the same time, and each keeps its own."""
    store = await case.open()
    sessions = [AgentSession.new("checked", store=store) for _ in range(10)]

    async def grow(session: AgentSession) -> None:
        await session.open()
        for number in range(5):
            await add_and_save(session, Message.user(f"{session.session_id} {number}"))
        await session.close()

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(grow, session)
    for session in sessions:
        check_equal(
            await load_texts(store, session), [f"{session.session_id} {each}" for each in range(5)]
        )


@contextmanager
def control_clock() -> Iterator[Iterator[datetime]]:
    """Stop the wall clock; each `next` moves it on by a minute."""
    start = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)
    moment = [start]

    def move() -> Iterator[datetime]:
        while True:
            moment[0] += timedelta(minutes=1)
            yield moment[0]

    set_clock(lambda: moment[0])
    try:
        yield move()
    finally:
        set_clock(None)


async def a_line_is_added_at_the_end_only(case: StoreUnderTest) -> None:
    """A line for another place is refused, and the history is as it was."""
    store = await case.open()
    session = await save_new(store, "one")
    end = (await store.read(session.session_id)).history.end
    line = encode_line([b'{"kind":"rewind","to":0}'], end)
    writer = await store.acquire(session.session_id)
    for place in (START, Position(end.lines + 1, end.size + 1, end.last)):
        with expect_error(core.SessionStorageError):
            await writer.append(line, place)
    check_equal(writer.is_broken, False)
    await writer.append(line, end)
    with expect_error(core.SessionStorageError):
        await writer.append(line, end)
    await writer.release()
    check_equal((await store.read(session.session_id)).history.end, end.after(line))


async def reading_goes_on_from_a_place(case: StoreUnderTest) -> None:
    """A writer reads what was added since a place, and no more."""
    store = await case.open()
    session = await save_new(store, "one")
    first = (await store.read(session.session_id)).history.end
    await add_and_save(session, Message.assistant("two"))
    whole = (await store.read(session.session_id)).history
    writer = await store.acquire(session.session_id)
    later = (await writer.read(first)).history
    check_equal(later.entries, whole.entries[-1:])
    check_equal((later.end, later.torn), (whole.end, b""))
    check_equal((await writer.read(START)).history, whole)
    check_equal((await writer.read(whole.end)).history.entries, ())
    await writer.release()


async def another_past_is_refused(case: StoreUnderTest) -> None:
    """Reading can't continue after a line that differs from the stored one."""
    store = await case.open()
    session = await save_new(store, "one")
    end = (await store.read(session.session_id)).history.end
    writer = await store.acquire(session.session_id)
    with expect_error(SessionCorruptError):
        await writer.read(Position(end.lines, end.size, end.last.replace(b"one", b"two")))
    await writer.release()


async def entries_of_newer_versions_survive(case: StoreUnderTest) -> None:
    """A kind of entry that this version does not know is passed over and kept."""
    store = await case.open()
    session = await save_new(store, "one")
    end = (await store.read(session.session_id)).history.end
    line = encode_line([b'{"kind":"hologram","points":[1]}'], end)
    writer = await store.acquire(session.session_id)
    await writer.append(line, end)
    await writer.release()
    loaded = await AgentSession.load(session.session_id, store=store)
    await add_and_save(loaded, Message.user("more"))
    check_equal(await load_texts(store, session), ["one", "more"])
    check_equal((await store.read(session.session_id)).history.end.lines, end.lines + 2)


async def what_is_saved_without_a_flush_is_read_at_once(case: StoreUnderTest) -> None:
    """A line that need not be durable yet is there for every reader."""
    store = await case.open()
    session = await save_new(store, "one")
    session.add_message(Message.assistant("two"))
    await session.save(flush=False)
    check_equal(await load_texts(await case.open(), session), ["one", "two"])
    await session.save()
    assert session.is_saved, "an empty line flushes what was written before"
    check_equal(await load_texts(store, session), ["one", "two"])


async def what_is_set_aside_is_out_of_the_history(case: StoreUnderTest) -> None:
    """A writer cuts the history off, and adds to the rest."""
    store = await case.open()
    session = await save_new(store, "one")
    first = (await store.read(session.session_id)).history.end
    await add_and_save(session, Message.assistant("two"))
    writer = await store.acquire(session.session_id)
    place = await writer.set_aside(first)
    assert place, "it says where that is now"
    check_equal((await store.read(session.session_id)).history.end, first)
    line = encode_line([b'{"kind":"rewind","to":0}'], first)
    await writer.append(line, first)
    assert await writer.set_aside(first) != place, "what was set aside before is kept"
    await writer.release()
    check_equal(await load_texts(store, session), ["one"])


async def what_a_crash_left_of_an_unsaved_session_is_put_aside(case: StoreUnderTest) -> None:
    """Lines without a description are no session, and don't get in the way of one."""
    store = await case.open()
    session = AgentSession.new("checked", session_id=new_id("s"), store=store)
    writer = await store.acquire(session.session_id)
    await writer.append(encode_line([b'{"kind":"format","version":1}'], START), START)
    await writer.release()
    check_equal(await store.exists(session.session_id), False)
    assert session.session_id not in [each.session_id for each in await store.list_all()]
    await add_and_save(session, Message.user("one"))
    check_equal(await load_texts(store, session), ["one"])


async def a_damaged_end_is_reported_and_set_aside(case: StoreUnderTest) -> None:
    """A load reports a last line that can't be read; opening the session sets it aside."""
    store = await case.open()
    session = await save_new(store, "one")
    first = (await store.read(session.session_id)).history.end
    await add_and_save(session, Message.assistant("two"))
    await case.damage(session.session_id, 1)
    loaded = await AgentSession.load(session.session_id, store=store)
    for reader in (loaded, await AgentSession.load(session.session_id, store=await case.open())):
        check_equal([message.text for message in reader.history], ["one"])
        assert reader.repair is not None, "the damage is reported"
        found = reader.repair.line, reader.repair.offset, reader.repair.set_aside
        check_equal(found, (2, first.size, ""))
    await loaded.open()
    assert loaded.repair is not None, "what was done is reported"
    assert loaded.repair.set_aside, "it is kept, and its place is reported"
    await add_and_save(loaded, Message.assistant("three"))
    await loaded.close()
    again = await AgentSession.load(session.session_id, store=store)
    check_equal([message.text for message in again.history], ["one", "three"])
    check_equal(again.repair, None)


async def damage_in_the_middle_is_refused_and_changes_nothing(case: StoreUnderTest) -> None:
    """A damaged line that others follow is an error that names it, for readers and writers."""
    store = await case.open()
    session = await save_new(store, "one")
    for text in ("two", "three"):
        await add_and_save(session, Message.assistant(text))
    await case.damage(session.session_id, 1)
    for _ in range(2):
        with expect_error(SessionCorruptError) as caught:
            await AgentSession.load(session.session_id, store=await case.open())
        check_equal((caught[0].session_id, caught[0].line), (session.session_id, 2))
        assert caught[0].path, "it names the place"
        writer = await store.acquire(session.session_id)
        with expect_error(SessionCorruptError):
            await writer.read(START)
        await writer.release()


_LONG = "so it goes " * 1_000


async def the_last_page_is_the_end_of_the_conversation(case: StoreUnderTest) -> None:
    """A page holds what a whole load ends with, over rewinds and a compaction."""
    session = await _make_long_session(case, 30)
    await _compare(case, session)
    await session.rewind(to=20)
    await _compare(case, session)
    await session.compact("what was said", keep=15)
    await _compare(case, session)
    await _grow(session, 10)
    await session.rewind(to=len(session.history) - 5)
    await _compare(case, session)


async def damage_is_noticed_in_the_last_page_and_not_before_it(case: StoreUnderTest) -> None:
    """A page is verified, and what precedes it is not looked at."""
    session = await _make_long_session(case, 30)
    await case.damage(session.session_id, 3)
    store = await case.open()
    page = await read_last(session.session_id, 2, store=store)
    check_equal(page.messages, session.history[-2:])
    with expect_error(SessionCorruptError) as caught:
        await read_last(session.session_id, 30, store=store)
    check_equal((caught[0].session_id, caught[0].line), (session.session_id, 4))


async def the_last_page_leaves_a_torn_end_out(case: StoreUnderTest) -> None:
    """A last line that can't be read is reported with a page as with a load."""
    session = await _make_long_session(case, 12)
    await case.damage(session.session_id, 12)
    store = await case.open()
    page = await read_last(session.session_id, 2, store=store)
    check_equal(page.messages, session.history[-3:-1])
    check_equal(page.repair, (await AgentSession.load(session.session_id, store=store)).repair)
    assert page.repair is not None, "it is reported"
    check_equal(page.repair.line, 13)


async def the_last_page_of_nothing_is_an_error(case: StoreUnderTest) -> None:
    """A missing session and a page of no messages are errors; a session without messages is not."""
    store = await case.open()
    with expect_error(core.SessionNotFoundError):
        await read_last(new_id("s"), 1, store=store)
    session = AgentSession.new("checked", session_id=new_id("s"), store=store)
    session.set_metadata("title", "nothing was said")
    await session.save()
    page = await read_last(session.session_id, 1, store=store)
    check_equal((page.messages, page.is_whole, page.repair), ((), True, None))
    with expect_error(ValueError):
        await read_last(session.session_id, 0, store=store)


async def _make_long_session(case: StoreUnderTest, messages: int) -> AgentSession:
    session = await save_new(await case.open(), "begin")
    await _grow(session, messages)
    return session


async def _grow(session: AgentSession, messages: int) -> None:
    """Add messages of eleven kilobytes, each in its own line."""
    for number in range(messages):
        session.add_message(Message.user(f"{number} {_LONG}"))
        await session.save(flush=False)
    await session.save()


async def _compare(case: StoreUnderTest, session: AgentSession) -> None:
    whole = session.history
    for count in (1, 2, 7, len(whole) - 1, len(whole), len(whole) + 1):
        page = await read_last(session.session_id, count, store=await case.open())
        check_equal([each.text for each in page.messages], [each.text for each in whole[-count:]])
        check_equal((page.is_whole, page.repair), (count >= len(whole), None))
        check_equal(len(page.lines), len(page.messages))


CONTENT_CHECKS = checks_in(__name__)
