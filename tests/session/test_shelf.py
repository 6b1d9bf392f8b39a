"""Stored sessions by their ids: deleted, archived, searched, and listed without being read."""

import os
import sqlite3
import threading
from contextlib import closing

import pytest
import trio

from greenroom.core import (
    Message,
    SessionLockedError,
    SessionNotFoundError,
    SessionStorageError,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from greenroom.session import (
    AgentSession,
    FileStore,
    InMemoryStore,
    SessionCorruptError,
    SQLiteStore,
    session_folder as folder_module,
)
from greenroom.session._internal import SessionSearch, read_last
from greenroom.session.past_sessions import descendants
from greenroom.session.session_folder import FileWriter
from tests.session.faults.killed import installed


async def saved(store, session_id, *texts, parent=None, **metadata):
    session = AgentSession.new("coder", session_id=session_id, store=store)
    if parent:
        session.description.set_parent(parent, None)
    for text in texts or ["hello"]:
        session.add_message(Message.user(text))
    for key, value in metadata.items():
        session.set_metadata(key, value)
    await session.save()
    return session


async def ids(store, **options):
    return [each.session_id for each in await AgentSession.list_all(store=store, **options)]


async def test_deleting_follows_no_link_out_of_the_session_s_folder(files, tmp_path):
    """Links to files and folders, to above and to nowhere, deep folders, odd names, sockets."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("mine")
    session = await saved(files, "s-1")
    folder = tmp_path / "sessions" / "s-1"
    (folder / "to-folder").symlink_to(outside)
    (folder / "to-file").symlink_to(outside / "precious.txt")
    (folder / "to-nowhere").symlink_to("/nowhere/at/all")
    (folder / "to-above").symlink_to("..")
    (folder / "to-itself").symlink_to("to-itself")
    os.mkfifo(folder / "pipe")
    (folder / "odd\n\x1bname").write_text("")
    os.link(outside / "precious.txt", folder / "hard")
    deep = folder
    for _ in range(300):
        deep = deep / "deeper"
    deep.mkdir(parents=True)
    (deep / "to-outside").symlink_to(outside)
    await AgentSession.delete(session.session_id, store=files)
    assert os.listdir(tmp_path / "sessions") == []
    assert (outside / "precious.txt").read_text() == "mine"


async def test_a_session_that_is_a_link_itself_loses_the_link_alone(files, tmp_path):
    elsewhere = FileStore(tmp_path / "elsewhere")
    await saved(elsewhere, "s-1", "one")
    await saved(files, "s-2")
    (tmp_path / "sessions" / "s-1").symlink_to(tmp_path / "elsewhere" / "s-1")
    await AgentSession.delete("s-1", store=files)
    assert await ids(files) == ["s-2"]
    assert len((await AgentSession.load("s-1", store=elsewhere)).history) == 1


async def test_an_unknown_session_is_not_made_by_deleting_it(files, tmp_path):
    with pytest.raises(SessionNotFoundError):
        await AgentSession.delete("s-1", store=files)
    assert not (tmp_path / "sessions").exists()


async def test_a_session_deleted_by_somebody_else_this_moment_is_not_found(files, monkeypatch):
    await saved(files, "s-1")
    real = files.acquire

    async def acquire(session_id):
        monkeypatch.setattr(files, "acquire", real)
        await AgentSession.delete(session_id, store=files)
        return await real(session_id)

    monkeypatch.setattr(files, "acquire", acquire)
    with pytest.raises(SessionNotFoundError):
        await AgentSession.delete("s-1", store=files)
    assert not os.path.exists(files.folder("s-1"))


async def test_what_a_crash_left_of_a_deleted_session_shows_nowhere_and_goes_with_the_next(
    files, tmp_path
):
    root = tmp_path / "sessions"
    await saved(files, "s-1")
    await saved(files, "s-2")
    (root / "s-1").rename(root / ".deleted-s-1-d-0")
    assert await ids(files) == ["s-2"]
    with pytest.raises(SessionNotFoundError):
        await AgentSession.load("s-1", store=files)
    await AgentSession.delete("s-2", store=files)
    assert os.listdir(root) == []


async def test_what_can_not_be_removed_is_named(files, tmp_path, monkeypatch):
    await saved(files, "s-1")

    def refuse(path, *args):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("greenroom.fs.durable.os.unlink", refuse)
    with pytest.raises(SessionStorageError, match=r"\.deleted-s-1.*Permission denied"):
        await AgentSession.delete("s-1", store=files)
    monkeypatch.undo()
    assert await ids(files) == []
    with pytest.raises(SessionNotFoundError):
        await AgentSession.delete("s-1", store=files)


async def test_a_reader_that_is_overtaken_by_a_delete_does_not_see_an_empty_session(
    files, monkeypatch
):
    """The description was there, and the history is not there any more."""
    session = await saved(files, "s-1")
    real = folder_module.durable.read_bytes

    def read_bytes(path, start=0):
        if path.endswith("history.jsonl"):
            os.rename(files.folder("s-1"), files.folder("s-2"))
        return real(path, start)

    monkeypatch.setattr(folder_module.durable, "read_bytes", read_bytes)
    with pytest.raises(SessionNotFoundError):
        await AgentSession.load(session.session_id, store=files)


async def test_the_last_page_of_a_session_that_is_being_deleted_is_not_an_empty_one(
    files, monkeypatch
):
    session = await saved(files, "s-1")
    real = folder_module.durable.open_to_read

    def opened(path, *args):
        if path.endswith("history.jsonl"):
            os.rename(files.folder("s-1"), files.folder("s-2"))
        return real(path, *args)

    monkeypatch.setattr(folder_module.durable, "open_to_read", opened)
    with pytest.raises(SessionNotFoundError):
        await read_last(session.session_id, 1, store=files)


async def test_a_database_keeps_nothing_of_a_deleted_session(tmp_path):
    path = tmp_path / "sessions.db"
    async with SQLiteStore(path) as store:
        await saved(store, "s-0")
        await saved(store, "s-1", "one", "two")
        writer = await store.acquire("s-1")
        stored = await store.read("s-1")
        await writer.set_aside(stored.history.end)
        await writer.release()
        await AgentSession.delete("s-1", store=store)
    with closing(sqlite3.connect(path)) as connection:
        for table in ("sessions", "lines", "torn", "writers"):
            count = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert count == (int(table in ("sessions", "lines")),), table
    assert os.listdir(f"{path}-locks") == []


async def test_a_child_that_is_gone_already_does_not_keep_its_parent(store, monkeypatch):
    await saved(store, "s-1")
    await saved(store, "s-2", parent="s-1")
    listed = await store.list_all()
    await AgentSession.delete("s-2", store=store)

    async def list_all():
        return listed

    monkeypatch.setattr(store, "list_all", list_all)
    await AgentSession.delete("s-1", store=store, children=True)
    assert not await store.exists("s-1")


def test_descriptions_that_name_each_other_as_parents_name_nobody_twice():
    def child(session_id, parent):
        return AgentSession.new_subagent("coder", parent, session_id=session_id).description.record

    circle = [child("a", "c"), child("b", "a"), child("c", "b"), child("d", "d")]
    assert descendants("a", circle) == {"a": ["b"], "b": ["c"]}
    assert descendants("d", circle) == {}
    assert descendants("x", circle) == {}


async def test_an_archived_session_is_out_of_the_lists_until_it_is_brought_back(store, wall):
    await saved(store, "s-1", "one", title="mine")
    before = (await AgentSession.load("s-1", store=store)).description.record
    wall.move(3600)
    await AgentSession.archive("s-1", store=store)
    await AgentSession.archive("s-1", store=store)
    assert await ids(store) == []
    [listed] = await AgentSession.list_all(store=store, archived=True)
    assert listed.is_archived
    assert listed.updated_at == before.updated_at
    loaded = await AgentSession.load("s-1", store=store)
    assert [each.text for each in loaded.history] == ["one"]
    assert loaded.metadata == {"title": "mine", "archived": True}
    await AgentSession.archive("s-1", store=store, archived=False)
    assert [each.description.record for each in [await AgentSession.load("s-1", store=store)]] == [
        before
    ]
    assert await ids(store) == ["s-1"]


async def test_an_archived_session_can_be_gone_on_with_and_its_fork_is_listed(store):
    await saved(store, "s-1", "one")
    await AgentSession.archive("s-1", store=store)
    session = await AgentSession.load("s-1", store=store)
    session.add_message(Message.user("two"))
    await session.save()
    assert await ids(store) == []
    fork = await session.fork()
    assert await ids(store) == [fork.session_id]


async def test_only_a_session_that_exists_and_is_free_can_be_archived(store):
    with pytest.raises(SessionNotFoundError):
        await AgentSession.archive("s-1", store=store)
    session = await saved(store, "s-1")
    await session.open()
    for archived in (True, False):
        with pytest.raises(SessionLockedError):
            await AgentSession.archive("s-1", store=store, archived=archived)
    await session.close()


async def test_a_session_that_another_hand_removes_meanwhile_is_not_archived(files, monkeypatch):
    await saved(files, "s-1")
    real = FileWriter.read

    async def read(writer, since):
        os.unlink(os.path.join(files.folder("s-1"), "metadata.json"))
        return await real(writer, since)

    monkeypatch.setattr(FileWriter, "read", read)
    with pytest.raises(SessionNotFoundError):
        await AgentSession.archive("s-1", store=files)
    assert await ids(files, archived=True) == []


async def test_a_text_is_found_in_titles_messages_and_calls_and_nowhere_else(store, wall):
    async def hits(text):
        report = await AgentSession.search(text, store=store)
        return [(each.session.session_id, each.at, each.count) for each in report.hits]

    await saved(store, "s-title", title="the Roof leaks")
    wall.move(60)
    await saved(store, "s-said", "hello", "mend the ROOF", "the roof, please")
    wall.move(60)
    session = await saved(store, "s-call", "help")
    call = ToolUseBlock("t1", "Bash", {"command": ["ls", {"where": "/roof"}], "n": 1})
    session.add_message(Message.assistant([TextBlock("Gladly."), call]))
    session.add_message(Message.user([ToolResultBlock("t1", (TextBlock("rooftile"),))]))
    session.add_message(Message.assistant([ThinkingBlock("roofs are wet"), TextBlock("Done.")]))
    await session.save()
    assert await hits("roof") == [("s-call", 1, 1), ("s-said", 1, 2), ("s-title", None, 0)]
    assert await hits("rooftile") == []
    assert await hits("roofs are") == []
    assert await hits("Bash") == []
    assert await hits("GLADLY") == [("s-call", 1, 1)]


async def test_what_was_taken_back_is_not_found(store):
    session = await saved(store, "s-1", "one", "two")
    await session.rewind(1)
    assert (await AgentSession.search("two", store=store)).hits == ()


async def test_what_a_compaction_left_out_is_found_and_can_be_forked_from(store):
    session = await saved(store, "s-1", "the attic", "the roof", "the cellar", "the roof again")
    await session.compact("We spoke of a house.", 1)
    session.add_message(Message.user("the garden"))
    await session.save()

    async def hit(text):
        [found] = (await AgentSession.search(text, store=store)).hits
        return found.at, found.branch, found.count

    assert await hit("again") == (1, None, 1)
    assert await hit("roof") == (1, None, 2)
    assert await hit("house") == (0, None, 1)
    at, branch, count = await hit("cellar")
    assert count == 1
    fork = await session.fork(at + 1, branch=branch)
    assert [each.text for each in fork.history][-1] == "the cellar"
    await AgentSession.delete(fork.session_id, store=store)
    await session.rewind(1)
    assert await hit("attic") == (0, branch, 1)


async def test_a_search_ends_at_its_limit_and_says_how_far_it_came(store, wall):
    for number in range(5):
        await saved(store, f"s-{number}", "roof")
        wall.move(60)
    report = await AgentSession.search("roof", store=store, limit=2)
    assert [each.session.session_id for each in report.hits] == ["s-4", "s-3"]
    assert report.searched == 2
    assert (await AgentSession.search("attic", store=store)).searched == 5
    assert (await AgentSession.search("roof", store=InMemoryStore())).hits == ()


async def test_archived_sessions_are_searched_where_that_is_asked_for(store):
    await saved(store, "s-1", "roof")
    await AgentSession.archive("s-1", store=store)
    assert (await AgentSession.search("roof", store=store)).hits == ()
    assert len((await AgentSession.search("roof", store=store, archived=True)).hits) == 1


async def test_a_damaged_session_is_reported_and_the_others_are_searched(store_under_test):
    store = store_under_test.make()
    for session_id in ("s-1", "s-2", "s-3"):
        session = await saved(store, session_id, "roof", title="roof")
        session.add_message(Message.user("more"))
        await session.save()
    await saved(store, "s-4", "floor")
    await store_under_test.damage("s-2", 0)
    report = await AgentSession.search("roof", store=store)
    assert {each.session.session_id: each.at for each in report.hits} == {
        "s-1": 0,
        "s-2": None,
        "s-3": 0,
    }
    [error] = report.damaged
    assert isinstance(error, SessionCorruptError)
    assert error.session_id == "s-2"
    assert report.searched == 4
    assert len((await AgentSession.search("wall", store=store)).damaged) == 1


async def test_nothing_is_no_text_to_look_for(store):
    for text in ("", " \n"):
        with pytest.raises(ValueError, match="is empty"):
            await AgentSession.search(text, store=store)


async def test_a_session_deleted_since_it_was_listed_is_passed_over(store):
    await saved(store, "s-1", "roof")
    listed = await store.list_all()
    await AgentSession.delete("s-1", store=store)
    search = SessionSearch("roof", listed, store)
    assert [hit async for hit in search] == []
    assert (search.searched, search.damaged) == (1, [])


async def test_a_search_that_is_cancelled_goes_on_where_it_was(store, wall):
    for number in range(3):
        await saved(store, f"s-{number}", "roof")
        wall.move(60)
    search, found = SessionSearch("roof", await store.list_all(), store), []
    while True:
        with trio.CancelScope() as scope:
            scope.cancel()
            await anext(search, None)
        assert scope.cancelled_caught
        hit = await anext(search, None)
        if hit is None:
            break
        found.append(hit.session.session_id)
    assert found == ["s-2", "s-1", "s-0"]


class Watching:
    """`os`, which writes down what is opened, and in which thread."""

    def __init__(self):
        self.opened, self.threads = [], set()

    def __getattr__(self, name):
        return getattr(os, name)

    def open(self, path, *args):
        self.opened.append(os.path.basename(path))
        self.threads.add(threading.get_ident())
        return os.open(path, *args)


async def test_a_search_reads_each_history_once_in_threads_and_none_behind_its_limit(files):
    for number in range(6):
        await saved(files, f"s-{number}", "roof")
    watching = Watching()
    with installed(watching):
        assert len((await AgentSession.search("roof", store=files, limit=4)).hits) == 4
        assert watching.opened.count("history.jsonl") == 4
    assert threading.get_ident() not in watching.threads


async def test_a_list_opens_the_descriptions_and_nothing_else(files):
    for number in range(50):
        await saved(files, f"s-{number}", "roof" * 999)
    watching = Watching()
    with installed(watching):
        assert len(await ids(files)) == 50
    assert watching.opened == ["metadata.json"] * 50
    assert threading.get_ident() not in watching.threads
