"""The parts of the list of sessions that need no terminal."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio
from hypothesis import given, strategies as st
from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.utils import get_cwidth

from greenroom import AgentSession, FileStore, MemoryStore, Message
from greenroom.cli.drawing.theme import ColorScheme
from greenroom.cli.picker import controls
from greenroom.cli.picker.choice import Choice
from greenroom.cli.picker.controls import ListControl
from greenroom.cli.picker.entry import entries_of
from greenroom.cli.picker.preview import PreviewReader, load_preview
from greenroom.cli.picker.rows import Columns, fitted, row
from greenroom.core import visible
from greenroom.session import SessionMetadata

NOON = datetime(2026, 1, 14, 12, tzinfo=UTC)
HERE = Path("/work/here")


def described(number=0, title="a title", folder=HERE, **more):
    return SessionMetadata(
        session_id=f"s-{number:05}",
        agent_type="coder",
        created_at=NOON,
        updated_at=NOON - timedelta(minutes=number),
        metadata={"title": title, "workspace": str(folder), **more.pop("metadata", {})},
        **more,
    )


def choice_of(*sessions):
    return Choice(entries_of(sessions, HERE))


def text_of(entry, width=80, *, has_folders=True):
    columns = Columns.of(width, has_folders=has_folders)
    return fragment_list_to_text(row(entry, columns, is_current=False))


def test_subagents_are_not_offered():
    [entry] = entries_of([described(1), described(2, parent_session_id="s-00001")], HERE)
    assert entry.session_id == "s-00001"


def test_a_session_of_another_program_is_named_by_its_kind():
    bare = SessionMetadata(session_id="s", agent_type="tal\nker", created_at=NOON, updated_at=NOON)
    [entry] = entries_of([bare], HERE)
    assert entry.title == "(tal ker)"
    assert not entry.is_here


def test_a_folder_of_the_user_is_shown_from_home_on(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    folders = ("/home/me", "/home/me/x", "/home/mel", "/work/here")
    entries = entries_of([described(folder=each) for each in folders], HERE)
    assert [each.folder for each in entries] == ["~", "~/x", "/home/mel", "/work/here"]


def test_where_no_session_is_of_this_folder_all_are_shown():
    choice = choice_of(described(folder="/a"), described(folder="/b"))
    assert choice.is_everywhere
    assert len(choice.shown) == 2
    choice.toggle()
    assert choice.current is None
    choice.move(1)
    assert choice.cursor == 0


def test_the_session_in_hand_stays_when_the_folders_change():
    choice = choice_of(described(1, folder="/a"), described(2), described(3))
    choice.move(5)
    assert choice.current.session_id == "s-00003"
    choice.toggle()
    assert (choice.cursor, choice.current.session_id) == (2, "s-00003")
    choice.move(-2)
    choice.toggle()
    assert (choice.cursor, choice.total) == (0, 2)


@given(st.text(max_size=40), st.integers(1, 60), st.booleans())
def test_a_fitted_text_has_the_width_that_was_asked_for(text, width, keeps_end):
    assert get_cwidth(fitted(text, width, keeps_end=keeps_end)) == width


@given(st.text(max_size=80), st.integers(40, 200), st.booleans())
def test_a_row_is_as_wide_as_the_list_whatever_it_tells(title, width, has_folders):
    [entry] = entries_of([described(title=title, folder=f"/{title}", model=title)], HERE)
    shown = text_of(entry, width, has_folders=has_folders)
    assert get_cwidth(shown) == width
    assert visible(shown) == shown
    assert not set(shown) & set("\t\n")


def test_a_row_leaves_out_the_model_then_the_folder_where_there_is_no_room():
    [entry] = entries_of([described(folder="/elsewhere", model="rules")], HERE)
    assert "/elsewhere" in text_of(entry, 100)
    assert "rules" in text_of(entry, 100)
    assert "/elsewhere" in text_of(entry, 80)
    assert "rules" not in text_of(entry, 80)
    assert "rules" in text_of(entry, 60, has_folders=False)
    assert text_of(entry, 40).split() == ["a", "title", "2026-01-14"]


def test_of_ten_thousand_sessions_only_those_on_the_screen_are_made_into_rows(monkeypatch):
    choice = choice_of(*(described(number) for number in range(10_000)))
    choice.move(5_000)
    made = []
    monkeypatch.setattr(controls, "row", lambda entry, *_, **__: made.append(entry) or [])
    content = ListControl(choice).create_content(80, 20)
    assert (content.line_count, content.cursor_position.y) == (10_000, 5_000)
    content.get_line(5_000)
    assert [each.session_id for each in made] == ["s-05000"]


async def test_no_history_is_read_for_a_list(tmp_path):
    store = FileStore(tmp_path)
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("hello"))
    await session.save()
    (tmp_path / session.session_id / "history.jsonl").write_bytes(b"no history at all")
    assert len(choice_of(*await store.list_all()).shown) == 1


class SlowStore(MemoryStore):
    """Says which sessions are read, and waits until it may go on."""

    def __init__(self):
        super().__init__()
        self.asked, self.may_answer = [], trio.Event()
        self.has_asked = trio.Event()

    async def read_last(self, session_id, count):
        self.asked.append(session_id)
        self.has_asked.set()
        await self.may_answer.wait()
        return await super().read_last(session_id, count)


async def kept(store, *numbers):
    for number in numbers:
        session = AgentSession.new("coder", session_id=f"s-{number:05}", store=store)
        session.add_message(Message.user(f"question {number}"))
        await session.save()
    return entries_of([described(number) for number in numbers], HERE)


async def test_what_is_wanted_no_longer_is_not_read_to_its_end(nursery):
    store, shown = SlowStore(), trio.Event()
    previews = []

    def show(preview):
        previews.append(preview.session_id)
        shown.set()

    store.may_answer.set()
    first, second = await kept(store, 1, 2)
    store.may_answer, store.has_asked, store.asked = trio.Event(), trio.Event(), []
    reader = PreviewReader(store, show)
    nursery.start_soon(reader.run)
    reader.want(first)
    with trio.fail_after(60):
        await store.has_asked.wait()
        store.has_asked = trio.Event()
        reader.want(second)
        await store.has_asked.wait()
        store.may_answer.set()
        await shown.wait()
    assert store.asked == ["s-00001", "s-00002"]
    assert previews == ["s-00002"]
    nursery.cancel_scope.cancel()


async def test_nothing_is_read_while_nothing_is_wanted(nursery):
    store, previews = SlowStore(), []
    reader = PreviewReader(store, previews.append)
    nursery.start_soon(reader.run)
    reader.want(None)
    await trio.testing.wait_all_tasks_blocked()
    assert store.asked == previews == []
    nursery.cancel_scope.cancel()


async def test_a_preview_tells_of_a_torn_end(tmp_path):
    store = FileStore(tmp_path)
    [entry] = await kept(store, 1)
    with (tmp_path / entry.session_id / "history.jsonl").open("ab") as file:
        file.write(b'{"torn')
    preview = await load_preview(entry, store, ColorScheme())
    assert str(preview.parts[1]) == "> question 1"
    assert "history.jsonl" in str(preview.parts[-1])
