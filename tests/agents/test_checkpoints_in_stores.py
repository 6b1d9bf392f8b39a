"""Checkpoints in stores without folders: packs are files of the session, seen by nobody else."""

import os

import pytest

from greenroom.core import AgentContext, SessionStorageError, WritePath
from greenroom.runtime.artifacts import files_of
from greenroom.session import AgentSession, InMemoryStore, SQLiteStore
from greenroom.testing import call
from greenroom.tools import file_contents, tool
from tests.agents.test_file_checkpoints import Workshop, bash, told

PACK = "checkpoint-000001.pack"


@pytest.fixture(params=["memory", "sqlite"])
def shop(request, tmp_path):
    shop = Workshop(tmp_path)
    shop.store = {
        "memory": InMemoryStore,
        "sqlite": lambda: SQLiteStore(tmp_path / "sessions.db"),
    }[request.param]()
    shop.tools = [*shop.tools, renew]
    return shop


@tool(effects=lambda arguments, *_: [WritePath(name) for name in arguments["names"]])
async def renew(names: list[str], context: AgentContext) -> str:
    """Write new files."""
    for name in names:
        (context.workspace.root / name).write_text("new")
    return "done"


async def files(shop):
    return {each.name: each.size for each in await shop.store.list_files(shop.session.session_id)}


async def test_files_are_restored_from_every_store(shop):
    shop.write("a", "old")
    shop.write("b", "left")
    await shop.turn(call("renew", names=["a"]), bash("echo more >> b; echo c > c; rm -f a"))
    if isinstance(shop.store, SQLiteStore):  # as another process would
        await shop.store.aclose()
        shop.store = SQLiteStore(shop.store.paths()[0])
        shop.session = await AgentSession.load(shop.session.session_id, store=shop.store)
    plan = await shop.restore()
    assert told(plan) == [("write", "a"), ("write", "b"), ("delete", "c")]
    assert plan.gaps == ()
    assert [shop.read(name) for name in shop.names] == ["old", "left"]


async def test_what_a_restore_overwrites_is_kept_as_well(shop):
    shop.write("a", "old")
    await shop.turn(call("renew", names=["a"]))
    before = await files(shop)
    await shop.restore()
    assert len(await files(shop)) == len(before) + 1


async def test_packs_are_no_files_for_tools_or_forks(shop):
    shop.write("a", "secret")
    await shop.turn(bash("echo new > a"))
    assert list(await files(shop)) == [PACK]
    seen = files_of(shop.store, shop.session.session_id)
    assert await seen.sizes() == {}
    for ask in (seen.read(PACK), seen.put(PACK, b""), seen.remove(PACK)):
        with pytest.raises(ValueError, match="not for tools"):
            await ask
    fork = await shop.session.fork()
    assert await shop.store.list_files(fork.session_id) == ()
    assert list(await files(shop)) == [PACK]


async def test_more_than_a_file_may_hold_is_said_to_be_lost(shop, monkeypatch):
    monkeypatch.setattr("greenroom.agents.session_packs.SessionPacks.longest", 200)
    for name in ("a", "b"):
        shop.write(name, name * 100)
    await shop.turn(bash("echo new > a; echo new > b"))
    plan = await shop.plan()
    lost = [each for each in plan.files if each.action == "lost"]
    assert len(lost) == 1
    assert len(plan.files) == 2
    assert "not kept" in lost[0].reason


async def test_sixteen_megabytes_of_one_reply_are_kept_and_no_more(shop):
    for name in ("a", "b"):
        shop.write(name, name * 9_000_000)
    await shop.turn(call("renew", names=["a", "b"]))
    assert sorted(told(await shop.plan())) == [("lost", "b"), ("write", "a")]


async def test_the_oldest_packs_go_first(shop, monkeypatch):
    monkeypatch.setattr(file_contents, "MAX_KEPT_BYTES", 600)
    for name in ("a", "b", "c"):
        shop.write(name, name * 200)
    await shop.turn(*(call("renew", names=[name]) for name in "abc"))
    assert told(await shop.plan()) == [("lost", "a"), ("write", "b"), ("write", "c")]
    assert len(await files(shop)) == 2


async def test_a_store_that_refuses_a_pack_stops_no_tool_and_is_told_once(shop, monkeypatch):
    async def refuse(*_):
        raise SessionStorageError("the disk is full")

    monkeypatch.setattr(shop.store, "put_file", refuse)
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"), bash("echo newer > a"))
    assert shop.read("a") == "newer\n"
    assert ["the disk is full" in each.message for each in shop.errors] == [True]
    assert told(await shop.plan()) == [("lost", "a")]


async def test_a_database_in_the_workspace_is_not_part_of_it(tmp_path):
    shop = Workshop(tmp_path)
    shop.store = SQLiteStore(shop.root / "sessions.db")
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"), bash("echo newer > a"))
    assert told(await shop.restore()) == [("write", "a")]
    assert {os.path.basename(path) for path in shop.store.paths()} >= {"sessions.db-wal"}
    assert [each.text for each in shop.session.history] == []
    await shop.store.aclose()
