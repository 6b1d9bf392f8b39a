"""A program's own values in the history, over every store."""

import pytest

from greenroom.core import Message, SessionError
from greenroom.core._internal import InvalidJSONError
from greenroom.session import AgentSession
from greenroom.session.entries import LONGEST_RECORD


@pytest.fixture
def session(store):
    return AgentSession.new("coder", store=store)


async def loaded(session):
    await session.save()
    return await AgentSession.load(session.session_id, store=session.store)


def talk(session, count):
    """Say so much, with a record before the first message and one behind each."""
    session.add_record("step", 0)
    for number in range(1, count + 1):
        session.add_message(Message.user(str(number)))
        session.add_record("step", number)


async def test_records_come_back_by_their_kind_in_order(session):
    session.add_message(Message.user("go"))
    session.add_record("plan.step", {"id": "a", "after": [1, None, 2.5]})
    session.add_record("memory", "mine")
    session.add_record("plan.step", "b")
    for each in (session, await loaded(session)):
        assert each.records("plan.step") == ({"id": "a", "after": [1, None, 2.5]}, "b")
        assert each.records("memory") == ("mine",)
        assert each.records("plan") == ()
        assert (each.last_record("plan.step"), each.last_record("plan")) == ("b", None)
        assert [message.text for message in each.history] == ["go"]


async def test_a_record_is_committed_together_with_the_messages_around_it(session):
    session.add_message(Message.user("go"))
    session.add_record("step", 1)
    session.add_message(Message.assistant("gone"))
    assert not session.is_saved
    await session.save()
    assert (await session.store.read(session.session_id)).history.end.lines == 1


async def test_a_record_alone_is_worth_a_save(session):
    session.add_record("step", 1)
    assert (await loaded(session)).records("step") == (1,)


async def test_a_record_is_a_copy_on_its_way_in_and_out(session):
    value = {"list": [1]}
    session.add_record("step", value)
    value["list"].append(2)
    session.records("step")[0]["list"].append(3)
    session.last_record("step")["list"].append(4)
    assert session.records("step") == ({"list": [1]},)


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"a": (1,)}, object(), {"a": {"b"}}])
def test_what_is_not_json_is_refused_by_its_kind(session, value):
    with pytest.raises(InvalidJSONError, match="record 'plan'"):
        session.add_record("plan", value)
    assert session.records("plan") == ()
    assert session.is_saved


@pytest.mark.parametrize("kind", ["", 1, None, b"plan", "plan\ud800"])
def test_a_kind_is_a_text(session, kind):
    with pytest.raises(TypeError, match=r"plan\.step"):
        session.add_record(kind, 1)


async def test_a_record_has_a_longest_size(session):
    longest = "x" * (LONGEST_RECORD - 2)
    session.add_record("page", longest)
    with pytest.raises(SessionError, match=r"262,145 bytes of 262,144"):
        session.add_record("page", longest + "x")
    assert (await loaded(session)).records("page") == (longest,)


@pytest.mark.parametrize("to", range(4))
async def test_a_rewind_drops_what_was_written_after_its_point(session, to):
    talk(session, 3)
    await session.save()
    await session.rewind(to=to)
    expected = tuple(range(to + 1))
    assert session.records("step") == expected
    assert session.last_record("step") == to
    session.add_record("step", "on")
    assert (await loaded(session)).records("step") == (*expected, "on")


@pytest.mark.parametrize("at", [0, 1, 2, 3, None])
async def test_a_fork_copies_what_was_written_before_its_point(session, at):
    talk(session, 3)
    fork = await session.fork(at)
    expected = tuple(range((3 if at is None else at) + 1))
    assert fork.records("step") == (await loaded(fork)).records("step") == expected
    await fork.rewind(to=0)
    assert fork.records("step") == (0,)
    assert session.records("step") == (0, 1, 2, 3)


async def test_a_fork_of_a_branch_has_the_records_of_that_branch(session):
    talk(session, 2)
    await session.rewind(to=1)
    session.add_message(Message.user("another way"))
    session.add_record("step", "new")
    await session.save()
    assert (await session.fork(branch=0)).records("step") == (0, 1, 2)
    assert (await session.fork()).records("step") == (0, 1, "new")


@pytest.mark.parametrize(("to", "kept"), [(3, 5), (2, 4), (1, 3), (0, 1)])
async def test_records_survive_a_compaction_and_are_then_behind_its_summary(session, to, kept):
    talk(session, 4)
    await session.compact("one and two", keep=2)
    assert (await loaded(session)).records("step") == (0, 1, 2, 3, 4)
    await session.rewind(to=to)
    assert (
        session.records("step") == (await loaded(session)).records("step") == (0, 1, 2, 3, 4)[:kept]
    )
