"""Sessions in a database: its file, damage and misuse, refusals of the disk, threads and loops."""

import gc
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
import trio

from greenroom.core import (
    Message,
    SessionError,
    SessionLockedError,
    SessionNotFoundError,
    SessionStorageError,
)
from greenroom.fs import sqlite
from greenroom.session import (
    AgentSession,
    SessionCorruptError,
    SessionFencedError,
    SQLiteStore,
    sqlite_database,
    sqlite_store,
    stored_rows,
)
from tests.warm_python import run_warm


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
def store(path):
    return SQLiteStore(path)


@pytest.fixture
def connections(monkeypatch):
    """Every connection that is opened, as it is opened; `watch` is called with each."""
    made, watchers, real = [], [], sqlite3.connect

    def connect(*args, **options):
        connection = real(*args, **options)
        made.append(connection)
        for watcher in watchers:
            watcher(connection)
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect)
    made_and_watch = type("Connections", (list,), {"watch": watchers.append})
    made = made_and_watch()
    return made


async def saved(store, *texts, session_id="mine"):
    session = AgentSession.new("coder", session_id=session_id, store=store)
    for text in texts:
        session.add_message(Message.user(text))
        await session.save()
    return session


async def texts(store, session_id="mine"):
    return [each.text for each in (await AgentSession.load(session_id, store=store)).history]


