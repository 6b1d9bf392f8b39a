"""Compaction, over every store: a summary replaces earlier messages, which stay on record."""

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import Message, SessionError, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.session import AgentSession
from greenroom.session._internal import Conversation
from greenroom.session.conversation import count_to_keep
from greenroom.session.entries import CompactionEntry, decode_entries
from greenroom.session.transcript import find_open_calls
from greenroom.testing.session_stores import cancel_after
from tests.session.accepted import check_accepted


async def saved(store, messages):
    session = AgentSession.new("coder", store=store)
    for message in messages:
        session.add_message(message)
    await session.save()
    return session


def texts(messages):
    return [message.text for message in messages]


def calls(*ids):
    return Message.assistant([ToolUseBlock(id_, "Read", {}) for id_ in ids])


def results(*ids):
    return Message.user([ToolResultBlock(id_, (TextBlock("done"),)) for id_ in ids])


async def test_the_conversation_goes_on_as_a_summary_and_its_last_messages(store):
    session = await saved(store, [Message.user(str(number)) for number in range(6)])
    await session.compact("five things were said", keep=2)
    session.add_message(Message.assistant("6"))
    await session.save()
    expected = ["five things were said", "4", "5", "6"]
    assert texts(session.history) == expected
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history == session.history
    assert loaded.history[0].role == "user"
    assert texts((await loaded.read_branches())[0].messages) == list("012345")


async def test_it_is_a_record_and_not_an_edit(store, conversation):
    session = await saved(store, conversation)
    before = (await store.read(session.session_id)).history.entries
    await session.compact("said", keep=1)
    after = (await store.read(session.session_id)).history.entries
    assert after[: len(before)] == before
    assert after[-1] == CompactionEntry(Message.user("said", sender="summary"), 1)


async def test_a_pair_is_never_parted(store, conversation):
    session = await saved(store, conversation)
    await session.compact("a file was to be read", keep=2)
    assert session.history[1:] == conversation[1:], "the results would stand without their calls"


async def test_calls_that_wait_keep_their_reply_so_that_results_may_follow(store, conversation):
    session = await saved(store, conversation[:2])
    await session.compact("a file is to be read", keep=0)
    assert session.history[1:] == (conversation[1],)
    session.add_message(conversation[2])
    assert session.conversation.pair_tool_uses() == ()


async def test_after_a_compaction_it_is_still_known_which_calls_had_started(store, conversation):
    session = await saved(store, conversation[:2])
    session.mark_tools_started(["t1"])
    await session.compact("a file is to be read", keep=1)
    loaded = await AgentSession.load(session.session_id, store=store)
    assert "outcome is unknown" in loaded.history[-1].tool_results[0].text


async def test_answers_for_the_session_hold_on_until_it_is_rewound_to_where_they_were_given(store):
    session = await saved(store, [Message.user("0")])
    for number in (1, 2, 3):
        session.conversation.add_grants([{"rule": number}])
        session.add_message(Message.user(str(number)))
    await session.compact("A", keep=2)
    session = await AgentSession.load(session.session_id, store=store)
    assert texts(session.history) == ["A", "2", "3"]
    held = []
    for place in (3, 2, 1, 0):
        await session.rewind(to=place)
        held.append([rule["rule"] for rule in session.conversation.grants])
    assert held == [[1, 2, 3], [1, 2], [1], []]


async def test_what_was_used_stays_used(store):
    reply = Message("assistant", (TextBlock("0"),), provider="acme")
    session = await saved(store, [reply, Message.user("1")])
    await session.compact("A", keep=1)
    assert session.used.model_calls == 1
    assert (await AgentSession.load(session.session_id, store=store)).used == session.used


