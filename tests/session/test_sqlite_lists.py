"""Lists of the sessions in a database: pages by an index, and databases of before."""

import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest

from greenroom.core import Message
from greenroom.core._internal import set_clock
from greenroom.session import (
    AgentSession,
    SessionMetadata,
    SQLiteStore,
    sqlite_database,
    sqlite_lists,
    sqlite_store,
)

START = datetime(2026, 1, 14, 10, 30, tzinfo=UTC)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "sessions.db"


@pytest.fixture
async def store(path):
    async with SQLiteStore(path) as store:
        yield store


def execute(path, query, *values):
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(query, values).fetchall()


async def many(store, count):
    """Store sessions, each changed a minute after the one before."""
    for number in range(count):
        set_clock(lambda number=number: START + timedelta(minutes=number))
        session = AgentSession.new("coder", session_id=f"s{number:02}", store=store)
        session.set_metadata("number", number)
        if number % 2:
            session.add_message(Message.user("one"))
        await session.save()
    set_clock(None)


def write_as_before(connection, row, metadata, previous=b""):
    values = [metadata.encode(previous), row.key]
    connection.execute("UPDATE sessions SET metadata = ? WHERE key = ?", values)


async def test_a_page_decodes_only_the_descriptions_that_it_shows(store, path, monkeypatch):
    await many(store, 30)
    decoded, real = [], SessionMetadata.decode

    def decode(data, **about):
        decoded.append(about["session_id"])
        return real(data, **about)

    monkeypatch.setattr(SessionMetadata, "decode", staticmethod(decode))
    first = await store.list_page(limit=3)
    second = await store.list_page(first.after, limit=3)
    assert [each.session_id for each in (*first.sessions, *second.sessions)] == [
        f"s{number:02}" for number in range(29, 23, -1)
    ]
    assert len(decoded) <= 2 * (3 + 2)
    plan = execute(path, f"EXPLAIN QUERY PLAN {sqlite_lists._BEFORE}", 1, "a")
    assert any("USING INDEX sessions_by_change" in row[-1] for row in plan)


async def test_pages_of_a_database_of_before_are_those_of_its_list(store, path, monkeypatch):
    steps = sqlite_database._STEPS
    with monkeypatch.context() as before:
        before.setattr(sqlite_database, "_STEPS", steps[:2])
        before.setattr(sqlite_store, "write_description", write_as_before)
        await many(store, 12)
        await store.aclose()
    for damage in ("s03", "s07"):
        execute(path, "UPDATE sessions SET metadata = 'x' WHERE session_id = ?", damage)
    assert execute(path, "PRAGMA user_version") == [(2,)]
    pages, after = [], None
    while not pages or after is not None:
        page = await store.list_page(after, limit=2)
        pages, after = [*pages, *page.sessions], page.after
    assert pages == await store.list_all()
    assert len(pages) == 10
    await store.aclose()
    assert execute(path, "PRAGMA user_version") == [(len(steps),)]


async def test_a_page_says_which_of_its_sessions_are_damaged(store, path, caplog):
    await many(store, 6)
    execute(path, "UPDATE sessions SET metadata = 'x' WHERE session_id IN ('s04', 's00')")
    page = await store.list_page(limit=2)
    assert [each.session_id for each in page.sessions] == ["s05", "s03"]
    assert "s04" in caplog.text
    assert "s00" not in caplog.text
    assert [each.session_id for each in (await store.list_page(page.after)).sessions] == [
        "s02",
        "s01",
    ]
    assert "s00" in caplog.text
