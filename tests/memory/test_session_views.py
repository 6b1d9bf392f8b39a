"""`EpisodicMemory` and `WorkingMemory`: views of a session under the field's usual names."""

import pytest
from hypothesis import given, settings, strategies as st

from greenroom.core import Message, SessionError, TextBlock, ToolResultBlock
from greenroom.core._internal import InvalidJSONError
from greenroom.llm import EstimatedCounter
from greenroom.memory import EpisodicMemory, SQLiteMemory, WorkingMemory
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider, call


@pytest.fixture
def session():
    return AgentSession.new("chat", store=InMemoryStore())


def texts(messages):
    return [message.text for message in messages]


@pytest.mark.checkpoint("4.1 messages in their order")
def test_message_ordering(session):
    episodes = EpisodicMemory(session)
    for number in range(6):
        role = "assistant" if number % 2 else "user"
        episodes.append(role, f"message {number}", number=number)
    assert texts(episodes.get_messages()) == [f"message {number}" for number in range(6)]
    assert texts(episodes.get_messages(limit=2)) == ["message 4", "message 5"]
    assert texts(episodes.get_messages(since=4)) == ["message 4", "message 5"]
    assert texts(episodes.get_messages(limit=1, since=2)) == ["message 5"]
    assert episodes.get_messages(limit=0) == ()


async def test_clear_leaves_other_sessions_alone(session):
    store = session.store
    other = AgentSession.new("chat", store=store)
    for each in (session, other):
        EpisodicMemory(each).append("user", "hello")
        await EpisodicMemory(each).save()
    await EpisodicMemory(session).clear()
    assert EpisodicMemory(session).get_messages() == ()
    for each, expected in ((session, []), (other, ["hello"])):
        loaded = await AgentSession.load(each.session_id, store=store)
        assert texts(loaded.history) == expected


turns = st.lists(st.tuples(st.text(max_size=60), st.booleans()), max_size=8)


@pytest.mark.checkpoint("4.4 the budget of tokens")
@given(turns, st.integers(0, 200))
@settings(deadline=None)
def test_token_budget_is_never_exceeded_and_calls_stay_with_their_results(said, budget):
    session = AgentSession.new("chat", store=InMemoryStore())
    for text, calls in said:
        session.add_message(Message.user(text))
        if calls:
            use = call("look")
            session.add_message(Message.assistant([use]))
            session.add_message(Message.user([ToolResultBlock(use.id, (TextBlock(text),))]))
        session.add_message(Message.assistant("ok"))
    found = EpisodicMemory(session).get_recent(budget)
    assert not found or EstimatedCounter().count(found) <= budget
    asked = {use.id for message in found for use in message.tool_uses}
    answered = {each.tool_use_id for message in found for each in message.tool_results}
    assert asked == answered


@pytest.mark.checkpoint("4.6 the three memories of one script")
async def test_the_three_memories_work_as_one_script_uses_them(session):
    episodes, values, memory = EpisodicMemory(session), WorkingMemory(session), SQLiteMemory()
    episodes.append("user", "Hello, my name is Alice.")
    episodes.append("assistant", "Hi Alice! How can I help?")
    recent = episodes.get_recent(max_tokens=50)
    assert texts(recent) == ["Hello, my name is Alice.", "Hi Alice! How can I help?"]
    values.set("user_name", "Alice")
    values.set("current_task", "research")
    assert values.to_dict() == {"user_name": "Alice", "current_task": "research"}
    await memory.add("Alice prefers summaries in bullet points.")
    [found] = await memory.recall("user preferences", limit=1)
    assert found.entry.text == "Alice prefers summaries in bullet points."


