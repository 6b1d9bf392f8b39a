"""Sessions in PostgreSQL while connections are cut, the server dies and locks are taken away.

`GREENROOM_FAULTS=long` cuts 200 connections, kills the server 20 times, and lets two writers race
for 40 rounds. Each check that keeps a promise is taken out once, as a mutant: its scenario fails.
"""

import os
import random
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import trio

from greenroom.core import Message, SessionError, SessionLockedError, SessionStorageError
from greenroom.session import (
    START,
    AgentSession,
    PostgresStore,
    SessionFencedError,
    postgres_server as server,
    postgres_tables,
    postgres_writer,
)
from greenroom.session._internal import encode_line
from greenroom.session.postgres_presence import Presence
from greenroom.session.postgres_server import Server
from tests.session.under_test import Postgres

LONG = os.environ.get("GREENROOM_FAULTS") == "long"
REWIND = b'{"kind":"rewind","to":0}'


@pytest.fixture
def case(postgres_server):
    case = Postgres(postgres_server, patience=30)
    yield case
    case.close()


async def begin(store, session_id="mine"):
    session = AgentSession.new("coder", session_id=session_id, store=store)
    session.add_message(Message.user("0"))
    await session.save()
    await session.open()
    return session


async def say(session, text):
    session.add_message(Message.user(text))
    await session.save()


async def texts(store, session_id="mine"):
    session = await AgentSession.load(session_id, store=store)
    assert session.repair is None
    return [message.text for message in session.history]


def cut(connection):
    """Cut a connection as a network does: neither end is told what the other has done."""
    end = socket.socket(fileno=os.dup(connection.fileno()))
    end.shutdown(socket.SHUT_RDWR)
    end.close()


def cut_answers(monkeypatch, name):
    """Cut the connection after every other statement of this function, before its answer."""
    real, left = getattr(postgres_tables, name), [True]

    def do(connection, *values):
        found = real(connection, *values)
        if left.pop():
            left.append(False)
            cut(connection)
            raise psycopg.OperationalError("the connection was cut")
        left.append(True)
        return found

    monkeypatch.setattr(postgres_tables, name, do)


async def cut_after_commit(case, monkeypatch):
    cut_answers(monkeypatch, "append_line")
    store, count = case.make(), 200 if LONG else 5
    session = await begin(store)
    for number in range(1, count):
        await say(session, str(number))
    await session.close()
    assert await texts(store) == [str(number) for number in range(count)]


async def test_connections_cut_after_the_commit_are_no_error_and_lose_nothing(case, monkeypatch):
    await cut_after_commit(case, monkeypatch)


async def test_whatever_is_cut_is_done_once(case, monkeypatch):
    for name in ("take_session", "renew_epoch", "write_description", "cut_lines", "add_line"):
        cut_answers(monkeypatch, name)
    for name in ("release_session", "delete_session_rows"):
        cut_answers(monkeypatch, name)
    store = case.make()
    session = await begin(store)
    await say(session, "1")
    await session.close()
    writer = await store.acquire("mine")
    at = (await writer.read(START)).history.end
    await writer.append(encode_line([REWIND], at), at)
    assert "torn" in await writer.set_aside(at)
    assert len(case.execute("SELECT 1 FROM torn")) == 1
    await writer.release()
    assert await texts(store) == ["0", "1"]
    writer = await store.acquire("mine")
    await writer.delete()
    await writer.release()
    assert not await store.exists("mine")


async def test_a_repair_that_is_cut_off_after_the_commit_is_reported(case, monkeypatch):
    store = case.make()
    session = await begin(store)
    await say(session, "1")
    await session.close()
    await case.damage("mine", 0)
    real, left = postgres_writer.transaction, [True]

    @contextmanager
    def transaction(connection, begin="BEGIN"):
        with real(connection, begin):
            yield
        if left:
            left.pop()
            cut(connection)
            raise psycopg.OperationalError("the connection was cut")

    monkeypatch.setattr(postgres_writer, "transaction", transaction)
    report = await store.salvage("mine")
    assert not left
    assert "torn" in report.set_aside
    assert len(case.execute("SELECT 1 FROM torn")) == 1
    assert await store.salvage("mine") is None


async def test_the_server_is_killed_while_sessions_are_saved(case):
    store, kills, is_over = case.make(), 20 if LONG else 1, False
    said = {f"s-{number}": 0 for number in range(4)}
    saved = {each: trio.Event() for each in said}

    async def talk(session_id):
        session = await begin(store, session_id)
        while not is_over:
            said[session_id] += 1
            await say(session, str(said[session_id]))
            saved[session_id].set()
            saved[session_id] = trio.Event()
        await session.close()

    async def next_saves():
        for each in said:
            await saved[each].wait()

    with trio.fail_after(60 * kills):
        async with trio.open_nursery() as nursery:
            for session_id in said:
                nursery.start_soon(talk, session_id)
            for _ in range(kills):
                await next_saves()
                await trio.to_thread.run_sync(case.server.kill)
                case.server.start()  # by this thread: the server ends with the one that starts it
            await next_saves()
            is_over = True
    for session_id, count in said.items():
        assert await texts(store, session_id) == [str(number) for number in range(count + 1)]


