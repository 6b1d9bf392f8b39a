"""What every store does alike: each test runs over files and over memory."""

import os

import pytest
import trio

from greenroom.core import (
    Message,
    SessionError,
    SessionExistsError,
    SessionLockedError,
    SessionNotFoundError,
    SessionStorageError,
    ToolUseBlock,
)
from greenroom.session import AgentSession
from greenroom.session.history import START, Position, encode_line


async def saved(store, messages, **options):
    session = AgentSession.new("coder", store=store, **options)
    for message in messages:
        session.add_message(message)
    await session.save()
    return session


async def test_a_loaded_session_equals_the_saved_one(store, conversation):
    session = AgentSession.new_subagent("coder", "mother", "t9", store=store)
    for message in conversation:
        session.add_message(message)
    session.set_model("anthropic", "claude-sonnet-4-5")
    session.add_child_session("daughter")
    session.set_metadata("custom_key", {"a": [1, None, "ü"]})
    await session.save()
    assert session.is_saved
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history == conversation
    assert loaded.record == session.record
    assert loaded.repair is None
    assert loaded.is_saved
    assert loaded.store is store


async def test_a_session_grows_over_many_saves_and_loads(store, conversation):
    session_id = (await saved(store, conversation[:1])).session_id
    for message in conversation[1:]:
        session = await AgentSession.load(session_id, store=store)
        if session.is_saved:
            session.add_message(message)
        await session.save()
    history = (await AgentSession.load(session_id, store=store)).history
    assert history[:2] == conversation[:2]
    assert history[2].tool_results[0].text == "interrupted: the call was not started"


async def test_a_started_call_without_a_result_shows_as_interrupted(store, conversation):
    session = await saved(store, conversation[:2])
    session.mark_tools_started(["t1"])
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    assert "outcome is unknown" in loaded.history[-1].tool_results[0].text
    assert not loaded.is_saved
    await loaded.save()
    again = await AgentSession.load(session.session_id, store=store)
    assert again.history == loaded.history
    assert again.is_saved


async def test_an_unknown_session_is_not_found(store):
    with pytest.raises(SessionNotFoundError) as caught:
        await AgentSession.load("nobody", store=store)
    assert caught.value.session_id == "nobody"
    assert not await store.exists("nobody")


async def test_a_blank_session_is_never_written(store):
    session = AgentSession.new("coder", store=store)
    session.set_model("offline", "offline")
    await session.save()
    async with opened(session):
        await session.save()
    assert await AgentSession.list_all(store=store) == []
    assert not await store.exists(session.session_id)


async def test_a_session_with_metadata_alone_is_written(store):
    session = AgentSession.new("coder", store=store)
    session.set_metadata("title", "mine")
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    assert (loaded.metadata, loaded.history) == ({"title": "mine"}, ())
    loaded.add_message(Message.user("hi"))
    await loaded.save()
    assert len((await AgentSession.load(session.session_id, store=store)).history) == 1


async def test_a_new_session_cannot_take_an_id_of_the_store(store, conversation):
    first = await saved(store, conversation, session_id="mine")
    second = AgentSession.new("coder", session_id="mine", store=store)
    second.add_message(Message.user("other"))
    with pytest.raises(SessionExistsError):
        await second.save()
    with pytest.raises(SessionExistsError):
        await second.open()
    async with opened(first):
        with pytest.raises(SessionExistsError):
            await second.open()
    assert (await AgentSession.load("mine", store=store)).history == conversation


async def test_one_writer_at_a_time(store, conversation):
    first = await saved(store, conversation)
    second = await AgentSession.load(first.session_id, store=store)
    second.add_message(Message.user("more"))
    async with opened(first):
        await first.open()
        with pytest.raises(SessionLockedError, match="this process") as caught:
            await second.save()
        assert caught.value.pid
        assert (await AgentSession.load(first.session_id, store=store)).history == conversation
    await first.close()
    await second.save()
    assert len((await AgentSession.load(first.session_id, store=store)).history) == 5


async def test_an_open_unsaved_session_holds_its_id(store):
    first = AgentSession.new("coder", session_id="mine", store=store)
    second = AgentSession.new("coder", session_id="mine", store=store)
    async with opened(first):
        with pytest.raises(SessionLockedError):
            await second.open()
    async with opened(second):
        pass