def execute(path, query, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(query, values).fetchall()


def mode(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_sqlite_is_loaded_only_where_it_is_used():
    script = """
import sys
from greenroom import AgentSession, FileStore, InMemoryStore
assert "sqlite3" not in sys.modules
from greenroom import SQLiteStore
assert "sqlite3" in sys.modules
import greenroom.session
assert greenroom.session.SQLiteStore is SQLiteStore
try:
    greenroom.session.frobnicate
except AttributeError as error:
    print(error)
"""
    # Without the environment no coverage is measured in it, which would load sqlite3 itself.
    done = subprocess.run(
        [sys.executable, "-c", script], env={}, capture_output=True, text=True, check=False
    )
    assert "no attribute 'frobnicate'" in done.stdout, done.stderr


async def test_all_files_are_for_this_user_alone_and_one_is_left_when_it_is_closed(path):
    old = os.umask(0o022)
    try:
        async with SQLiteStore(path) as store:
            session = await saved(store, "one")
            await session.open()
            names = {"sessions.db", "sessions.db-wal", "sessions.db-shm", "sessions.db-locks"}
            assert set(os.listdir(path.parent)) == names
            assert {mode(path.parent / name) for name in names} == {0o600, 0o700}
            assert mode(f"{path}-locks") == 0o700
            await session.close()
    finally:
        os.umask(old)
    assert set(os.listdir(path.parent)) == {"sessions.db", "sessions.db-locks"}
    assert os.listdir(f"{path}-locks") == []
    assert await texts(store) == ["one"]
    await store.aclose()
    await store.aclose()
    assert "sessions.db" in repr(store)


async def test_folders_above_are_made_and_reading_makes_nothing(tmp_path):
    store = SQLiteStore(tmp_path / "a" / "b" / "sessions.db")
    assert not await store.exists("mine")
    assert (await store.read("mine")).metadata is None
    assert await store.list_all() == []
    assert os.listdir(tmp_path) == []
    await saved(store, "one")
    assert mode(tmp_path / "a") == 0o700
    await store.aclose()


async def test_a_commit_is_synced_and_the_log_is_written_ahead(store, path):
    await saved(store, "one")
    connection = store._database._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await store.aclose()


def fail_to_sync(*_args):
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    raise error


async def test_what_need_not_be_flushed_is_synced_with_the_next_commit(store, path):
    session, other = await saved(store, "one"), await saved(store, "one", session_id="other")
    await session.open()
    connection, log = store._database._connection, Path(f"{path}-wal")

    async def save(session, *, flush):
        size = log.stat().st_size
        await session.save(flush=flush)
        is_synced = connection.execute("PRAGMA synchronous").fetchone() == (2,)
        return is_synced, log.stat().st_size > size

    session.add_message(Message.user("two"))
    assert await save(session, flush=False) == (False, True)
    # A commit of nothing new syncs as well: SQLite syncs none that has not written.
    assert await save(session, flush=True) == (True, True)
    assert await save(session, flush=True) == (True, False)
    session.add_message(Message.user("three"))
    assert await save(session, flush=False) == (False, True)
    other.add_message(Message.user("two"))
    assert await save(other, flush=True) == (True, True)
    await session.close()
    assert await texts(store) == ["one", "two", "three"]
    await store.aclose()


async def test_after_a_failed_sync_the_log_is_emptied_before_another_commit_counts(
    store, path, monkeypatch
):
    session, other = await saved(store, "one"), await saved(store, "one", session_id="other")
    await session.open()
    await other.open()
    other.add_message(Message.user("two"))
    await other.save(flush=False)

    session.add_message(Message.user("two"))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "add_line", fail_to_sync)
        with pytest.raises(SessionStorageError, match="disk I/O error"):
            await session.save()
    connection = store._database._connection
    connection.execute("PRAGMA busy_timeout = 1")
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM lines").fetchone()
        other.add_message(Message.user("three"))
        await other.save(flush=False)  # the log has more now than this reader may see
        with pytest.raises(SessionStorageError, match="another program reads it"):
            await other.save()
    assert not other.is_saved
    await other.save()
    assert connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone() == (0, 1, 1)
    await other.close()
    await session.close()
    await store.aclose()
    assert await texts(store, "other") == ["one", "two", "three"]
    await store.aclose()


async def test_a_failed_sync_counts_before_another_thread_may_commit(store, monkeypatch):
    await saved(store, "one")
    database, emptied = store._database, []
    monkeypatch.setattr(database, "_empty_log", emptied.append)
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC

    def commit_twice():  # before the event loop learns of the first one
        with suppress(sqlite3.OperationalError), database.write_transaction():
            raise error
        assert emptied == []
        with database.write_transaction() as connection:
            assert emptied == [connection]

    await trio.to_thread.run_sync(commit_twice)
    await store.aclose()


async def test_one_append_is_one_transaction(store, connections):
    statements = []
    session = await saved(store, "one")
    await session.open()
    store._database._connection.set_trace_callback(statements.append)
    session.add_message(Message.user("two"))
    session.mark_tools_started(["t1"])
    await session.save()
    store._database._connection.set_trace_callback(None)
    assert [each for each in statements if each in {"BEGIN IMMEDIATE", "COMMIT"}] == [
        "BEGIN IMMEDIATE",
        "COMMIT",
    ]
    await session.close()
    await store.aclose()


async def test_an_append_takes_as_many_steps_however_long_the_history(store):
    session = await saved(store, "one")
    await session.open()

    async def steps():
        taken = []
        store._database._connection.set_progress_handler(lambda: taken.append(1), 1)
        session.add_message(Message.user("more"))
        await session.save()
        store._database._connection.set_progress_handler(None, 1)
        return len(taken)

    first = await steps()
    for number in range(300):
        session.add_message(Message.user(str(number)))
        await session.save()
    assert await steps() <= first + 10 < 250
    await session.close()
    await store.aclose()


async def test_listing_and_asking_touch_no_line(store):
    await saved(store, "one")
    await saved(store, "one", session_id="other")

    def refuse_lines(action, first, *rest):
        return sqlite3.SQLITE_DENY if first == "lines" else sqlite3.SQLITE_OK

    store._database._connection.set_authorizer(refuse_lines)
    assert {each.session_id for each in await store.list_all()} == {"mine", "other"}
    assert await store.exists("mine")
    with pytest.raises(SessionStorageError, match="prohibited"):
        await store.read("mine")
    await store.aclose()


async def test_the_standard_library_alone_can_read_a_session(store, path):
    await saved(store, "one", "two")
    await store.aclose()
    ((metadata,),) = execute(path, "SELECT metadata FROM sessions")
    assert json.loads(metadata)["session_id"] == "mine"
    lines = execute(path, "SELECT CAST(line AS TEXT) FROM lines ORDER BY session, number")
    entries = [entry for (line,) in lines for entry in json.loads(line)["e"]]
    assert [entry["kind"] for entry in entries] == ["format", "message", "message"]


async def test_keys_of_newer_versions_survive_a_load_and_save(store, path):
    await saved(store, "one")
    execute(path, "UPDATE sessions SET metadata = json_set(CAST(metadata AS TEXT), '$.tags', 'a')")
    loaded = await AgentSession.load("mine", store=store)
    loaded.set_metadata("title", "mine")
    await loaded.save()
    ((metadata,),) = execute(path, "SELECT metadata FROM sessions")
    assert json.loads(metadata)["tags"] == "a"
    assert json.loads(metadata)["metadata"] == {"title": "mine"}
    await store.aclose()


async def refused(store, kind, match):
    """Every way in fails with this error; return the last."""
    session = AgentSession.new("coder", session_id="mine", store=store)
    session.add_message(Message.user("one"))
    for ask in (lambda: store.exists("mine"), lambda: store.read("mine"), store.list_all,
                lambda: store.acquire("mine"), session.save):  # fmt: skip
        with pytest.raises(kind, match=match) as told:
            await ask()
    assert not session.is_saved
    return told.value


async def test_a_database_of_something_else_is_refused_and_left_alone(store, path):
    execute(path, "CREATE TABLE sessions (id)")
    before = path.read_bytes()
    error = await refused(store, SessionStorageError, "sessions.db holds no sessions")
    assert "name another file" in error.hint
    assert path.read_bytes() == before
    path.write_bytes(b"")
    await refused(store, SessionStorageError, "holds no sessions")


async def test_a_file_that_is_no_database_is_refused_and_left_alone(store, path):
    path.write_text("Dear diary, " * 1000)
    error = await refused(store, SessionCorruptError, "sessions.db: file is not a database")
    assert error.path == str(path)
    assert "name another file" in error.hint
    assert path.read_text() == "Dear diary, " * 1000


async def test_a_newer_schema_is_refused(store, path):
    await saved(store, "one")
    await store.aclose()
    execute(path, "PRAGMA user_version = 99")
    error = await refused(store, SessionError, "schema 99")
    assert "upgrade greenroom" in error.hint


async def test_an_older_schema_is_brought_up_to_date_all_or_nothing(store, path, monkeypatch):
    await saved(store, "one")
    await store.aclose()
    broken = ("ALTER TABLE sessions ADD COLUMN title", "SELECT nonsense")
    monkeypatch.setattr(sqlite_database, "_STEPS", (*sqlite_database._STEPS, broken))
    await refused(store, SessionCorruptError, "nonsense")
    steps = len(sqlite_database._STEPS) - 1
    assert execute(path, "PRAGMA user_version") == [(steps,)]
    monkeypatch.setattr(sqlite_database, "_STEPS", (*sqlite_database._STEPS[:-1], broken[:1]))
    assert await texts(store) == ["one"]
    await store.aclose()
    assert execute(path, "PRAGMA user_version") == [(steps + 1,)]
    assert execute(path, "SELECT title FROM sessions") == [(None,)]
    assert await texts(store) == ["one"]
    await store.aclose()


async def test_damaged_pages_are_an_error_that_says_what_to_do(store, path):
    for number in range(20):
        await saved(store, "x" * 3000, session_id=f"s{number}")
    await store.aclose()
    data = bytearray(path.read_bytes())
    data[4096:] = os.urandom(len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(SessionCorruptError) as caught:
        await AgentSession.load("s7", store=store)
    assert caught.value.path == str(path)
    assert f"sqlite3 {path} .recover" in caught.value.hint
    await store.aclose()


async def test_any_flipped_bit_in_the_file_is_noticed_or_does_no_harm(store, path):
    """What comes back is what was stored, or a report, or a typed error; never something else."""
    await saved(store, "a" * 1500, "b" * 1500, "c" * 1500)
    await store.aclose()
    sound = path.read_bytes()
    expected = ["a" * 1500, "b" * 1500, "c" * 1500]
    fates = set()
    for place in range(0, len(sound), 211):
        path.write_bytes(sound[:place] + bytes([sound[place] ^ 4]) + sound[place + 1 :])
        try:
            loaded = await AgentSession.load("mine", store=store)
        except SessionError as error:
            fates.add(type(error).__name__)
        else:
            found = [each.text for each in loaded.history]
            assert found == expected or (loaded.repair and found == expected[:2])
            fates.add("reported" if loaded.repair else "harmless")
        await store.aclose()
    assert {"SessionCorruptError", "reported", "harmless"} <= fates


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("DELETE FROM lines WHERE number = 2", "bytes were stored"),
        ("DELETE FROM lines WHERE number = 1", "bytes were stored"),
        ("DELETE FROM lines", "bytes were stored"),
        ("UPDATE lines SET number = 3 - number WHERE number > 0", "others follow"),
        ("UPDATE lines SET line = CAST(line AS TEXT) || 'x' WHERE number = 1", "bytes were stored"),
        ("UPDATE sessions SET changed = 1 << 60", "is not a time"),
        ("UPDATE sessions SET metadata = '{' || metadata", "sessions.db#mine"),
        ("DROP TABLE lines", "no such table"),
    ],
)
async def test_what_others_did_to_the_tables_is_noticed(store, path, change, problem):
    await saved(store, "one", "two", "three")
    if "3 - number" in change:
        execute(path, "UPDATE lines SET number = number + 10 WHERE number > 0")
        change = "UPDATE lines SET number = 13 - number + 0 WHERE number > 10"
    execute(path, change)
    with pytest.raises(SessionCorruptError, match=problem):
        await store.read("mine")
    await store.aclose()


