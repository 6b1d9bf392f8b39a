"""Checks of what a store keeps: all of it, nothing else, each session for itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import msgspec
import trio

from greenroom.core import (
    InvalidSessionIdError,
    Message,
    SessionNotFoundError,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    clock,
    new_id,
)
from greenroom.session import AgentSession
from greenroom.testing.stores.under_test import StoreUnderTest, expecting, same, saved, texts

_CONVERSATION = (
    Message.user("read a.txt\u2028please"),
    Message.assistant([TextBlock("Gladly."), ToolUseBlock("t1", "Read", {"file_path": "a.txt"})]),
    Message.user([ToolResultBlock("t1", (TextBlock("hällo\n"),))]),
    Message.assistant("It says hällo."),
)
_HOSTILE = (
    "",
    ".",
    "..",
    "a/b",
    "../a",
    "/a",
    "a\\b",
    "a\0b",
    "a b",
    "a\n",
    "a" * 129,
    "%2e",
    "a'",
)


async def a_loaded_session_equals_the_saved_one(case: StoreUnderTest) -> None:
    """Messages, lineage and metadata come back as they were, through a store opened anew."""
    store = await case.open()
    session = AgentSession.new_subagent("checked", new_id("s"), "t9", store=store)
    for message in _CONVERSATION:
        session.add_message(message)
    session.set_model("anthropic", "claude-sonnet-4-5")
    session.description.add_child(new_id("s"))
    session.set_metadata("custom_key", {"a": [1, None, "ü"]})
    with _own_clock():  # a line that is stored a second later makes the session newer
        await session.save()
    assert session.is_saved, "nothing is left to save"
    loaded = await AgentSession.load(session.session_id, store=await case.open())
    same(loaded.history, _CONVERSATION)
    same([each.id for each in loaded.history], [each.id for each in _CONVERSATION])
    same(loaded.description.record, session.description.record)
    same(loaded.repair, None)
    assert loaded.is_saved, "loading changes nothing"


async def a_session_grows_over_many_saves_and_loads(case: StoreUnderTest) -> None:
    """Each holder goes on where the one before has stopped."""
    store = await case.open()
    session_id = (await saved(store, _CONVERSATION[0])).session_id
    for message in (_CONVERSATION[3], Message.user("and?"), _CONVERSATION[3]):
        session = await AgentSession.load(session_id, store=await case.open())
        session.add_message(message)
        await session.save()
    history = (await AgentSession.load(session_id, store=store)).history
    same([message.role for message in history], ["user", "assistant", "user", "assistant"])


async def the_stored_description_is_the_last(case: StoreUnderTest) -> None:
    """A description replaces the one before, as a whole."""
    store = await case.open()
    with _own_clock():
        session = await saved(store, "one")
        for title in ("first", "second"):
            session.set_metadata("title", title)
            await session.save()
        session.set_model("offline", "offline")
        await session.save()
    stored = await store.read(session.session_id)
    same(stored.metadata, session.description.record)
    same(stored.metadata and stored.metadata.metadata, {"title": "second"})


async def any_json_survives(case: StoreUnderTest) -> None:
    """Numbers, nulls and texts of every kind and size come back as they were."""
    store = await case.open()
    wild = {
        "a": [1.5, None, True, {"ключ": "\u2028\x00'\"\\"}],
        "big": 2**70,
        "": "",
        "long": "ß" * 600_000,
    }
    session = await saved(store, Message.assistant([ToolUseBlock("t", "X", wild)]))
    loaded = await AgentSession.load(session.session_id, store=store)
    same(loaded.history[0].tool_uses[0].input, wild)


async def keys_of_newer_versions_survive(case: StoreUnderTest) -> None:
    """What a newer version says in a description is kept when a version writes that does not know it."""
    store = await case.open()
    session = await saved(store, "one")
    newer = {"hologram": {"points": [1.5, None]}, "mood": "good"}
    writer = await store.acquire(session.session_id)
    await writer.write_metadata(msgspec.structs.replace(session.description.record, unknown=newer))
    await writer.write_metadata(session.description.record)
    await writer.release()
    for each in (store, await case.open()):
        stored = await each.read(session.session_id)
        same(stored.metadata and stored.metadata.unknown, newer)
    loaded = await AgentSession.load(session.session_id, store=store)
    loaded.set_metadata("title", "mine")
    await loaded.save()
    stored = await store.read(session.session_id)
    same(stored.metadata and stored.metadata.unknown, newer)
    same(stored.metadata and stored.metadata.metadata, {"title": "mine"})


async def a_call_without_a_result_shows_as_interrupted(case: StoreUnderTest) -> None:
    """A call that was recorded as started is neither forgotten nor shown as not started."""
    store = await case.open()
    session = await saved(store, *_CONVERSATION[:2])
    session.mark_tools_started(["t1"])
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    assert "outcome is unknown" in loaded.history[-1].tool_results[0].text, "it had started"
    await loaded.save()
    again = await AgentSession.load(session.session_id, store=store)
    same(again.history, loaded.history)
    assert again.is_saved, "the answer is stored now"


async def a_description_alone_is_stored(case: StoreUnderTest) -> None:
    """A session may have values and no messages yet."""
    store = await case.open()
    session = AgentSession.new("checked", store=store)
    session.set_metadata("title", "mine")
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    same((loaded.metadata, loaded.history), ({"title": "mine"}, ()))
    loaded.add_message(Message.user("hi"))
    await loaded.save()
    same(await texts(store, session), ["hi"])


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
        with expecting(SessionNotFoundError) as caught:
            await AgentSession.load(session_id, store=store)
        same(caught[0].session_id, session_id)
        same(await store.exists(session_id), False)
        assert session_id not in [each.session_id for each in await store.list_all()]


async def a_removed_session_is_not_brought_back(case: StoreUnderTest) -> None:
    """Who loaded it before it was removed can't store it again."""
    store = await case.open()
    session = await saved(store, "one")
    loaded = await AgentSession.load(session.session_id, store=store)
    loaded.add_message(Message.user("more"))
    await case.remove(session.session_id)
    with expecting(SessionNotFoundError):
        await loaded.save()
    same(await store.exists(session.session_id), False)


