"""What a memory in PostgreSQL adds to the suite of all memories: bounds, outages, neighbours."""

import os
import socket
import traceback
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from greenroom.core import Message
from greenroom.core._internal import new_id, set_clock
from greenroom.memory import Memory, PostgresMemory, postgres_rows
from greenroom.memory._internal import MemoryStorageError
from greenroom.session import AgentSession, PostgresStore


@pytest.fixture
def schema():
    return new_id("m").replace("-", "_")


@pytest.fixture
def make(postgres_server, schema):
    return lambda **options: PostgresMemory(postgres_server.dsn, schema=schema, **options)


@pytest.fixture
def at():
    start = datetime(2026, 1, 1, tzinfo=UTC)

    def set_to(seconds):
        set_clock(lambda: start + timedelta(seconds=seconds))

    set_to(0)
    yield set_to
    set_clock(None)


def texts(found):
    return [each.entry.text for each in found]


@pytest.mark.parametrize("options", [{"max_entries": 0}, {"max_age": 0}, {"half_life": -1}])
def test_a_bound_that_means_nothing_is_refused(options):
    with pytest.raises(ValueError, match=r"keeps|seconds"):
        PostgresMemory("host=/nowhere", **options)


async def test_an_entry_of_a_machine_whose_clock_is_behind_is_not_the_first_to_go(make, at):
    async with make(max_entries=2) as ahead, make(max_entries=2) as behind:
        at(1000)
        for word in ("one", "two"):
            await ahead.add(word)
        at(0)
        assert texts(await behind.recall("one")) == ["one"]
        await behind.add("three")
        assert {each.text for each in await behind.entries()} == {"one", "three"}


async def test_the_least_recently_used_goes_first(make, at):
    async with make(max_entries=2) as memory:
        assert isinstance(memory, Memory)
        for second, word in enumerate(("one", "two")):
            at(second)
            await memory.add(word)
        assert texts(await memory.recall("one")) == ["one"]
        at(3)
        await memory.add("three")
        assert {each.text for each in await memory.entries()} == {"one", "three"}
        assert memory.statistics().evicted == 1


async def test_what_is_too_old_is_not_recalled_and_then_removed(make, at):
    memory = make(max_age=100)
    await memory.add("tea, old")
    at(60)
    await memory.add("tea, new")
    at(120)
    assert texts(await memory.recall("tea")) == ["tea, new"]
    assert [each.text for each in await memory.entries()] == ["tea, new"]
    await memory.add("coffee")
    assert memory.statistics().expired == 1
    await memory.aclose()


async def test_of_two_that_fit_alike_the_newer_comes_first_and_once(make, at):
    memory = make(half_life=100)
    for second in (0, 100, 200):
        at(second)
        await memory.add(f"tea {second // 200}")
    first, second = await memory.recall("tea")
    assert texts([first, second]) == ["tea 1", "tea 0"]
    assert (first.score, second.score) == (1.0, 0.75)
    await memory.aclose()


async def test_a_rare_word_weighs_more_than_a_common_one(make):
    memory = make()
    for number in range(20):
        await memory.add(f"the report of day {number}")
    await memory.add("zebra")
    assert texts(await memory.recall("report zebra", limit=1)) == ["zebra"]
    await memory.aclose()


async def test_a_cut_connection_does_nothing_twice_and_is_no_error(make, monkeypatch):
    for name in ("add", "remove"):
        cut_once(monkeypatch, name)
    memory = make()
    entry_id = await memory.add("tea")
    assert texts(await memory.recall("tea")) == ["tea"]
    assert await memory.forget(entry_id) is True
    cut_once(monkeypatch, "remove")
    await memory.add("tea")
    assert await memory.clear() == 1
    assert await memory.entries() == ()
    await memory.aclose()


def cut_once(monkeypatch, name):
    """Cut the connection once, after this was done."""
    real, left = getattr(postgres_rows, name), [True]

    def do(connection, *values):
        found = real(connection, *values)
        if left:
            left.pop()
            end = socket.socket(fileno=os.dup(connection.fileno()))
            end.shutdown(socket.SHUT_RDWR)
            end.close()
            raise psycopg.OperationalError("the connection was cut")
        return found

    monkeypatch.setattr(postgres_rows, name, do)


async def test_a_server_that_is_not_there_is_an_error_without_a_secret(tmp_path):
    memory = PostgresMemory(f"host={tmp_path} password=s3cr3t", patience=0.1)
    with pytest.raises(MemoryStorageError) as caught:
        await memory.add("tea")
    shown = "".join(traceback.format_exception(caught.value)) + repr(memory)
    assert "s3cr3t" not in shown
    assert caught.value.hint == "look at the server and its log"  # the text is not kept


async def test_sessions_and_memories_share_a_schema(make, postgres_server, schema):
    memory = make()
    await memory.add("tea")
    async with PostgresStore(postgres_server.dsn, schema=schema) as store:
        session = AgentSession.new("coder", session_id="mine", store=store)
        session.add_message(Message.user("hello"))
        await session.save()
        assert await store.exists("mine")
    assert texts(await make().recall("tea")) == ["tea"]
    await memory.aclose()