async def test_two_writers_race_and_what_is_acknowledged_is_stored_once(case):
    stores, kept = [case.make(), case.make()], []
    await (await begin(stores[0])).close()
    dice, refusals = random.Random(os.environ.get("GREENROOM_FAULTS_SEED", "1")), []

    async def write(name, store):
        for number in range(40 if LONG else 6):
            text = f"{name}{number}"
            while text not in kept:
                session = await AgentSession.load("mine", store=store)
                session.add_message(Message.user(text))
                try:
                    await session.save()
                except SessionLockedError:
                    assert text not in await texts(store), "it was refused"
                except SessionError as error:
                    refusals.append(str(error))
                else:
                    kept.append(text)
            if dice.random() < 0.5:
                await case.lose_lock("mine")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write, "a", stores[0])
        nursery.start_soon(write, "b", stores[1])
    found = await texts(stores[0])
    assert all("another writer" in each for each in refusals)
    assert sorted(found) == sorted(["0", *kept])


async def late_statement(case, monkeypatch):
    """A statement that the server still carries out, when its connection is long gone."""
    used = []
    take = Server._take
    monkeypatch.setattr(Server, "_take", lambda self: used.append(take(self)) or used[-1])
    store = case.make()
    session = await begin(store)
    with psycopg.connect(case.server.dsn) as holder:
        row = f"SELECT 1 FROM {case.schema}.sessions WHERE session_id = 'mine' FOR UPDATE"
        await trio.to_thread.run_sync(holder.execute, row)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(say, session, "1")
            await wait_for_locks(case, 1)
            cut(used[-1])
            await wait_for_locks(case, 2)
            await trio.to_thread.run_sync(holder.rollback)
    await session.close()
    assert await texts(store) == ["0", "1"]


async def wait_for_locks(case, count):
    """Wait until so many statements wait for a row; only the server knows."""
    query = """SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND application_name = 'greenroom'"""
    with trio.fail_after(60):
        while case.execute(query) != [(count,)]:
            await trio.lowlevel.checkpoint()


async def test_a_statement_that_comes_late_is_found_or_refused(case, monkeypatch):
    await late_statement(case, monkeypatch)


async def lost_lock(case, monkeypatch):
    """A writer that was taken for dead."""
    store, other = case.make(), case.make()
    session = await begin(store)
    await case.lose_lock("mine")
    heir = await other.acquire("mine")
    session.add_message(Message.user("1"))
    with pytest.raises(SessionFencedError):
        await session.save()
    await heir.release()


async def wrong_place(case, monkeypatch):
    """A line that belongs elsewhere."""
    store = case.make()
    await (await begin(store)).close()
    writer = await store.acquire("mine")
    at = (await writer.read(START)).history.end
    line = encode_line([REWIND], at)
    with pytest.raises(SessionStorageError, match="another writer"):
        await writer.append(encode_line([REWIND], at.after(line)), at.after(line))
    await writer.release()
    assert await texts(store) == ["0"]


async def lost_presence(case, monkeypatch):
    store, other = case.make(), case.make()
    session = await begin(store)
    pid = store._presence._connection.info.backend_pid
    case.execute("SELECT pg_terminate_backend(%s, 10000)", pid)
    await say(session, "1")
    with pytest.raises(SessionLockedError):
        await other.acquire("mine")
    await session.close()


async def careless_role(case, monkeypatch):
    dsn = f"{case.server.dsn} options='-c synchronous_commit=off'"
    store = PostgresStore(dsn, schema=case.schema)
    found = await store._server.run(
        "", lambda each: each.execute("SHOW synchronous_commit").fetchone()
    )
    await store.aclose()
    assert found == ("on",)


def without(module, name, part, instead=""):
    """Return what takes a part out of a statement."""

    def mutate(monkeypatch):
        text = getattr(module, name)
        assert part in text
        monkeypatch.setattr(module, name, text.replace(part, instead))

    return mutate


def replaced(owner, name, value):
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def keep_presence(self):
    return self._id or (Presence._renew(self), self._id)[1]


MUTANTS = {
    "append without the epoch": (
        lost_lock,
        without(postgres_tables, "_APPEND", " AND epoch = %(epoch)s"),
    ),
    "append without the size": (
        wrong_place,
        without(postgres_tables, "_APPEND", " AND size = %(size)s"),
    ),
    "no new epoch in doubt": (
        late_statement,
        replaced(postgres_tables, "renew_epoch", lambda *_: True),
    ),
    "repeated without looking": (
        cut_after_commit,
        replaced(postgres_tables, "holds_line", lambda *_: False),
    ),
    "a new writer without an epoch of its own": (
        lost_lock,
        without(postgres_tables, "_TAKE", "THEN excluded.epoch", "THEN old.epoch"),
    ),
    "commits that may be lost": (
        careless_role,
        without(
            server, "_SET_UP", "ELSE 'on' END", "ELSE current_setting('synchronous_commit') END"
        ),
    ),
    "a lost presence is not renewed": (lost_presence, replaced(Presence, "ensure", keep_presence)),
}


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_mutant_is_caught(name, case, monkeypatch):
    scenario, mutate = MUTANTS[name]
    mutate(monkeypatch)
    is_caught = False
    try:
        await scenario(case, monkeypatch)
    except* (AssertionError, SessionError, pytest.fail.Exception):
        is_caught = True
    assert is_caught


