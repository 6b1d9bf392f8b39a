"""What the store in PostgreSQL adds to the suite of all stores: addresses, presence, refusals."""

import contextlib
import os
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import trio

from greenroom.core import (
    ConfigurationError,
    Message,
    SessionError,
    SessionLockedError,
    SessionStorageError,
)
from greenroom.session import (
    AgentSession,
    PostgresStore,
    SessionCorruptError,
    SessionFencedError,
)
from greenroom.session.postgres_dsn import Address
from greenroom.session.postgres_open import lock_of

LIBPQ = [name for name in os.environ if name.startswith("PG")]


@pytest.fixture(autouse=True)
def no_address(monkeypatch):
    for name in ("GREENROOM_DSN", *LIBPQ):
        monkeypatch.delenv(name, raising=False)


async def save(store, session_id, text="one"):
    session = AgentSession.new("coder", session_id=session_id, store=store)
    session.add_message(Message.user(text))
    await session.save()
    return session


async def texts(store, session_id):
    session = await AgentSession.load(session_id, store=store)
    return [message.text for message in session.history]


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://ann:s3cr3t@[::1",
        "host=here s3cr3t",
        "postgresql://ann:p@s3cr3t@host/db",
        "postgresql://ann:p:w@host:s3cr3t/db",
        "host=db.example.org password=s3cr3t sslmode=prefer",
        "postgresql://ann:s3cr3t@db.example.org/agents?sslmode=disable",
    ],
)
def test_an_address_that_is_refused_is_not_shown(dsn):
    with pytest.raises(ConfigurationError) as caught:
        PostgresStore(dsn)
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in shown.replace(f'"{dsn}"', "")
    assert caught.value.hint


def test_a_store_shows_its_place_and_no_secret():
    store = PostgresStore("postgresql://ann:s3cr3t@db.example.org/agents", schema="mine")
    assert repr(store) == "PostgresStore('postgresql://db.example.org:5432/agents', schema='mine')"
    assert repr(PostgresStore("service=agents")).startswith("PostgresStore('postgresql:service=")


def test_without_an_address_there_is_none(monkeypatch):
    with pytest.raises(ConfigurationError, match="no PostgreSQL server"):
        PostgresStore()
    monkeypatch.setenv("GREENROOM_DSN", "host=/nowhere dbname=agents")
    assert "agents" in repr(PostgresStore())


def test_a_server_elsewhere_is_asked_for_encryption(monkeypatch):
    asked = []
    monkeypatch.setattr(
        psycopg.Connection, "connect", classmethod(lambda cls, **given: asked.append(given))
    )
    for dsn in ("host=db.example.org", "host=db.example.org sslmode=verify-full", "host=::1"):
        PostgresStore(dsn)._server.address.connect()
    assert [each.get("sslmode") for each in asked] == ["require", "verify-full", None]


async def test_what_a_dead_network_swallows_is_given_up_within_seconds(monkeypatch):
    asked = []

    def connect(cls, **given):
        asked.append(given)
        raise psycopg.OperationalError("it is away")

    monkeypatch.setattr(psycopg.Connection, "connect", classmethod(connect))
    with pytest.raises(SessionStorageError):
        await PostgresStore("host=::1", patience=0).exists("mine")
    (given,) = asked
    silence = given["keepalives_idle"] + given["keepalives_interval"] * given["keepalives_count"]
    assert silence <= 20
    assert given["tcp_user_timeout"] <= 20_000  # milliseconds


async def test_the_service_file_counts_too(monkeypatch, tmp_path):
    path = tmp_path / "services"
    path.write_text("[agents]\nhost=203.0.113.7\nsslmode=disable\npassword=s3cr3t\n")
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    store = PostgresStore("service=agents sslmode=allow", patience=0)
    with pytest.raises(ConfigurationError, match="could be read on the way"):
        await store.exists("mine")


async def test_a_service_that_is_not_there_is_an_error_at_once(monkeypatch, tmp_path):
    path = tmp_path / "services"
    path.write_text("[other]\nhost=203.0.113.7\n")
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    store = PostgresStore("service=agents sslmode=allow", patience=600)
    with trio.fail_after(60), pytest.raises(SessionStorageError, match="service"):
        await store.exists("mine")
    path.write_text("[agents]\nhost=203.0.113.7\n")  # it is still to be checked
    with trio.fail_after(60), pytest.raises(ConfigurationError, match="could be read on the way"):
        await store.exists("mine")