async def the_list_shows_the_last_changed_first(case: StoreUnderTest) -> None:
    """A list is of descriptions, newest first; a new line alone makes a session newer."""
    store, sessions = await case.open(), []
    with _own_clock() as moments:
        for _ in range(3):
            sessions.append(await saved(store, "one"))
            next(moments)
        sessions[1].add_message(Message.assistant("two"))
        await sessions[1].save()
    ids = [sessions[place].session_id for place in (1, 2, 0)]
    listed = [each for each in await (await case.open()).list_all() if each.session_id in ids]
    same(listed, [sessions[place].description.record for place in (1, 2, 0)])
    same((await AgentSession.load(ids[0], store=store)).description.record, listed[0])


async def a_hostile_id_is_refused(case: StoreUnderTest) -> None:
    """No id leads out of the store or into another session."""
    store = await case.open()
    for session_id in _HOSTILE:
        for ask in (store.exists, store.read, store.acquire):
            with expecting(InvalidSessionIdError):
                await ask(session_id)
        with expecting(InvalidSessionIdError):
            store.folder(session_id)


async def many_sessions_grow_side_by_side(case: StoreUnderTest) -> None:
    """Sessions of one store are saved at the same time, and each keeps its own."""
    store = await case.open()
    sessions = [AgentSession.new("checked", store=store) for _ in range(10)]

    async def grow(session: AgentSession) -> None:
        await session.open()
        for number in range(5):
            session.add_message(Message.user(f"{session.session_id} {number}"))
            await session.save()
        await session.close()

    async with trio.open_nursery() as nursery:
        for session in sessions:
            nursery.start_soon(grow, session)
    for session in sessions:
        same(await texts(store, session), [f"{session.session_id} {each}" for each in range(5)])


@contextmanager
def _own_clock() -> Iterator[Iterator[datetime]]:
    """Let the wall clock stand still; each `next` moves it on by a minute."""
    start = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)
    moment = [start]

    def move() -> Iterator[datetime]:
        while True:
            moment[0] += timedelta(minutes=1)
            yield moment[0]

    clock.set_clock(lambda: moment[0])
    try:
        yield move()
    finally:
        clock.set_clock(None)