async def test_opening_brings_in_what_another_writer_added(store, conversation):
    first = await saved(store, conversation[:2])
    reader = await AgentSession.load(first.session_id, store=store)
    assert len(reader.history) == 3
    for message in conversation[2:]:
        first.add_message(message)
    first.set_metadata("title", "mine")
    await first.save()
    async with opened(reader):
        assert reader.history == conversation
        assert reader.metadata == {"title": "mine"}


async def test_a_change_on_both_sides_is_refused(store, conversation):
    first = await saved(store, conversation)
    second = await AgentSession.load(first.session_id, store=store)
    first.add_message(Message.user("one"))
    await first.save()
    second.add_message(Message.user("two"))
    for attempt in (second.save, second.open):
        with pytest.raises(SessionError, match="another writer"):
            await attempt()
    first.add_message(Message.user("three"))
    await first.save()
    assert len((await AgentSession.load(first.session_id, store=store)).history) == 6


async def test_the_list_shows_the_last_changed_first(store, conversation, wall):
    sessions = []
    for _ in range(3):
        sessions.append(await saved(store, conversation[:1]))
        wall.move(60)
    sessions[1].add_message(conversation[3])
    await sessions[1].save()
    listed = await AgentSession.list_all(store=store)
    assert [each.session_id for each in listed] == [sessions[i].session_id for i in (1, 2, 0)]
    assert listed == [sessions[i].record for i in (1, 2, 0)]
    assert (await AgentSession.load(sessions[1].session_id, store=store)).record == listed[0]


def test_the_folder_of_a_session_bears_its_id_where_there_are_folders(store):
    assert os.path.basename(store.folder("mine")) in {"mine", ""}


async def test_an_empty_store_lists_nothing(store):
    assert await AgentSession.list_all(store=store) == []


async def test_rewinding_is_recorded_and_not_an_edit(store, conversation):
    session = await saved(store, conversation)
    await session.rewind(to=1)
    session.add_message(Message.assistant("No."))
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history == (conversation[0], Message.assistant("No."))
    kinds = [type(each).__name__ for each in (await store.read(session.session_id)).history.entries]
    assert kinds == ["FormatEntry", *["MessageEntry"] * 4, "RewindEntry", "MessageEntry"]


async def test_rewinding_into_a_pair_answers_the_call(store, conversation):
    session = await saved(store, conversation[:2])
    session.mark_tools_started(["t1"])
    for message in conversation[2:]:
        session.add_message(message)
    await session.rewind(to=2)
    assert "outcome is unknown" in session.history[2].tool_results[0].text
    await session.rewind(to=1)
    session.add_message(conversation[1])
    session.pair_tool_uses()
    assert "was not started" in session.history[2].tool_results[0].text


async def test_a_fork_shares_the_past_and_knows_its_origin(store, conversation):
    session = await saved(store, conversation)
    session.set_metadata("title", "mine")
    session.set_model("offline", "offline")
    fork = await session.fork(at=1)
    fork.add_message(Message.assistant("No."))
    await fork.save()
    loaded = await AgentSession.load(fork.session_id, store=store)
    assert loaded.history == (conversation[0], Message.assistant("No."))
    assert loaded.metadata == {
        "title": "mine",
        "forked_from": {"session_id": session.session_id, "at": 1},
    }
    assert (loaded.provider, loaded.model, loaded.agent_type) == ("offline", "offline", "coder")
    assert session.history == conversation
    assert (await session.fork()).history == conversation


async def test_a_fork_inside_a_pair_answers_the_call(store, conversation):
    session = await saved(store, conversation[:2])
    session.mark_tools_started(["t1"])
    session.add_message(conversation[2])
    fork = await session.fork(at=2)
    loaded = await AgentSession.load(fork.session_id, store=store)
    assert "outcome is unknown" in loaded.history[2].tool_results[0].text


@pytest.mark.parametrize("place", [-1, 5])
async def test_no_fork_and_no_rewind_beyond_the_conversation(store, conversation, place):
    session = await saved(store, conversation)
    with pytest.raises(SessionError, match="4 messages"):
        await session.rewind(to=place)
    with pytest.raises(SessionError, match="4 messages"):
        await session.fork(at=place)
    assert session.is_saved


