"""A session in memory: values, lineage, metadata, and calls that pair with results."""

from datetime import timedelta

import pytest
import trio

from greenroom.core import Message, SessionError, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.core._internal import InvalidJSONError, InvalidSessionIdError
from greenroom.session import AgentSession, FileStore, InMemoryStore, SessionStore, SQLiteStore
from greenroom.session._internal import SessionStatistics, default_store
from greenroom.session.description import SessionMetadata
from greenroom.session.journal import _Tail
from greenroom.session.transcript import Transcript


def uses(*ids):
    return Message.assistant([ToolUseBlock(id_, "Read", {}) for id_ in ids])


def results(*ids):
    return Message.user([ToolResultBlock(id_, (TextBlock("ok"),)) for id_ in ids])


def test_a_new_session_is_empty_and_has_an_id_and_a_time():
    session = AgentSession.new("coder")
    assert session.session_id.startswith("s-")
    assert session.history == ()
    assert session.created_at == session.updated_at
    assert session.created_at.utcoffset() == timedelta(0)
    assert (session.model, session.provider, session.metadata) == ("", "", {})
    assert session.store is None
    assert session.is_saved


def test_ten_thousand_sessions_have_ten_thousand_ids():
    assert len({AgentSession.new("coder").session_id for _ in range(10_000)}) == 10_000


@pytest.mark.parametrize(
    "hostile",
    ["", "a\0b", "x" * 201, "a\n", "\x7f", "\x85", "\udcff"],
)
async def test_an_id_that_is_not_plain_text_is_refused_everywhere(hostile, store):
    with pytest.raises(InvalidSessionIdError):
        AgentSession.new("coder", session_id=hostile)
    with pytest.raises(InvalidSessionIdError):
        AgentSession.new_subagent("coder", hostile)
    with pytest.raises(InvalidSessionIdError):
        AgentSession.new("coder").description.add_child(hostile)
    with pytest.raises(InvalidSessionIdError):
        await AgentSession.load(hostile, store=store)
    with pytest.raises(InvalidSessionIdError):
        store.folder(hostile)
    for ask in (store.exists, store.read, store.acquire):
        with pytest.raises(InvalidSessionIdError):
            await ask(hostile)


def test_the_history_is_one_tuple_until_it_changes(conversation):
    session = AgentSession.new("coder")
    session.add_message(conversation[0])
    before = session.history
    assert session.history is before
    session.add_message(conversation[1])
    assert before == conversation[:1]
    assert session.history == conversation[:2]


def test_a_message_that_cannot_be_stored_is_refused_and_not_added():
    session = AgentSession.new("coder")
    with pytest.raises(InvalidJSONError):
        session.add_message(Message.assistant([ToolUseBlock("t", "Read", {"x": object()})]))
    assert session.history == ()
    assert session.is_saved


def test_metadata_is_copied_in_and_out():
    session, value = AgentSession.new("coder"), {"todo": ["a"]}
    session.set_metadata("plan", value)
    value["todo"].append("b")
    session.metadata["plan"]["todo"].append("c")
    session.get_metadata("plan")["todo"].append("d")
    assert session.get_metadata("plan") == {"todo": ["a"]}
    assert session.get_metadata("absent") is None


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [(1,), {1: 2}, float("nan"), [float("inf")], object(), {"a": {b"b"}}, 2**70, nested(5000)],
)
def test_what_is_no_json_value_is_refused_by_its_key(value):
    session = AgentSession.new("coder")
    with pytest.raises(InvalidJSONError, match="'my key'"):
        session.set_metadata("my key", value)
    assert session.metadata == {}


def test_a_change_moves_the_time_of_update(wall):
    session = AgentSession.new("coder")
    wall.move(15 * 60)
    session.set_model("anthropic", "claude-sonnet-4-5")
    assert session.updated_at - session.created_at == timedelta(minutes=15)
    wall.move(15 * 60)
    session.set_model("anthropic", "claude-sonnet-4-5")
    assert session.updated_at - session.created_at == timedelta(minutes=15)
    assert (session.provider, session.model) == ("anthropic", "claude-sonnet-4-5")


def test_children_are_kept_in_order_and_once():
    session = AgentSession.new("coder")
    for child in ("b", "a", "b"):
        session.description.add_child(child)
    assert session.child_session_ids == ("b", "a")