@pytest.mark.parametrize(
    ("change", "size"),
    [
        ("UPDATE lines SET line = zeroblob(length(line)) WHERE number = 1", 2),
        ("DELETE FROM lines WHERE number = 1", 1),
        ("DELETE FROM lines WHERE number > 0", 0),
    ],
)
async def test_a_damaged_session_is_salvaged_and_nothing_of_it_is_lost(store, path, change, size):
    await saved(store, "one", "two", "three")
    assert await store.salvage("mine") is None
    ((before,),) = execute(path, "SELECT sum(length(line)) / 3 FROM lines")
    execute(path, change)
    with pytest.raises(SessionCorruptError) as caught:
        await store.read("mine")
    assert f"`greenroom sessions repair mine --sessions {path}`" in caught.value.hint
    report = await store.salvage("mine")
    assert (report.line, report.set_aside) == (2, "number 1 of the table torn")
    ((torn,),) = execute(path, "SELECT lines FROM torn")
    assert len(torn) == report.size
    assert abs(report.size - size * before) < 50
    assert await texts(store) == ["one"]
    session = await AgentSession.load("mine", store=store)
    session.add_message(Message.user("more"))
    await session.save()
    assert await texts(store) == ["one", "more"]
    with pytest.raises(SessionNotFoundError):
        await store.salvage("nobody")
    await store.aclose()


