"""Sessions in PostgreSQL through PgBouncer: pooling by session works, by transaction is refused."""

import shutil
import subprocess

import pytest

from greenroom.core import Message, SessionLockedError, SessionStorageError
from greenroom.session import AgentSession, PostgresStore

needs_pooler = pytest.mark.skipif(
    shutil.which("pgbouncer") is None, reason="PgBouncer (pgbouncer) is not installed"
)

INI = """[databases]
postgres = host={server} user=tests dbname=postgres
[pgbouncer]
listen_addr =
unix_socket_dir = {folder}
listen_port = 6432
auth_type = any
default_pool_size = 30
pool_mode = {mode}
"""


@pytest.fixture
def pooled(postgres_server):
    """Run PgBouncer in front of the server; return an address through it."""
    folder, processes = postgres_server.folder / "pooler", []

    def pooled(mode):
        (folder / "ini").write_text(INI.format(server=folder.parent, folder=folder, mode=mode))
        account = postgres_server.account or ()
        for path in (folder, folder / "ini") if account else ():
            shutil.chown(path, *account)
        command = ["pgbouncer", folder / "ini"]
        identity = dict(zip(("user", "group"), account, strict=False))
        process = subprocess.Popen(command, stderr=subprocess.PIPE, **identity)
        processes.append(process)
        assert any(b"process up" in line for line in process.stderr)  # it has opened its socket
        return f"host={folder} port=6432 user=tests dbname=postgres"

    folder.mkdir()
    yield pooled
    for process in processes:
        process.kill()
        process.communicate()
    shutil.rmtree(folder)


async def talk(store, session_id):
    session = AgentSession.new("coder", session_id=session_id, store=store)
    await session.open()
    for number in range(10):
        session.add_message(Message.user(str(number)))
        await session.save()
    return session


@needs_pooler
async def test_a_pool_by_session_keeps_presence(postgres, pooled):
    dsn = pooled("session")
    store, other = (PostgresStore(dsn, schema=postgres.schema, patience=30) for _ in range(2))
    session = await talk(store, "mine")
    with pytest.raises(SessionLockedError) as caught:
        await other.acquire("mine")
    assert caught.value.holder == store.holder
    session.add_message(Message.user("10"))
    await session.save()
    await store.aclose()  # the server's process stays, for whoever comes next
    await (await other.acquire("mine")).release()
    await other.aclose()
    direct = await AgentSession.load("mine", store=postgres.make())
    assert [each.text for each in direct.history] == [str(number) for number in range(11)]


@needs_pooler
async def test_a_pool_by_transaction_is_refused(postgres, pooled):
    store = PostgresStore(pooled("transaction"), schema=postgres.schema, patience=30)
    with pytest.raises(SessionStorageError, match="for a transaction each") as caught:
        await talk(store, "mine")
    assert caught.value.nothing_written
    assert "by session" in caught.value.hint
    await store.aclose()


async def test_two_connections_with_one_process_at_their_end_are_refused(postgres, monkeypatch):
    query = "SELECT 150000, 'on', 'UTF8', 'the same'"
    monkeypatch.setattr("greenroom.session.postgres_server._FIND_OUT", query)
    store = postgres.make()
    for _ in range(2):  # one after the other, as through a pool by session
        assert not await store.exists("mine")
        store._server.close()
    with pytest.raises(SessionStorageError, match="for a transaction each"):
        await store.acquire("mine")  # whose presence has a connection of its own
