"""Whatever a loop adds, an import brings or a history holds, a model's API accepts what is sent."""

import trio
from hypothesis import given, strategies as st

from greenroom.core import Message, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.core._internal import serde
from greenroom.export import import_session
from greenroom.session import AgentSession, InMemoryStore
from tests.session.accepted import check_accepted

ids = st.lists(st.sampled_from("abc"), max_size=3, unique=True)
messages = st.one_of(
    st.builds(lambda ids: Message.assistant([TextBlock("ok"), *map(call, ids)]), ids),
    st.builds(lambda ids: Message.user([*map(result, ids), TextBlock("go")]), ids),
)


def call(id_):
    return ToolUseBlock(id_, "Read", {})


def result(id_, text="done"):
    return ToolResultBlock(id_, (TextBlock(text),))


async def check_everywhere(said):
    """Check that it is accepted at each step: loaded, forked, imported, cut and compacted."""
    store = InMemoryStore()
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("hello"))
    for message in said:
        session.add_message(message)
        loaded = AgentSession.new("coder", store=store)
        for each in session.history:
            loaded.add_message(each)
        loaded.conversation.pair_tool_uses()
        check_accepted(loaded.history)
    await session.save()
    loaded = await AgentSession.load("mine", store=store)
    check_accepted(loaded.history)
    assert loaded.history[: len(session.history)] == session.history
    text = {"format": "greenroom-session", "version": 1, "session": loaded.description.record}
    raw = [Message.user("hello"), *said]
    imported = await import_session(serde.encode({**text, "messages": raw}), store=store)
    check_accepted(imported.history)
    for to in range(1, len(loaded.history)):
        check_accepted((await loaded.fork(to)).history)
        fork = await loaded.fork()
        await fork.rewind(to)
        check_accepted(fork.history)
        fork = await loaded.fork()
        await fork.compact("So far so good.", keep=len(loaded.history) - to)
        check_accepted(fork.history)


@given(st.lists(messages, max_size=5))
def test_any_sequence_of_messages_is_accepted(said):
    trio.run(check_everywhere, said)


def test_a_call_that_a_loop_has_left_without_a_result_is_answered_before_the_next_reply():
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.user("read both"))
    session.add_message(Message.assistant([call("a"), call("b")]))
    session.mark_tools_started(["b"])
    session.add_message(Message.user("never mind"))
    session.add_message(Message.assistant("All right."))
    answers = session.history[2].tool_results
    assert [each.tool_use_id for each in answers] == ["a", "b"]
    assert all(each.is_error for each in answers)
    assert "not on record" in answers[0].text
    assert "outcome is unknown" in answers[1].text
    assert session.history[2].text == "never mind"


def test_a_result_without_a_call_stays_as_text():
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.user("hello"))
    session.add_message(Message.assistant([call("a")]))
    session.add_message(Message.user([result("a"), result("a", "again"), result("x", "stray")]))
    said = session.history[2]
    assert [each.tool_use_id for each in said.tool_results] == ["a"]
    assert "again" in said.text
    assert "stray" in said.text


async def test_what_is_stored_stays_as_it_was_said_and_no_place_moves():
    store = InMemoryStore()
    session = AgentSession.new("coder", session_id="mine", store=store)
    for message in (
        Message.user("hello"),
        Message.assistant([call("a")]),
        Message.user("never mind"),
        Message.assistant("All right."),
    ):
        session.add_message(message)
    await session.save()
    assert b"not on record" not in bytes(store._sessions["mine"].history)
    loaded = await AgentSession.load("mine", store=store)
    assert loaded.history == session.history
    assert len(loaded.history) == 4
    assert loaded.is_saved