@pytest.mark.parametrize("column", ["metadata", "session_id"])
async def test_an_unreadable_description_is_logged_and_does_not_hide_others(
    store, path, caplog, column
):
    await saved(store, "one")
    await saved(store, "one", session_id="broken")
    execute(
        path, f"UPDATE sessions SET {column} = CAST(X'FFFE' AS TEXT) WHERE session_id = ?", "broken"
    )
    assert [each.session_id for each in await store.list_all()] == ["mine"]
    assert "left out" in caplog.text
    await store.aclose()


async def test_a_full_disk_changes_nothing_and_can_be_got_over(store):
    session = await saved(store, "one")
    await session.open()
    connection = store._database._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages}")
    session.add_message(Message.user("two" * 10_000))
    for _ in range(2):
        with pytest.raises(SessionStorageError, match="database or disk is full") as caught:
            await session.save()
        assert (caught.value.session_id, "make room" in caught.value.hint) == ("mine", True)
    assert await texts(store) == ["one"]
    connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    await session.save()
    await session.close()
    assert await texts(store) == ["one", "two" * 10_000]
    await store.aclose()


async def test_a_history_that_is_too_long_is_refused_and_not_read(store, path, monkeypatch):
    session = await saved(store, "one")
    await saved(store, "one", session_id="other")
    ((size,),) = execute(path, "SELECT size FROM sessions WHERE session_id = 'mine'")
    monkeypatch.setattr(stored_rows, "_MOST", size)
    session.add_message(Message.user("two"))
    with pytest.raises(SessionStorageError, match="mine: the history is too long") as told:
        await session.save()
    assert "1 GiB" in told.value.hint
    assert await texts(store) == ["one"]
    monkeypatch.undo()
    await session.save()
    execute(path, "UPDATE sessions SET size = 1 << 32 WHERE session_id = 'mine'")
    with pytest.raises(SessionStorageError, match="too long"):
        await AgentSession.load("mine", store=store)
    assert await texts(store, "other") == ["one"]
    assert len(await store.list_all()) == 2
    await store.aclose()