def test_a_subagent_knows_who_started_it():
    session = AgentSession.new_subagent("coder", "parent", "t1", session_id="child")
    assert (session.parent_session_id, session.parent_tool_use_id) == ("parent", "t1")


async def test_a_session_is_adopted_once_and_before_it_is_stored():
    session = AgentSession.new("coder", store=InMemoryStore())
    session.description.set_parent("one", None)
    session.description.set_parent("one", "t1")
    with pytest.raises(SessionError, match="its place"):
        session.description.set_parent("two", None)
    stored = AgentSession.new("coder", store=InMemoryStore())
    stored.add_message(Message.user("hi"))
    await stored.save()
    with pytest.raises(SessionError, match="its place"):
        stored.description.set_parent("one", None)


def test_a_store_is_bound_once(tmp_path):
    first, second = InMemoryStore(), FileStore(tmp_path)
    session = AgentSession.new("coder")
    session.journal.bind(first)
    session.journal.bind(second)
    assert session.store is first
    assert isinstance(first, SessionStore)
    assert isinstance(second, SessionStore)


async def test_without_a_store_the_working_directory_has_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    session = AgentSession.new("coder")
    session.add_message(Message.user("hi"))
    await session.save()
    assert (tmp_path / "sessions" / session.session_id / "metadata.json").is_file()
    assert (await AgentSession.load(session.session_id)).history == session.history
    assert [each.session_id for each in await AgentSession.list_all()] == [session.session_id]
    assert repr(default_store()) == f"FileStore({str(tmp_path / 'sessions')!r})"


def test_a_session_shows_what_it_is():
    session = AgentSession.new("coder", session_id="mine")
    assert repr(session) == "<AgentSession mine (coder), 0 messages>"
    assert repr(InMemoryStore()) == "InMemoryStore()"
    assert session.description.record.session_id == "mine"


def fates(message):
    return [(result.tool_use_id, result.text) for result in message.tool_results]


def test_calls_without_a_result_are_answered_in_one_message():
    session = AgentSession.new("coder")
    session.add_message(uses("a", "b", "c"))
    session.mark_tools_started(["a", "b"])
    session.mark_tools_started([])
    session.add_message(results("a"))
    assert session.conversation.pair_tool_uses() == ("b", "c")
    assert len(session.history) == 3
    assert fates(session.history[-1]) == [
        ("b", "interrupted: the call had started, and its outcome is unknown"),
        ("c", "interrupted: the call was not started"),
    ]
    assert all(result.is_error for result in session.history[-1].tool_results)
    assert session.conversation.pair_tool_uses() == ()


def test_calls_are_paired_within_their_reply_even_if_ids_come_again():
    session = AgentSession.new("coder")
    for message in (uses("call_0"), results("call_0"), uses("call_0")):
        session.add_message(message)
    assert session.conversation.pair_tool_uses("stopped") == ("call_0",)
    assert fates(session.history[-1]) == [("call_0", "stopped: the call was not started")]


def test_a_mark_of_an_earlier_reply_says_nothing_of_a_later_one():
    session = AgentSession.new("coder")
    session.mark_tools_started(["call_0"])
    session.add_message(uses("call_0"))
    session.mark_tools_started(["call_0"])
    session.add_message(results("call_0"))
    session.add_message(uses("call_0"))
    session.conversation.pair_tool_uses()
    assert "was not started" in session.history[-1].tool_results[0].text


def test_the_same_id_twice_in_one_reply_needs_two_results():
    session = AgentSession.new("coder")
    for message in (uses("a", "a"), results("a")):
        session.add_message(message)
    assert session.conversation.pair_tool_uses() == ("a",)


def test_a_reply_in_two_parts_is_paired_as_one():
    session = AgentSession.new("coder")
    for message in (uses("old"), Message.user("go on"), uses("a"), uses("b"), results("b")):
        session.add_message(message)
    assert session.conversation.pair_tool_uses() == ("a",)


def test_a_conversation_without_calls_has_nothing_to_pair(conversation):
    session = AgentSession.new("coder")
    assert session.conversation.pair_tool_uses() == ()
    session.add_message(conversation[3])
    assert session.conversation.pair_tool_uses() == ()


