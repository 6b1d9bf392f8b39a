"""The past of a session: what rewinds and compactions left, and forks that take it up again."""

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import Message, SessionError, SessionNotFoundError
from greenroom.session import AgentSession, InMemoryStore
from greenroom.session._internal import Origin


def texts(messages):
    return [message.text for message in messages]


async def said(store, letters):
    session = AgentSession.new("coder", store=store)
    say(session, letters)
    await session.save()
    return session


def say(session, letters):
    for letter in letters:
        session.add_message(Message.user(letter))


async def shown(session):
    """Each branch as (what it shares, its own)."""
    found = []
    for branch in await session.read_branches():
        own = "".join(texts(branch.messages))
        whole = "".join(texts(branch.history))
        assert whole.endswith(own)
        found.append((whole.removesuffix(own), own))
    return found


async def test_a_rewind_leaves_a_branch(store):
    session = await said(store, "abcd")
    await session.rewind(to=2)
    say(session, "xy")
    first, current = await session.read_branches()
    assert (first.number, first.begun_by, first.parent, first.is_current) == (0, None, None, False)
    assert texts(first.messages) == list("abcd")
    assert (current.number, current.begun_by, current.begins_at) == (1, "rewind", 2)
    assert (current.parent, current.is_current) == (first, True)
    assert texts(current.messages) == ["x", "y"]
    assert current.history == session.history


async def test_branches_go_off_from_the_branch_that_holds_that_place(store):
    session = await said(store, "abcd")
    await session.rewind(to=3)
    say(session, "xy")
    await session.rewind(to=4)
    say(session, "z")
    await session.rewind(to=2)
    say(session, "q")
    found = await session.read_branches()
    assert await shown(session) == [("", "abcd"), ("abc", "xy"), ("abcx", "z"), ("ab", "q")]
    assert [each.parent and each.parent.number for each in found] == [None, 0, 1, 0]


async def test_where_nothing_was_said_no_branch_is_left(store):
    session = await said(store, "abcd")
    for place in (4, 3, 3, 1):
        await session.rewind(to=place)
    say(session, "x")
    assert await shown(session) == [("", "abcd"), ("a", "x")]


async def test_a_compaction_leaves_what_it_summarises(store):
    session = await said(store, "abcd")
    await session.compact("S", keep=1)
    say(session, "x")
    first, current = await session.read_branches()
    assert (current.begun_by, current.begins_at, current.kept) == ("compaction", 4, 1)
    assert texts(current.messages) == ["S", "d", "x"]
    assert current.history == current.messages == session.history
    assert texts(first.history) == list("abcd")


async def test_a_session_without_a_past_is_one_branch(store):
    session = AgentSession.new("coder", store=store)
    assert await shown(session) == [("", "")]
    say(session, "a")
    assert await shown(session) == [("", "a")]


async def test_what_is_not_saved_is_shown_as_well(store):
    session = await said(store, "ab")
    say(session, ["c" * 300_000])
    session.conversation.rewind(1)
    say(session, "x")
    assert [len(own) for _, own in await shown(session)] == [300_002, 1]


async def test_the_past_is_the_same_when_it_is_loaded_and_while_somebody_writes(store):
    session = await said(store, "abc")
    await session.rewind(to=1)
    say(session, "x")
    await session.save()
    reader = await AgentSession.load(session.session_id, store=store)
    await session.open()
    await session.rewind(to=0)
    say(session, "y")
    await session.save()
    assert await shown(reader) == [("", "abc"), ("a", "x")], "as it was when it was loaded"
    assert await shown(session) == [("", "abc"), ("a", "x"), ("", "y")]
    await session.close()


async def test_the_past_is_read_while_a_save_is_under_way(store):
    session = await said(store, "abc")
    await session.rewind(to=1)
    for letter in "xyz":
        say(session, letter)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.save)
            for _ in range(3):
                nursery.start_soon(session.read_branches)
        assert (await shown(session))[0] == ("", "abc")
    assert await shown(session) == [("", "abc"), ("a", "xyz")]


async def test_the_past_of_a_session_that_was_removed_is_not_invented(store_under_test):
    session = await said(store_under_test.make(), "abc")
    await store_under_test.remove(session.session_id)
    with pytest.raises(SessionNotFoundError, match="was removed"):
        await session.read_branches()


async def test_a_past_that_somebody_cut_off_is_an_error(store):
    session = await said(store, "a")
    first = (await store.read(session.session_id)).history.end
    say(session, "b")
    await session.save()
    writer = await store.acquire(session.session_id)
    await writer.set_aside(first)
    await writer.release()
    with pytest.raises(SessionError, match="was changed by another writer"):
        await session.read_branches()


async def test_a_withdrawn_note_about_calls_does_not_shift_the_past(store, conversation):
    session = AgentSession.new("coder", store=store)
    for message in conversation[:2]:
        session.add_message(message)
    await session.save()
    session.mark_tools_started(["t1"])
    session.conversation.withdraw_tools_started()
    session.add_message(conversation[2])
    await session.save()
    (only,) = await session.read_branches()
    assert only.messages == conversation[:3]


