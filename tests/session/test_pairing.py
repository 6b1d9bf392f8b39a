"""Pairing: each call is answered, and a long conversation is not looked through again and again."""

from hypothesis import given, strategies as st

from greenroom.core import Message, ToolResultBlock, ToolUseBlock
from greenroom.session import AgentSession, transcript as module
from greenroom.session._internal import is_stand_in, may_have_run
from greenroom.session.conversation import Conversation
from greenroom.session.entries import RewindEntry
from greenroom.session.transcript import find_open_calls

ids = st.lists(st.sampled_from("abc"), max_size=3)
actions = st.one_of(
    st.tuples(st.just("ask"), st.just(())),
    st.tuples(st.just("reply"), ids),
    st.tuples(st.just("answer"), ids),
    st.tuples(st.just("pair"), st.just(())),
    st.tuples(st.just("rewind"), st.floats(0, 1)),
)


@given(st.lists(actions, max_size=20))
def test_it_finds_what_a_look_at_the_whole_conversation_finds(script):
    conversation = Conversation(lambda: None)
    for action, what in script:
        match action:
            case "ask":
                conversation.add_message(Message.user("go on"))
            case "reply":
                blocks = [ToolUseBlock(id_, "Read") for id_ in what]
                conversation.add_message(Message("assistant", tuple(blocks)))
            case "answer":
                blocks = [ToolResultBlock(id_) for id_ in what]
                conversation.add_message(Message("user", tuple(blocks)))
            case "rewind":
                place = int(what * len(conversation.transcript))
                conversation._add(RewindEntry(place))
            case _:
                pass
        if action in {"pair", "rewind"}:
            expected = tuple(call.id for call in find_open_calls(conversation.transcript.messages))
            assert conversation.pair_tool_uses() == expected
            assert find_open_calls(conversation.transcript.messages) == ()


def test_only_what_is_new_is_looked_at(monkeypatch):
    looked_at = []
    looks = lambda messages: looked_at.append(len(messages)) or ()  # noqa: E731
    monkeypatch.setattr(module, "find_open_calls", looks)
    conversation = Conversation(lambda: None)
    for _ in range(100):
        conversation.add_message(Message.user("nobody replies"))
        conversation.pair_tool_uses()
    assert looked_at == [1] * 100


def test_a_stand_in_says_whether_the_call_may_have_had_its_effect():
    session = AgentSession.new("x")
    session.add_message(Message.assistant([ToolUseBlock("t1", "Bash"), ToolUseBlock("t2", "Bash")]))
    session.mark_tools_started(["t1"])
    session.conversation.pair_tool_uses(outputs={"t1": "half of it"})
    started, not_started = session.history[-1].tool_results
    assert is_stand_in(started)
    assert may_have_run(started)
    assert is_stand_in(not_started)
    assert not may_have_run(not_started)
    assert not is_stand_in(ToolResultBlock("t1", started.content))  # a result is no error
