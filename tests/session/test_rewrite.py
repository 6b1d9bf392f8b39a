"""A rewrite, over every store: other messages take the place of the conversation, in one record."""

import pytest
import trio

from greenroom.core import Message, Usage
from greenroom.session import AgentSession
from greenroom.session._internal import read_last
from greenroom.session.entries import RewriteEntry, decode_entries
from greenroom.testing.session_stores import cancel_after


@pytest.fixture
async def session(store, conversation):
    session = AgentSession.new("coder", store=store)
    for message in conversation:
        session.add_message(message)
        if message.tool_uses:
            session.mark_tools_started(["t1"])
    await session.save()
    return session


async def loaded(session):
    return await AgentSession.load(session.session_id, store=session.store)


async def test_it_is_one_record_and_what_was_said_stays_on_file(session, conversation):
    before = (await session.store.read(session.session_id)).history.entries
    other = (Message.user("What does b.txt say?"), conversation[3])
    await session.rewrite(iter(other))
    assert session.is_saved
    assert session.history == (await loaded(session)).history == other
    entries = (await session.store.read(session.session_id)).history.entries
    assert entries[: len(before)] == before
    assert entries[-1] == RewriteEntry(other)
    left, now = await session.read_branches()
    assert (left.history, now.history, now.begun_by) == (conversation, other, "rewrite")
    assert (await session.fork(branch=0)).history == conversation


async def test_a_conversation_may_be_emptied_and_goes_on(session):
    await session.rewrite(())
    session.add_message(Message.user("anew"))
    await session.save()
    assert [each.text for each in (await loaded(session)).history] == ["anew"]
    page = await read_last(session.session_id, 5, store=session.store)
    assert ([each.text for each in page.messages], page.is_whole) == (["anew"], True)


async def test_what_is_there_again_is_the_same_object_and_is_paid_once(session):
    reply = Message("assistant", Message.assistant("so").content, usage=Usage(10, 1))
    session.add_message(reply)
    first, *_, last = session.history
    await session.rewrite([first, last])
    assert session.history[0] is first
    assert session.history[1] is last
    assert session.used == (await loaded(session)).used
    assert session.used.model_calls == 1


async def test_what_is_said_anew_gets_an_id_and_a_time(session):
    await session.rewrite([Message("user", Message.user("anew").content), *session.history[1:]])
    first = session.history[0]
    assert first.id
    assert first.created_at
    assert (await loaded(session)).history[0].id == first.id


@pytest.mark.parametrize("started", [True, False])
async def test_a_call_that_had_started_has_also_where_its_reply_is_written_anew(
    store, conversation, started
):
    session = AgentSession.new("coder", store=store)
    for message in conversation[:2]:
        session.add_message(message)
    session.mark_tools_started(["t1"] if started else [])
    await session.rewrite([Message.user("short"), conversation[1]])
    answer = (await loaded(session)).history[-1].tool_results[0].text
    assert ("outcome is unknown" in answer) == started


async def test_records_and_answers_stay_and_go_with_a_rewind_to_before(session):
    session.add_record("step", 1)
    session.conversation.add_grants([{"decision": "allow", "tool": "Read"}])
    await session.rewrite([Message.user("one"), Message.user("two")])
    for each in (session, await loaded(session)):
        assert each.records("step") == (1,)
        assert len(each.conversation.grants) == 1
    await session.rewind(to=1)
    assert session.records("step") == session.conversation.grants == ()


async def test_what_is_not_a_message_changes_nothing(session, conversation):
    with pytest.raises(TypeError, match="'hello' is not a message"):
        await session.rewrite([conversation[0], "hello"])
    assert session.is_saved
    assert session.history == conversation


async def test_a_rewrite_cancelled_at_any_moment_is_done_by_the_next_save(store):
    steps, is_cut = 0, True
    while is_cut:
        session = AgentSession.new("coder", store=store)
        session.add_message(Message.user("before"))
        await session.save()
        with trio.CancelScope() as scope, cancel_after(scope, steps):
            await session.rewrite([Message.user("after")])
        steps, is_cut = steps + 1, scope.cancelled_caught
        await session.save()
        assert [each.text for each in (await loaded(session)).history] == ["after"]
        assert len(await session.read_branches()) == 2
    assert steps > 1


def test_a_message_with_a_block_of_a_newer_version_is_read():
    message = b'{"role":"user","content":[{"type":"hologram"}]}'
    line = b'{"n":0,"e":[{"kind":"rewrite","messages":[%s]}],"crc":"00000000"}' % message
    (entry,) = decode_entries(line)
    assert entry.messages[0].content[0].raw == {"type": "hologram"}