async def test_a_database_that_can_only_be_read_is_read_and_not_written(store):
    session = await saved(store, "one")
    store._database._connection.execute("PRAGMA query_only = ON")
    session.add_message(Message.user("two"))
    with pytest.raises(SessionStorageError, match="readonly"):
        await session.save()
    assert await texts(store) == ["one"]
    assert os.listdir(f"{store._path}-locks/mine") == []
    await store.aclose()


async def test_a_disk_that_fails_makes_the_session_read_only_until_reopened(store, monkeypatch):
    session = await saved(store, "one")
    await session.open()

    session.add_message(Message.user("two"))
    with monkeypatch.context() as patch:
        patch.setattr(sqlite_store, "add_line", fail_to_sync)
        with pytest.raises(SessionStorageError, match="disk I/O error") as caught:
            await session.save()
    assert "what is unsaved is kept in memory" in caught.value.hint  # no more is known
    with pytest.raises(SessionStorageError, match="read-only"):
        await session.save()
    other = await saved(store, "one", session_id="other")
    assert other.is_saved
    await session.close()
    await session.open()
    await session.save()
    await session.close()
    assert await texts(store) == ["one", "two"]
    await store.aclose()


async def test_another_program_s_write_is_waited_for_and_then_an_error(path, monkeypatch):
    monkeypatch.setattr(sqlite_database, "_PATIENCE", 0.01)
    store = SQLiteStore(path)
    session = await saved(store, "one")
    session.add_message(Message.user("two"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionStorageError, match="database is locked") as caught:
            await session.save()
        assert "another program" in caught.value.hint
        assert await texts(store) == ["one"]
        other.execute("ROLLBACK")
    await session.save()
    assert await texts(store) == ["one", "two"]
    await store.aclose()


async def test_a_database_removed_under_our_feet_takes_nothing_that_would_be_lost(store, path):
    session = await saved(store, "one")
    await session.open()
    path.rename(path.with_name("elsewhere.db"))
    session.add_message(Message.user("two"))
    for _ in range(2):
        with pytest.raises(SessionStorageError, match="moved or removed"):
            await session.save()
    assert not path.exists()
    path.with_name("elsewhere.db").rename(path)
    await session.save()
    await session.close()
    assert await texts(store) == ["one", "two"]
    await store.aclose()


async def test_a_database_put_in_the_place_of_another_is_not_written_by_its_writers(store, path):
    session = await saved(store, "one")
    await session.open()
    path.unlink()
    with pytest.raises(SessionStorageError, match="belongs to a database that is gone"):
        await saved(SQLiteStore(path), "another", session_id="other")
    for log in ("-wal", "-shm"):
        os.unlink(f"{path}{log}")
    await saved(SQLiteStore(path), "another", session_id="other")
    session.add_message(Message.user("two"))
    with pytest.raises(SessionStorageError, match="moved or removed"):
        await session.save()
    with pytest.raises(SessionFencedError):
        await session.save()
    await session.close()
    assert [each.session_id for each in await store.list_all()] == ["other"]
    await store.aclose()


async def test_a_place_that_can_t_be_used_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("in the way")
    session = AgentSession.new("coder", store=SQLiteStore(tmp_path / "file" / "sessions.db"))
    session.add_message(Message.user("one"))
    with pytest.raises(SessionStorageError, match="Not a directory"):
        await session.save()
    (tmp_path / "folder").mkdir()
    with pytest.raises(SessionStorageError, match="unable to open database file"):
        await SQLiteStore(tmp_path / "folder").list_all()


async def test_nothing_is_left_of_a_database_that_could_not_be_made(store, path, monkeypatch):
    monkeypatch.setattr(sqlite_database, "_STEPS", (("CREATE nonsense",),))
    session = AgentSession.new("coder", store=store)
    session.add_message(Message.user("one"))
    with pytest.raises(SessionCorruptError, match="nonsense"):
        await session.save()
    assert os.listdir(path.parent) == ["sessions.db-locks"]
    monkeypatch.undo()
    await session.save()
    await store.aclose()


class Observed(sqlite3.Connection):
    """A connection that notes its journal mode and the size of its log when it is closed."""

    found: ClassVar[list[tuple[str, int]]] = []

    def close(self):
        (mode,) = self.execute("PRAGMA journal_mode").fetchone()
        log = self.execute("PRAGMA database_list").fetchone()[2] + "-wal"
        self.found.append((mode, os.path.getsize(log) if os.path.exists(log) else 0))
        super().close()


def test_nothing_of_a_new_database_is_in_its_log(path, monkeypatch):
    """Closing empties the log without reporting a failure; then half a database would be left."""
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, factory=Observed))
    sqlite.create_database(str(path), sqlite_database.create_tables, patience=1)
    assert Observed.found == [("wal", 0)]


