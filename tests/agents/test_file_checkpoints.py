"""File checkpoints: what tools changed is kept, planned, agreed to, and put back; nothing else is."""

import os
import stat

import pytest
import trio

from greenroom.agents import FileCheckpoints, plan_restore, run_tools, stream_reply
from greenroom.core import Error, SessionError, ToolEnd, TurnStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, MemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools

ALL = [PermissionRule.allow_all()]


class Workshop:
    """A workspace, a store, and a session whose agent plays scripts in them."""

    def __init__(self, tmp_path):
        self.root = tmp_path / "workspace"
        self.root.mkdir()
        self.store = FileStore(tmp_path / "sessions")
        self.session = None
        self.tools = builtin_tools()
        self.required = False
        self.errors = []

    def write(self, path, text):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def read(self, path):
        return (self.root / path).read_text()

    @property
    def names(self):
        files = (each for each in self.root.rglob("*") if not each.is_dir())
        return sorted(str(each.relative_to(self.root)) for each in files)

    async def turn(self, *calls):
        """Run one turn of these calls, each in a reply of its own."""
        if self.session is None:
            self.session = AgentSession.new("worker", store=self.store)
        llm = ScriptedProvider(*calls, "done")
        required = self.required

        async def worker(agent):
            kept = FileCheckpoints(agent, required=required)
            permissions, tools = PermissionManager(ALL), ToolRegistry(self.tools)
            async for message in agent.inputs():
                async with agent.turn(message):
                    while True:
                        reply = await stream_reply(agent, llm, tools)
                        if not reply.tool_uses:
                            break
                        await run_tools(
                            agent, reply.tool_uses, tools, permissions, checkpoints=kept
                        )

        with trio.fail_after(60):
            async with AgentRuntime(store=self.store, workspace=self.root) as runtime:
                handle = runtime.spawn(self.session, worker)
                reader = handle.subscribe("all")
                result = await handle.ask("go")
            chunks = [chunk async for chunk in reader]
        self.errors += [chunk for chunk in chunks if isinstance(chunk, Error)]
        failed = [each.result.text for each in chunks if isinstance(each, ToolEnd) if each.is_error]
        assert failed == []
        return result

    async def plan(self, to=0):
        return await plan_restore(self.session, to, self.root)

    async def restore(self, to=0):
        plan = await self.plan(to)
        await self.session.rewind(to)
        report = await plan.apply()
        assert report.failed == {}
        return plan


@pytest.fixture
def shop(tmp_path):
    return Workshop(tmp_path)


def write(path, text):
    return call("Write", file_path=path, content=text)


def bash(command):
    return call("Bash", command=command)


def told(plan):
    return [(each.action, each.path) for each in plan.files]


async def test_what_write_and_edit_changed_is_put_back(shop):
    target = shop.write("a.txt", "one two\n")
    target.chmod(0o640)
    await shop.turn(
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="two", new_string="three"),
        write("new/b.txt", "b"),
    )
    assert (shop.read("a.txt"), shop.names) == ("one three\n", ["a.txt", "new/b.txt"])
    plan = await shop.restore()
    assert told(plan) == [("write", "a.txt"), ("delete", "new/b.txt")]
    assert (shop.read("a.txt"), shop.names) == ("one two\n", ["a.txt"])
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


async def test_what_a_command_changed_is_put_back(shop):
    shop.write("a.txt", "a")
    shop.write("gone.txt", "gone")
    shop.write("kept.txt", "kept")
    (shop.root / "link").symlink_to("a.txt")
    command = (
        "echo b > a.txt; rm gone.txt; echo n > new.txt; ln -sf kept.txt link; chmod +x kept.txt"
    )
    await shop.turn(bash(command))
    plan = await shop.restore()
    assert told(plan) == [
        ("write", "a.txt"),
        ("write", "gone.txt"),
        ("write", "kept.txt"),
        ("write", "link"),
        ("delete", "new.txt"),
    ]
    assert shop.names == ["a.txt", "gone.txt", "kept.txt", "link"]
    assert [shop.read(name) for name in shop.names] == ["a", "gone", "kept", "a"]
    assert not os.access(shop.root / "kept.txt", os.X_OK)


async def test_a_file_that_a_command_makes_a_folder_of_comes_back(shop):
    shop.write("a", "file")
    shop.write("b/c", "in a folder")
    await shop.turn(bash("rm a; mkdir a; echo x > a/x; rm -r b; echo b > b"))
    await shop.restore()
    assert shop.names == ["a", "b/c"]
    assert (shop.read("a"), shop.read("b/c")) == ("file", "in a folder")