def test_threads_that_connect_at_once_are_all_asked_for_encryption(monkeypatch):
    asked, both = [], threading.Barrier(2)

    def read_service(address):
        with contextlib.suppress(threading.BrokenBarrierError):  # one at a time
            both.wait(0.2)
        return {"host": "203.0.113.7", "sslmode": "prefer"}

    monkeypatch.setattr(Address, "_read_service", read_service)
    monkeypatch.setattr(
        psycopg.Connection, "connect", classmethod(lambda cls, **given: asked.append(given))
    )
    address = Address.read("service=agents")
    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(address.connect) for _ in range(2)]:
            each.result()
    assert [each.get("sslmode") for each in asked] == ["require", "require"]


@pytest.mark.parametrize(
    "options", [{"schema": 'a"b'}, {"schema": "A"}, {"connections": 0}, {"patience": -1}]
)
def test_an_option_that_can_mean_nothing_is_refused(options):
    with pytest.raises(ValueError, match=r"schema|connection"):
        PostgresStore("host=/nowhere", **options)


def test_stores_of_one_schema_are_equal(postgres):
    assert postgres.make() == postgres.make()
    assert len({postgres.make(), postgres.make()}) == 1
    assert postgres.make() != PostgresStore(postgres.server.dsn, schema="other")


async def test_a_server_that_is_not_there_is_an_error_after_patience(tmp_path):
    store = PostgresStore(f"host={tmp_path} password=s3cr3t", patience=0.2)
    began = trio.current_time()
    with pytest.raises(SessionStorageError) as caught:
        await save(store, "mine")
    assert trio.current_time() - began >= 0.2
    assert caught.value.nothing_written
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


async def test_what_a_dead_store_held_is_free(postgres):
    store, other = postgres.make(), postgres.make()
    session = await save(store, "mine")
    await session.open()
    with pytest.raises(SessionLockedError) as caught:
        await other.acquire("mine")
    assert caught.value.holder == store.holder
    end_presence(postgres, store)
    heir = await other.acquire("mine")
    with pytest.raises(SessionLockedError):
        await store.acquire("mine")
    await other.aclose()
    await (await store.acquire("mine")).release()
    await heir.release()


async def test_a_lost_presence_is_renewed_and_keeps_its_sessions(postgres):
    store, other = postgres.make(), postgres.make()
    first, second = await save(store, "first"), await save(store, "second")
    await first.open()
    await second.open()
    end_presence(postgres, store)
    heir = await other.acquire("second")  # in time
    first.add_message(Message.user("two"))
    await first.save()
    with pytest.raises(SessionLockedError):
        await other.acquire("first")
    second.add_message(Message.user("two"))
    with pytest.raises(SessionFencedError):
        await second.save()
    await heir.release()
    await first.close()
    await second.close()
    assert await texts(other, "first") == ["one", "two"]


def end_presence(postgres, store):
    """Have the server end the connection, as its restart does; wait until it has."""
    pid = store._presence._connection.info.backend_pid
    assert postgres.execute("SELECT pg_terminate_backend(%s, 10000)", pid) == [(True,)]


async def test_a_holder_is_evicted_by_its_name(postgres):
    store, other = postgres.make(), postgres.make()
    session = await save(store, "mine")
    await session.open()
    assert await other.evict("nobody/1/x") == 0
    assert await other.evict(store.holder) == 1
    session.add_message(Message.user("two"))
    with pytest.raises(SessionFencedError):
        await session.save()
    await session.close()
    await (await other.acquire("mine")).release()


async def test_the_names_of_the_dead_are_forgotten(postgres):
    for _ in range(3):
        store = postgres.make()
        await save(store, f"mine-{_}")
        await store.aclose()
    assert len(postgres.execute("SELECT name FROM holders")) == 1