async def test_a_compaction_cancelled_at_any_moment_is_done_by_the_next_save(store):
    steps, is_cut = 0, True
    while is_cut:
        session = await saved(store, [Message.user(str(number)) for number in range(4)])
        with trio.CancelScope() as scope, cancel_after(scope, steps):
            await session.compact("said", keep=1)
        steps, is_cut = steps + 1, scope.cancelled_caught
        assert texts(session.history) == ["said", "3"]
        await session.save()
        loaded = await AgentSession.load(session.session_id, store=store)
        assert loaded.history == session.history
        assert len(await loaded.read_branches()) == 2
    assert steps > 1


async def test_what_is_compacted_can_be_compacted_again_and_rewound(store):
    session = await saved(store, [Message.user(str(number)) for number in range(4)])
    await session.compact("A", keep=1)
    session.add_message(Message.assistant("4"))
    await session.compact("B", keep=1)
    assert texts(session.history) == ["B", "4"]
    await session.compact("C", keep=0)
    session.add_message(Message.user("5"))
    await session.rewind(to=1)
    loaded = await AgentSession.load(session.session_id, store=store)
    assert texts(loaded.history) == ["C"]
    shown = [texts(branch.history) for branch in await loaded.read_branches()]
    assert shown == [list("0123"), ["A", "3", "4"], ["B", "4"], ["C", "5"], ["C"]]


@pytest.mark.parametrize(
    ("summary", "keep", "problem"),
    [
        ("short", -1, "can't be kept"),
        ("short", 4, "nothing to compact: of 4 messages, 4 are to be kept"),
        ("short", 9, "nothing to compact"),
        ("", 1, "no conversation can begin"),
        (" \n", 1, "no conversation can begin"),
        (Message.assistant("short"), 1, "no conversation can begin"),
        (Message.user([]), 1, "no conversation can begin"),
        (results("t1"), 1, "no conversation can begin"),
    ],
)
async def test_what_makes_no_sense_is_refused_and_changes_nothing(
    store, conversation, summary, keep, problem
):
    session = await saved(store, conversation)
    with pytest.raises(SessionError, match=problem):
        await session.compact(summary, keep)
    assert session.is_saved
    assert session.history == conversation


async def test_what_is_no_message_is_no_summary(store, conversation):
    session = await saved(store, conversation)
    with pytest.raises(TypeError, match="7 is not a summary"):
        await session.compact(7, keep=1)


async def test_a_conversation_of_one_open_call_has_nothing_to_compact(store, conversation):
    session = await saved(store, [conversation[1]])
    with pytest.raises(SessionError, match="nothing to compact"):
        await session.compact("short", keep=0)


def test_a_summary_with_a_block_of_a_newer_version_is_read():
    summary = b'{"type":"Message","role":"user","content":[{"type":"hologram"}]}'
    line = b'{"n":0,"e":[{"kind":"compaction","summary":%s,"keep":0}],"crc":"00000000"}' % summary
    (entry,) = decode_entries(line)
    assert entry.summary.content[0].raw == {"type": "hologram"}


PIECES = st.one_of(
    st.just([Message.user("and?")]),
    st.just([Message.assistant("so.")]),
    st.just([calls("a"), results("a")]),
    st.just([calls("a", "b"), results("a"), Message.user("faster!"), results("b")]),
    st.just([calls("a", "b"), results("b", "a"), Message.user("thanks")]),
    st.just([calls("a")]),
)


@given(st.lists(PIECES, max_size=8), st.integers(0, 12))
def test_wherever_it_is_cut_a_model_accepts_what_is_left(pieces, keep):
    conversation = Conversation(lambda: None)
    for piece in pieces:
        conversation.pair_tool_uses()
        for message in piece:
            conversation.add_message(message)
    messages = conversation.transcript.messages
    waiting = find_open_calls(messages)
    try:
        count = count_to_keep(messages, keep)
    except SessionError:
        return
    conversation.compact(Message.user("said"), keep)
    rest = conversation.transcript.messages[1:]
    assert rest == messages[len(messages) - count :]
    assert count == keep or rest[0].tool_uses, "more is kept only for the sake of a pair"
    assert count >= keep
    assert find_open_calls(rest) == waiting
    conversation.pair_tool_uses()
    check_accepted(conversation.transcript.messages)