async def test_what_was_there_before_a_message_stays(shop):
    await shop.turn(write("one", "1"), write("two", "2"))
    # go, call, result, call, result, done
    assert len(shop.session.history) == 6
    assert told(await shop.plan(6)) == []
    assert told(await shop.plan(5)) == []
    assert told(await shop.plan(4)) == [("delete", "two")]
    await shop.restore(3)
    assert shop.names == ["one"]


async def test_a_place_that_is_none_is_refused(shop):
    await shop.turn(write("one", "1"))
    with pytest.raises(SessionError, match="no place 9"):
        await shop.plan(9)


async def test_a_rewind_without_files_is_made_good_by_a_later_one(shop):
    await shop.turn(write("one", "1"))
    await shop.session.rewind(1)
    await shop.turn(write("two", "2"))
    assert shop.names == ["one", "two"]
    await shop.restore(1)
    assert shop.names == []


async def test_restoring_step_by_step_ends_where_it_began(shop):
    shop.write("a", "0")
    for number in ("1", "2", "3"):
        await shop.turn(bash(f"printf {number} > a"))
    for to, expected in ((8, "2"), (4, "1"), (0, "0")):
        await shop.restore(to)
        assert shop.read("a") == expected
        assert told(await shop.plan(to)) == []


async def test_what_somebody_else_has_changed_since_is_left(shop):
    shop.write("a", "old")
    shop.write("b", "old")
    await shop.turn(bash("echo new > a; echo new > b; echo new > c; echo new > d"))
    shop.write("a", "mine")
    (shop.root / "d").unlink()
    plan = await shop.restore()
    assert told(plan) == [("leave", "a"), ("write", "b"), ("delete", "c")]
    assert "somebody else has changed it since" in str(plan)
    assert (shop.read("a"), shop.read("b"), shop.names) == ("mine", "old", ["a", "b"])


async def test_what_somebody_else_has_changed_between_two_calls_is_left(shop):
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"))
    shop.write("a", "mine")
    await shop.turn(bash("echo more >> a"))
    assert told(await shop.restore()) == [("leave", "a")]
    assert shop.read("a") == "minemore\n"


async def test_what_changes_between_the_plan_and_the_yes_is_spared(shop):
    shop.write("a", "old")
    await shop.turn(bash("echo new > a; echo b > b"))
    plan = await shop.plan()
    shop.write("a", "mine")
    report = await plan.apply()
    assert report.failed == {"a": "it was changed this moment"}
    assert (report.restored, shop.read("a")) == (("b",), "mine")


async def test_reading_costs_nothing(shop):
    shop.write("a", "a")
    await shop.turn(call("Read", file_path="a"), call("Glob", pattern="*"))
    folder = shop.store.folder(shop.session.session_id)
    assert "checkpoints" not in os.listdir(folder)
    assert "checkpoint" not in (await trio.Path(folder, "history.jsonl").read_text())


async def test_it_is_for_this_user_alone(shop):
    shop.write("a", "a")
    await shop.turn(bash("echo b > a"))
    folder = trio.Path(shop.store.folder(shop.session.session_id), "checkpoints")
    (pack,) = list(await folder.iterdir())
    assert stat.S_IMODE((await folder.stat()).st_mode) == 0o700
    assert stat.S_IMODE((await pack.stat()).st_mode) == 0o600


async def test_a_file_that_has_not_changed_is_kept_once(shop):
    shop.write("a", "a" * 1000)
    os.utime(shop.root / "a", (1, 1))
    await shop.turn(bash("true"), bash("true"), bash("echo b > b"))
    folder = trio.Path(shop.store.folder(shop.session.session_id), "checkpoints")
    assert len(list(await folder.iterdir())) == 1


async def test_a_store_without_a_folder_keeps_nothing_and_says_so_once(shop):
    shop.store = MemoryStore()
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"), bash("echo newer > a"))
    (error,) = shop.errors
    assert "has no folder for files" in error.message
    plan = await shop.plan()
    assert told(plan) == []
    assert "no file was kept" in str(plan)


async def test_where_it_is_required_no_tool_starts_without(shop):
    shop.store, shop.required = MemoryStore(), True
    result = await shop.turn(bash("echo new > a"))
    assert result.status is TurnStatus.FAILED
    assert "can't all be restored" in result.error
    assert shop.names == []


async def test_a_summary_stands_for_the_messages_that_it_replaced(shop):
    await shop.turn(write("one", "1"))
    await shop.session.compact("one was written", keep=0)
    await shop.turn(write("two", "2"))
    assert told(await shop.plan(1)) == [("delete", "two")]
    assert told(await shop.plan(0)) == [("delete", "one"), ("delete", "two")]