@pytest.mark.parametrize("scenario", [lost_lock, wrong_place, lost_presence, careless_role])
async def test_without_a_mutant_each_scenario_passes(scenario, case, monkeypatch):
    await scenario(case, monkeypatch)


async def test_a_server_that_is_slow_is_an_error_that_says_so(postgres_server, monkeypatch):
    case = Postgres(postgres_server, patience=0.3)
    store = case.make()
    session = await begin(store)
    with psycopg.connect(case.server.dsn) as holder:
        holder.execute(f"SELECT 1 FROM {case.schema}.sessions FOR UPDATE")
        session.add_message(Message.user("1"))
        with pytest.raises(SessionStorageError, match="lock timeout") as caught:
            await session.save()
        assert caught.value.nothing_written
        assert "pg_stat_activity" in caught.value.hint
    await session.save()
    await session.close()
    assert await texts(store) == ["0", "1"]
    case.close()


async def test_a_version_that_comes_meanwhile_is_refused_and_loses_nothing(case):
    store = case.make()
    session = await begin(store)
    case.execute("UPDATE about SET version = 1000")  # as a newer program does at its start
    store._server.close()
    session.add_message(Message.user("1"))
    with pytest.raises(SessionError, match="version 1000"):
        await session.save()
    case.execute("UPDATE about SET version = 1")
    await session.save()
    await session.close()
    assert await texts(store) == ["0", "1"]


async def test_a_full_disk_is_an_error_and_the_next_save_stores_it(case, monkeypatch):
    store = case.make()
    session = await begin(store)

    def refuse(*values):
        raise psycopg.errors.DiskFull('could not extend file "base/1": No space left on device')

    with monkeypatch.context() as full:
        full.setattr(postgres_tables, "append_line", refuse)
        session.add_message(Message.user("1"))
        with pytest.raises(SessionStorageError, match="No space left") as caught:
            await session.save()
    assert caught.value.nothing_written
    assert "make room" in caught.value.hint
    await session.save()
    await session.close()
    assert await texts(store) == ["0", "1"]


async def test_a_server_without_a_free_connection_is_waited_for(case, postgres_server):
    role = case.schema
    await (await begin(case.make())).close()
    case.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
    dsn = postgres_server.dsn.replace("user=tests", f"user={role}")
    with pytest.raises(SessionStorageError, match="too many connections") as caught:
        await PostgresStore(dsn, schema=case.schema, patience=0.1).exists("mine")
    assert caught.value.nothing_written
    case.execute(f"GRANT USAGE ON SCHEMA {role} TO {role}")
    case.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {role} TO {role}")
    store, found = PostgresStore(dsn, schema=case.schema, patience=30), []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(find, store, found)
        case.execute(f"ALTER ROLE {role} CONNECTION LIMIT 5")
    assert found == [True]
    await store.aclose()
    case.execute(f"DROP OWNED BY {role}")


async def find(store, found):
    found.append(await store.exists("mine"))


FORK = """
import os, signal, sys, trio
from greenroom.core import Message
from greenroom.session import AgentSession, PostgresStore

async def say(session, text):
    session.add_message(Message.user(text))
    await session.save()

def begin(name):
    return AgentSession.new("coder", session_id=name, store=store)

store = PostgresStore(sys.argv[1], schema=sys.argv[2])
mine, theirs, (reading, writing) = begin("mine"), begin("theirs"), os.pipe()
trio.run(mine.open)
trio.run(say, mine, "one")
if os.fork() == 0:
    trio.run(theirs.open)
    trio.run(say, theirs, "one")
    os.write(writing, b"x")
    sys.stdin.read()
    trio.run(say, theirs, "two")
    os._exit(0)
os.read(reading, 1)
trio.run(say, mine, "two")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def forked(case):
    """A process that forked and was killed; both it and its child held a session."""
    command = [sys.executable, "-c", FORK, case.server.dsn, case.schema]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as parent:
        assert parent.wait() == -signal.SIGKILL
        yield parent


async def test_a_fork_has_connections_and_a_presence_of_its_own(case, forked):
    store = case.make()
    mine = await AgentSession.load("mine", store=store)
    await say(mine, "three")
    assert await texts(store) == ["one", "two", "three"]
    with pytest.raises(SessionLockedError) as caught:
        await AgentSession.delete("theirs", store=store)
    assert caught.value.pid != forked.pid
    forked.stdin.close()
    assert forked.stdout.read() == b""  # the child has ended
    assert await texts(store, "theirs") == ["one", "two"]