@pytest.mark.parametrize(
    "message",
    [Message("robot"), Message("user", id=3), Message("user", model=None)],
    ids=["role", "id", "model"],
)
async def test_a_message_that_could_not_be_read_again_is_refused_at_once(message):
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.user("hello"))
    with pytest.raises(InvalidJSONError):
        session.add_message(message)
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=session.store)
    assert loaded.history == (Message.user("hello"),)


async def test_a_start_that_was_not_stored_can_be_withdrawn():
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.assistant([ToolUseBlock("t1", "Read")]))
    session.mark_tools_started(["t1"])
    session.conversation.withdraw_tools_started()
    session.conversation.withdraw_tools_started()
    session.conversation.pair_tool_uses()
    assert "not started" in session.history[-1].tool_results[0].text


async def test_a_start_that_was_stored_stays_known():
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.assistant([ToolUseBlock("t1", "Read")]))
    session.mark_tools_started(["t1"])
    await session.save()
    session.conversation.withdraw_tools_started()
    session.conversation.pair_tool_uses()
    assert "outcome is unknown" in session.history[-1].tool_results[0].text


async def test_statistics_say_what_is_stored_and_what_is_not():
    store = InMemoryStore()
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("hello"))
    assert session.statistics() == SessionStatistics(messages=1, unsaved=1, is_open=False)
    await session.open()
    await session.save()
    assert session.statistics() == SessionStatistics(messages=1, unsaved=0, is_open=True)
    figures = store.statistics()
    assert (figures.sessions, figures.locked) == (1, 1)
    assert figures.bytes > 50
    await session.close()
    assert store.statistics().locked == 0


@pytest.mark.parametrize("kind", [FileStore, SQLiteStore])
async def test_a_store_on_the_disk_counts_its_threads(tmp_path, kind):
    figures = kind(tmp_path / "store").statistics()
    assert (figures.working, figures.waiting) == (0, 0)
    assert figures.threads > 1


async def test_a_save_goes_through_no_message_that_is_stored(monkeypatch):
    session = AgentSession.new("coder", store=InMemoryStore())
    session.add_message(Message.user("one"))
    await session.save()
    session.add_message(Message.user("two"))
    with monkeypatch.context() as patch:
        patch.setattr(Transcript, "messages", property(lambda self: pytest.fail("it did")))
        await session.save()
    assert session.is_saved
    assert len(session.history) == 2


def test_a_text_in_place_of_a_message_is_refused():
    session = AgentSession.new("coder")
    with pytest.raises(TypeError, match=r"'hello' is not a message: write Message\.user"):
        session.add_message("hello")
    assert session.history == ()


async def test_a_start_that_is_being_stored_stands_and_nothing_behind_it_is_lost(monkeypatch):
    store = InMemoryStore()
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("go"))
    session.add_message(Message.assistant([ToolUseBlock("t1", "Wait")]))
    session.mark_tools_started(["t1"])
    writes, goes_on, real = trio.Event(), trio.Event(), _Tail._append

    async def append(*args, **options):
        writes.set()
        await goes_on.wait()
        await real(*args, **options)

    monkeypatch.setattr(_Tail, "_append", append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.save)
        await writes.wait()
        session.conversation.withdraw_tools_started()
        session.conversation.pair_tool_uses("denied")
        goes_on.set()
    await session.save()
    loaded = await AgentSession.load(session.session_id, store=store)
    assert loaded.history == session.history
    assert loaded.history[-1].tool_results[0].text.startswith("denied: the call had started")


async def test_a_session_that_another_thread_begins_does_not_break_a_list(monkeypatch):
    store = InMemoryStore()
    for name in ("one", "two"):
        session = AgentSession.new("coder", session_id=name, store=store)
        session.add_message(Message.user("hello"))
        await session.save()
    real = SessionMetadata.with_updated_at

    def begin(self, moment):  # as another run of trio may, wherever this one is
        store.begin(f"{self.session_id}, meanwhile")
        return real(self, moment)

    monkeypatch.setattr(SessionMetadata, "with_updated_at", begin)
    assert {each.session_id for each in await store.list_all()} == {"one", "two"}
    assert store.statistics().sessions == 2