def test_with_few_tokens_the_newest_messages_that_fit_are_returned_uncut(session):
    count = EstimatedCounter().count
    episodes = EpisodicMemory(session)
    for text in ("One.", "Two.", "Three, and a few words more than that."):
        episodes.append("user", text)
    last = count(session.history[-1:])
    assert texts(episodes.get_recent(last - 1)) == []
    assert texts(episodes.get_recent(last)) == ["Three, and a few words more than that."]
    assert len(episodes.get_recent(count(session.history))) == 3


async def test_context_is_what_is_recalled_and_then_what_was_said(session):
    memory = SQLiteMemory()
    await memory.add("The capital of France is Paris.", origin="user")
    episodes = EpisodicMemory(session, memory)
    episodes.append("user", "Hello.")
    recalled, said = await episodes.get_context("capital of France", max_tokens=1_000)
    assert '"the user said"' in recalled.text
    assert "Paris" in recalled.text
    assert said.text == "Hello."
    for room in range(0, 400, 7):
        found = await episodes.get_context("capital of France", max_tokens=room)
        assert not found or EstimatedCounter().count(found) <= room
    assert texts(await EpisodicMemory(session).get_context("France", 1_000)) == ["Hello."]


async def test_a_summary_of_the_last_messages_can_be_stored(session):
    episodes = EpisodicMemory(session)
    episodes.append("user", "I am Bob.")
    episodes.append("assistant", "Hello Bob.")
    model = ScriptedProvider("Bob introduced himself.")
    memory = SQLiteMemory()
    await memory.add(await episodes.summarize_recent(model, 1), origin="agent")
    assert [each.entry.text for each in await memory.recall("Bob")] == ["Bob introduced himself."]
    assert "I am Bob" not in model.requests[0].messages[0].text
    assert "Hello Bob." in model.requests[0].messages[0].text


async def test_a_rewind_takes_changes_back(session):
    values = WorkingMemory(session, "report")
    values.update({"capital": "Paris", "draft": 1})
    session.add_message(Message.user("On."))
    values.set("draft", 2)
    await session.rewind(0)
    assert values.to_dict() == {"capital": "Paris", "draft": 1}


@pytest.mark.checkpoint("4.2 state over subtasks")
async def test_cross_subtask_state(session):
    first = WorkingMemory(session, task="report")
    first.set("capital", "Paris")
    first.update({"population": 2_100_000, "sources": ["a"]})
    await session.save()
    second = WorkingMemory(
        await AgentSession.load(session.session_id, store=session.store), "report"
    )
    assert second.get("capital") == "Paris"
    assert second.to_dict() == {"capital": "Paris", "population": 2_100_000, "sources": ["a"]}
    assert WorkingMemory(session, task="other").to_dict() == {}


def test_values_are_copies(session):
    values = WorkingMemory(session)
    given_list = [1]
    values.set("list", given_list)
    given_list.append(2)
    values.get("list").append(3)
    values.to_dict()["list"].append(4)
    assert values.get("list") == [1]
    assert values.get("missing", "default") == "default"


def test_clear_is_of_one_task(session):
    one, other = WorkingMemory(session, "one"), WorkingMemory(session, "other")
    one.set("a", 1)
    other.set("a", 2)
    one.clear()
    one.set("b", 3)
    assert (one.to_dict(), other.to_dict()) == ({"b": 3}, {"a": 2})


def test_compare_and_set_lets_one_of_two_win(session):
    one, other = WorkingMemory(session), WorkingMemory(session)
    assert one.compare_and_set("owner", None, "one")
    assert not other.compare_and_set("owner", None, "other")
    assert other.compare_and_set("owner", "one", "other")
    assert one.get("owner") == "other"


def test_what_is_no_json_is_refused_and_nothing_changes(session):
    values = WorkingMemory(session)
    values.set("a", 1)
    with pytest.raises(InvalidJSONError):
        values.update({"a": 2, "b": object()})
    with pytest.raises(InvalidJSONError):
        values.update({1: 2})
    with pytest.raises(SessionError):
        values.set("a", "x" * 300_000)
    assert values.to_dict() == {"a": 1}