def test_a_database_may_have_a_long_name(tmp_path):
    path = str(tmp_path / ("n" * 240 + ".db"))
    sqlite.create_database(path, sqlite_database.create_tables, patience=1)
    assert os.listdir(tmp_path) == ["n" * 240 + ".db"]


async def test_two_that_make_the_database_at_once_share_one(path, monkeypatch):
    first, second = SQLiteStore(path), SQLiteStore(path)
    create = sqlite_database.create_tables

    def be_overtaken(connection):
        monkeypatch.setattr(sqlite_database, "create_tables", create)
        with second._database.write_transaction(create=True):
            pass
        create(connection)

    monkeypatch.setattr(sqlite_database, "create_tables", be_overtaken)
    await saved(first, "one")
    assert await texts(second) == ["one"]
    await first.aclose()
    await second.aclose()
    assert sorted(os.listdir(path.parent)) == ["sessions.db", "sessions.db-locks"]


async def test_nothing_runs_on_the_thread_of_the_loop(store, connections):
    threads = set()
    connections.watch(
        lambda made: made.set_trace_callback(lambda sql: threads.add(threading.get_ident()))
    )
    session = await saved(store, "one", "two")
    await session.rewind(to=1)
    await AgentSession.list_all(store=store)
    await texts(store)
    await store.aclose()
    assert threads
    assert threading.get_ident() not in threads