async def test_the_dead_are_forgotten_though_many_older_ones_live(postgres):
    await save(postgres.make(), "first")
    with psycopg.connect(postgres.server.dsn, autocommit=True) as living:
        living.execute(f"SET search_path = {postgres.schema}")
        query = """WITH new AS (
                INSERT INTO holders (name) SELECT 'here' FROM generate_series(1, 25) RETURNING id)
            SELECT pg_advisory_lock(%s, id) FROM new"""
        living.execute(query, [lock_of(postgres.schema)])
        living.execute("INSERT INTO holders (name) SELECT 'gone' FROM generate_series(1, 25)")
        for number in range(3):
            await save(postgres.make(), f"mine-{number}")
        found = "SELECT count(*) FROM holders WHERE name = "
        assert postgres.execute(f"{found} 'gone'")[0][0] < 25
        assert postgres.execute(f"{found} 'here'") == [(25,)]


async def test_commits_are_durable_whatever_the_role_prefers(postgres, postgres_server):
    found = "SELECT current_setting('synchronous_commit')"
    for given, used in (("off", "on"), ("local", "on"), ("remote_apply", "remote_apply")):
        store = PostgresStore(
            f"{postgres_server.dsn} options='-c synchronous_commit={given}'", schema=postgres.schema
        )
        assert await store._server.run("", lambda each: each.execute(found).fetchone()) == (used,)
        await store.aclose()


async def test_a_server_that_loses_commits_is_refused(postgres, monkeypatch):
    monkeypatch.setattr(
        "greenroom.session.postgres_server._FIND_OUT", "SELECT 150000, 'off', 'UTF8', 1"
    )
    with pytest.raises(SessionStorageError, match="fsync"):
        await postgres.make().exists("mine")


async def test_tables_of_a_newer_version_are_refused(postgres):
    await save(postgres.make(), "mine")
    postgres.execute("UPDATE about SET version = 1000")
    with pytest.raises(SessionError, match="version 1000") as caught:
        await postgres.make().exists("mine")
    assert caught.value.hint == "upgrade greenroom"


async def test_a_role_needs_no_more_than_the_page_grants(postgres, postgres_server):
    role = postgres.schema
    await save(postgres.make(), "mine")
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    grants = [
        f"GRANT USAGE ON SCHEMA {role} TO {role}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {role} TO {role}",
    ]
    dsn = postgres_server.dsn.replace("user=tests", f"user={role}")
    store = PostgresStore(dsn, schema=role)
    with pytest.raises(SessionStorageError, match="permission denied") as caught:
        await store.exists("mine")
    assert "grant" in caught.value.hint
    for grant in grants:
        postgres.execute(grant)
    session = await AgentSession.load("mine", store=store)
    session.add_message(Message.user("two"))
    await session.save()
    assert await texts(store, "mine") == ["one", "two"]
    await store.aclose()
    postgres.execute(f"DROP OWNED BY {role}")


async def test_a_server_that_takes_no_writes_is_an_error_that_says_so(postgres, postgres_server):
    session = await save(postgres.make(), "mine")
    store = PostgresStore(
        f"{postgres_server.dsn} options='-c default_transaction_read_only=on'",
        schema=postgres.schema,
    )
    assert await texts(store, "mine") == ["one"]
    session = await AgentSession.load("mine", store=store)
    session.add_message(Message.user("two"))
    with pytest.raises(SessionStorageError, match="read-only") as caught:
        await session.save()
    assert caught.value.nothing_written
    await store.aclose()


async def test_damage_is_repaired_and_the_rest_kept(postgres):
    store = postgres.make()
    session = await save(store, "mine")
    for text in ("two", "three"):
        session.add_message(Message.user(text))
        await session.save()
    await postgres.damage("mine", 1)
    postgres.execute("UPDATE sessions SET metadata = 'x' WHERE session_id = 'mine'")
    assert [each.session_id for each in (await store.survey()).damaged] == ["mine"]
    with pytest.raises(SessionCorruptError) as caught:
        await store.read("mine")
    assert "`greenroom sessions repair mine --sessions postgresql`" in caught.value.hint
    report = await store.salvage("mine")
    assert report.kept == 1
    assert "torn" in report.set_aside
    assert await store.salvage("mine") is None
    assert "three" in (await texts(store, "mine"))[-1]