async def test_a_fork_takes_up_a_branch_that_was_left(store):
    session = await said(store, "abcd")
    await session.rewind(to=1)
    say(session, "x")
    await session.compact("S", keep=1)
    fork = await session.fork(branch=0)
    assert texts(fork.history) == list("abcd")
    assert fork.forked_from == Origin(session.session_id, at=4, branch=0)
    part = await session.fork(at=1, branch=1)
    assert texts(part.history) == ["a"]
    assert part.forked_from == Origin(session.session_id, at=1, branch=1)
    current = await session.fork()
    assert texts(current.history) == ["S", "x"]
    assert current.forked_from == Origin(session.session_id, at=2, branch=2)
    assert (await AgentSession.load(fork.session_id, store=store)).history == fork.history


async def test_a_fork_from_a_branch_knows_which_calls_had_started(store, conversation):
    session = AgentSession.new("coder", store=store)
    for message in conversation[:2]:
        session.add_message(message)
    session.mark_tools_started(["t1"])
    session.add_message(conversation[2])
    await session.rewind(to=1)
    fork = await session.fork(at=2, branch=0)
    assert "outcome is unknown" in fork.history[-1].tool_results[0].text


@pytest.mark.parametrize("number", [-1, 2])
async def test_there_is_no_fork_from_a_branch_that_is_not_there(store, number):
    session = await said(store, "ab")
    await session.rewind(to=1)
    say(session, "x")
    with pytest.raises(SessionError, match=f"no branch {number}: the last is 1"):
        await session.fork(branch=number)


async def test_values_of_the_user_in_the_place_of_an_origin_are_none(store):
    session = await said(store, "a")
    assert session.forked_from is None
    session.set_metadata("forked_from", "somewhere")
    assert session.forked_from is None


STEPS = st.one_of(
    st.tuples(st.just("say"), st.integers(1, 3)),
    st.tuples(st.just("rewind"), st.floats(0, 1)),
    st.tuples(st.just("compact"), st.floats(0, 1)),
    st.tuples(st.just("rewrite"), st.integers(0, 3)),
    st.tuples(st.just("reload"), st.none()),
    st.tuples(st.just("fork"), st.floats(0, 1)),
)


class Model:
    """A session's whole past as plain lists: the conversation, and copies of earlier ones."""

    def __init__(self):
        self.now, self.shared, self.left = [], 0, []
        self.count = 0

    def say(self):
        self.count += 1
        self.now.append(str(self.count))
        return self.now[-1]

    def leave(self, shared):
        if len(self.now) > self.shared:
            self.left.append(list(self.now))
        self.shared = shared

    def rewind(self, to):
        if to < len(self.now):
            self.leave(to)
        del self.now[to:]

    def compact(self, summary, keep):
        self.leave(0)
        self.now = [summary, *self.now[len(self.now) - keep :]]

    def rewrite(self, messages):
        self.leave(0)
        self.now = messages

    @property
    def branches(self):
        return [*self.left, self.now]


async def live(steps, check):
    """Do these steps to a session and to its model, and compare them after each."""
    store, model = InMemoryStore(), Model()
    session = AgentSession.new("coder", session_id="s", store=store)
    for step, value in steps:
        if step == "say":
            for _ in range(value):
                session.add_message(Message.user(model.say()))
        elif step == "rewind":
            place = round(value * len(model.now))
            await session.rewind(place)
            model.rewind(place)
        elif step == "compact" and model.now:
            keep = min(round(value * len(model.now)), len(model.now) - 1)
            model.count += 1
            await session.compact(f"S{model.count}", keep)
            model.compact(f"S{model.count}", keep)
        elif step == "rewrite":
            messages = [f"S{model.count + each}" for each in range(1, value + 1)]
            model.count += value
            await session.rewrite(map(Message.user, messages))
            model.rewrite(messages)
        elif step == "reload" and not session.is_saved:
            await session.save()
            session = await AgentSession.load("s", store=store)
        elif step == "fork":
            number = round(value * len(model.left))
            place = round(value * len(model.branches[number]))
            fork = await session.fork(at=place, branch=number)
            assert texts(fork.history) == model.branches[number][:place]
        await check(session, model)


async def compare(session, model):
    found = await session.read_branches()
    assert texts(session.history) == model.now
    assert [texts(branch.history) for branch in found] == model.branches
    assert [branch.number for branch in found] == list(range(len(found)))
    assert [branch.is_current for branch in found] == [False] * len(model.left) + [True]
    for branch in found:
        if branch.parent is not None:
            assert branch.parent.number < branch.number
            assert branch.begins_at <= len(branch.parent.history)
    # Whatever was ever said is shown once.
    once = [
        each.text
        for branch in found
        for each in branch.messages[1 + branch.kept if branch.begun_by == "compaction" else 0 :]
        if each.text[0] != "S"
    ]
    spoken = {text for texts in model.branches for text in texts if text[0] != "S"}
    assert sorted(once) == sorted(spoken)


@given(st.lists(STEPS, max_size=25))
def test_rewinds_compactions_forks_and_loads_compose_as_plain_lists_do(steps):
    trio.run(live, steps, compare)