async def test_saves_at_the_same_time_store_everything_once(store):
    session = AgentSession.new("coder", store=store)

    async def say(number):
        session.add_message(Message.user(str(number)))
        await session.save()

    with trio.fail_after(10):
        async with opened(session), trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(say, number)
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history == session.history
    assert len(loaded.history) == 20


async def test_a_cancelled_save_can_be_repeated_and_leaves_no_lock(store, conversation):
    session = AgentSession.new("coder", store=store)
    session.add_message(conversation[0])
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.save()
    assert scope.cancelled_caught
    await session.save()
    assert (await AgentSession.load(session.session_id, store=store)).history == conversation[:1]


async def test_closing_lets_go_of_the_lock_even_when_cancelled(store, conversation):
    session = await saved(store, conversation)
    await session.open()
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.close()
    await (await AgentSession.load(session.session_id, store=store)).open()


@pytest.fixture
def after_append(store, monkeypatch):
    """Have something done between a commit to the history and whatever comes next."""
    acquire, actions = store.acquire, []

    async def acquire_and_wrap(session_id):
        writer = await acquire(session_id)
        append = writer.append

        async def append_and_act(line, at, **how):
            await append(line, at, **how)
            while actions:
                actions.pop()()

        writer.append = append_and_act
        return writer

    monkeypatch.setattr(store, "acquire", acquire_and_wrap)
    return actions.append


@pytest.mark.parametrize("is_open", [True, False])
async def test_cancelling_between_the_two_writes_loses_nothing(
    store, conversation, after_append, is_open
):
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(conversation[0])
    with trio.CancelScope() as scope:
        after_append(scope.cancel)
        if is_open:
            await session.open()
        await session.save()
    assert scope.cancelled_caught
    await session.close()
    assert not await store.exists("mine")
    session.add_message(conversation[3])
    await session.save()
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.history == (conversation[0], conversation[3])


async def test_what_is_added_during_a_save_is_stored_by_the_next(store, conversation, after_append):
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(conversation[0])
    after_append(lambda: session.add_message(conversation[3]))
    await session.save()
    assert not session.is_saved
    assert (await AgentSession.load("mine", store=store)).history == conversation[:1]
    await session.save()
    assert session.is_saved
    assert (await AgentSession.load("mine", store=store)).history == session.history


async def test_what_a_crash_left_of_an_unsaved_session_is_put_aside(store, conversation):
    writer = await store.acquire("mine")
    await writer.append(encode_line([b'{"kind":"format","version":1}'], START), START)
    await writer.release()
    session = await saved(store, conversation, session_id="mine")
    assert (await AgentSession.load("mine", store=store)).history == session.history


async def test_a_writer_sets_aside_and_refuses_a_place_that_is_not_the_end(store):
    writer = await store.acquire("mine")
    first = Position().after(b"first\n")
    await writer.append(b"first\n", START)
    await writer.append(b"second\n", first)
    assert "torn.6" in await writer.set_aside(first)
    with pytest.raises(SessionStorageError):
        await writer.append(b"third\n", START)
    await writer.append(b"third\n", first)
    assert not writer.is_broken
    await writer.release()


async def test_a_removed_session_is_not_brought_back(store, conversation, remove):
    session = await saved(store, conversation)
    loaded = await AgentSession.load(session.session_id, store=store)
    loaded.add_message(Message.user("more"))
    remove(store, session.session_id)
    with pytest.raises(SessionNotFoundError):
        await loaded.save()
    assert await AgentSession.list_all(store=store) == []


class opened:
    """Hold a session open for a block."""

    def __init__(self, session):
        self.session = session

    async def __aenter__(self):
        await self.session.open()

    async def __aexit__(self, *_):
        await self.session.close()


async def test_any_json_input_of_a_call_survives(store):
    wild = {"a": [1.5, None, True, {"ключ": "\u2028\x00"}], "big": 2**70, "": ""}
    session = await saved(store, [Message.assistant([ToolUseBlock("t", "X", wild)])])
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history[0].tool_uses[0].input == wild


async def test_what_is_saved_without_a_flush_is_read_by_others_at_once(store):
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("one"))
    await session.save()
    session.add_message(Message.user("two"))
    await session.save(flush=False)
    assert not session.is_saved
    loaded = await AgentSession.load(session.session_id, store=store)
    assert [message.text for message in loaded.history] == ["one", "two"]
    await session.save()
    assert session.is_saved
    assert (await AgentSession.load(session.session_id, store=store)).history == loaded.history
