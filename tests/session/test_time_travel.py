"""Rewinding and forking, over every store: the past stays on record."""

import pytest

from greenroom.core import Message, SessionError
from greenroom.session import AgentSession
from greenroom.session.conversation import Conversation
from greenroom.session.entries import MessageEntry, RewindEntry


async def saved(store, messages, **options):
    session = AgentSession.new("coder", store=store, **options)
    for message in messages:
        session.add_message(message)
    await session.save()
    return session


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
    session.conversation.pair_tool_uses()
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
        "forked_from": {"session_id": session.session_id, "at": 1, "branch": 0},
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


def test_a_rewind_looks_at_no_reply_that_stays(conversation):
    class Kept(dict[int, set[str]]):
        def refuse(self):
            raise AssertionError("this takes longer with every reply")

        __iter__ = keys = items = refuse

    made = Conversation(lambda: None)
    made.restore(map(MessageEntry, conversation[:1]))
    made.add_message(conversation[1])
    made.mark_tools_started(["t1"])
    transcript = made.transcript
    transcript._started = Kept(transcript._started)
    for to in (2, 1):
        transcript.apply(RewindEntry(to))
    made.add_message(conversation[1])
    made.pair_tool_uses()
    assert "was not started" in transcript.messages[-1].tool_results[0].text


async def test_what_was_taken_back_before_it_was_ever_saved_is_on_record(store):
    session = await saved(store, ())
    session.add_message(Message.user("oops"))
    await session.rewind(to=0)
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history == ()
    assert [each.history for each in await loaded.read_branches()] == [(Message.user("oops"),), ()]


async def test_what_was_recorded_before_anything_was_said_is_there_when_it_is_loaded(store):
    session = await saved(store, ())
    assert not await store.exists(session.session_id)
    session.conversation.add_grants([{"decision": "allow", "tool": "Read"}])
    await session.save()
    assert session.is_saved
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.conversation.grants == session.conversation.grants