def test_a_store_serves_one_run_after_another_and_several_at_once(store):
    async def write(name):
        session = AgentSession.new("coder", session_id=name, store=store)
        await session.open()
        for number in range(10):
            session.add_message(Message.user(f"{name} {number}"))
            await session.save()
        await session.close()

    async def read():
        return {
            each.session_id: await texts(store, each.session_id) for each in await store.list_all()
        }

    threads = [threading.Thread(target=trio.run, args=[write, f"s{number}"]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = trio.run(read)
    assert found == {f"s{each}": [f"s{each} {number}" for number in range(10)] for each in range(4)}
    trio.run(store.aclose)


async def test_a_link_to_a_database_has_the_locks_of_the_database(store, path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    session = await saved(store, "one")
    await session.open()
    linked = SQLiteStore(link)
    again = await AgentSession.load(session.session_id, store=linked)
    with pytest.raises(SessionLockedError):
        await again.open()
    await session.close()
    await again.open()
    await again.close()
    await linked.aclose()
    await store.aclose()
    assert sorted(os.listdir(tmp_path)) == ["link.db", "sessions.db", "sessions.db-locks"]


FORK = """
import os, sys, trio
from greenroom import AgentSession, Message, SQLiteStore

async def save(name):
    session = AgentSession.new("coder", session_id=name, store=store)
    session.add_message(Message.user("hello"))
    await session.save()

store, written, closed = SQLiteStore(sys.argv[1]), os.pipe(), os.pipe()
trio.run(save, "before")
if os.fork() == 0:
    trio.run(save, "child")
    os.write(written[1], b"x")
    os.read(closed[0], 1)
    trio.run(save, "child, alone")
    inherited, store = store, SQLiteStore(sys.argv[1])
    trio.run(save, "child, in a new store")
    os._exit(0)
os.read(written[0], 1)
trio.run(save, "parent")
trio.run(store.aclose)
os.write(closed[1], b"x")
os.wait()
print(*sorted(each.session_id for each in trio.run(store.list_all)), sep="; ")
"""


def test_what_a_fork_writes_is_kept_whoever_closes_first(path, tmp_path):
    code, told, errors = run_warm(["-c", FORK, path], tmp_path, {})
    assert code == 0, errors
    assert told.strip() == "before; child; child, alone; child, in a new store; parent"


def test_a_store_that_nobody_closes_is_closed_when_it_is_forgotten(path):
    store = SQLiteStore(path)
    trio.run(saved, store, "one")
    connection = store._database._connection
    del store
    gc.collect()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
    assert not os.path.exists(f"{path}-wal")


async def test_results_that_are_too_long_have_no_folder(store):
    assert store.folder("mine") == ""


@pytest.mark.parametrize("hostile", ["a\nb", "x" * 201, "\x1b[2J", ""])
async def test_a_session_with_an_id_that_is_none_is_not_listed(store, path, caplog, hostile):
    await saved(store, "one")
    await saved(store, "one", session_id="hostile")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(
            "UPDATE sessions SET metadata = replace(CAST(metadata AS TEXT), 'hostile', ?)",
            [json.dumps(hostile)[1:-1]],
        )
        connection.execute("UPDATE sessions SET session_id = ? WHERE key = 2", [hostile])
    assert [each.session_id for each in await store.list_all()] == ["mine"]
    assert "left out" in caplog.text
    assert "\x1b" not in caplog.text


async def test_a_history_that_was_replaced_is_not_called_damaged(store):
    await saved(store, "one")
    stale = await AgentSession.load("mine", store=store)
    await AgentSession.delete("mine", store=store)
    await saved(store, "other")
    stale.add_message(Message.user("more"))
    with pytest.raises(SessionCorruptError, match="not the line") as caught:
        await stale.save()
    assert "load the session again" in caught.value.hint
