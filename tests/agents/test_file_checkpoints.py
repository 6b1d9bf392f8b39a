"""File checkpoints: changes by tools are kept, planned, agreed to and restored; nothing else is."""

import errno
import hashlib
import io
import os
import shutil
import stat
import threading
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from greenroom.agents import FileCheckpoints, coder, file_checkpoints, run_tools, stream_reply
from greenroom.core import (
    AgentContext,
    Error,
    Message,
    SessionError,
    SessionLockedError,
    SessionStorageError,
    ToolEnd,
    ToolProgress,
    TurnStatus,
    Workspace,
    WritePath,
)
from greenroom.core._internal import Checkpoint, FileChange, FileState
from greenroom.export import export_session, import_session
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import (
    ToolRegistry,
    builtin_tools,
    file_contents as file_state,
    file_contents as packs,
    tool,
    workspace_changes as recorder,
    workspace_changes as survey,
    workspace_changes as window,
)
from greenroom.tools._internal import Packs, WorkspaceRecorder
from greenroom.tools.file_contents import StatusStamp

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
        return await FileCheckpoints.plan_restore(self.session, to, self.root)

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


async def fork_of(session):
    return await session.fork()


async def import_of(session):
    text = io.StringIO()
    await export_session(session, text.write, format="json")
    return await import_session(text.getvalue(), store=session.store)


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
    assert "someone else has changed it since" in str(plan)
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


class Fileless(InMemoryStore):
    """A store of sessions alone."""

    put_file = None


async def test_a_store_that_keeps_no_files_keeps_nothing_and_the_plan_says_so(shop):
    shop.store = Fileless()
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"), bash("echo newer > a"))
    assert shop.errors == []
    plan = await shop.plan()
    assert told(plan) == []
    assert plan.gaps == (f"no file was kept: {shop.store!r} keeps no files",)


@tool
async def anything() -> None:
    """Stand for any tool."""


async def test_what_is_no_path_stops_no_tool(shop):
    shop.session = AgentSession.new("worker", store=shop.store)
    shop.session.add_message(Message.user("go"))
    agent = SimpleNamespace(
        session=shop.session,
        context=AgentContext(session_id="s", agent_type="t", workspace=Workspace(shop.root)),
        cleanup=lambda _: nullcontext(),
    )
    paths = ("~nobody-of-this-name/a", "a\0", ".", "named")
    named = ("t", ToolRegistry([anything]).get("anything"), [WritePath(path) for path in paths])
    async with FileCheckpoints(agent).around([named]):
        await shop.session.save()
        shop.write("named", "x")
    plan = await shop.plan()
    assert told(plan) == [("delete", "named")]
    assert plan.gaps == (f"{shop.root} is outside of the workspace",)


@tool(effects=lambda *_: [WritePath(f"{number}") for number in range(5)])
async def many(context: AgentContext) -> str:
    """Write many files."""
    for number in range(5):
        (context.workspace.root / f"{number}").write_text("new")
    return "done"


async def test_more_files_than_can_be_on_record_are_named(shop, monkeypatch):
    monkeypatch.setattr(window, "MAX_CHANGES", 3)
    shop.tools = [many]
    await shop.turn(call("many"))
    plan = await shop.plan()
    assert told(plan) == [("delete", "0"), ("delete", "1"), ("delete", "2")]
    assert len(plan.gaps) == 2
    assert "one file more" in plan.gaps[0]


async def test_no_more_is_held_in_memory_than_a_pack_takes(shop, monkeypatch):
    monkeypatch.setattr(window, "MAX_PACK_BYTES", 10)
    for number in range(5):
        shop.write(f"{number}", f"is {number}")
    shop.tools = [many]
    await shop.turn(call("many"))
    assert [action for action, _ in told(await shop.plan())] == ["write"] * 2 + ["lost"] * 3


async def test_contents_beyond_a_pack_are_lost(shop, monkeypatch):
    monkeypatch.setattr(packs, "MAX_PACK_BYTES", 150)
    for name in "abc":
        shop.write(name, "old" * 10 + name)
    await shop.turn(bash("echo new | tee a b c"))
    assert [action for action, _ in told(await shop.plan())].count("write") == 1


@tool(effects=lambda *_: [WritePath("/opt/passwd-of-nobody"), WritePath("link")])
async def elsewhere() -> str:
    """Name a file outside, and a link."""
    return "done"


async def test_a_file_outside_of_the_workspace_is_not_kept(shop):
    (shop.root / "link").symlink_to("/opt/hostname-of-nobody")
    shop.tools = [elsewhere]
    await shop.turn(call("elsewhere"))
    plan = await shop.plan()
    assert plan.files == ()
    assert [gap.endswith("is outside of the workspace") for gap in plan.gaps] == [True, True]


async def test_a_folder_that_may_not_be_read_is_not_covered(shop, monkeypatch):
    shop.write("closed/a", "mine")
    real = os.scandir

    def refuse(path):
        if str(path).rstrip("/").endswith("closed"):
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuse)
        keeper = WorkspaceRecorder(shop.root, Packs(str(shop.root.parent / "checkpoints")))
        opened = await keeper.open([], compares=True)
    shop.write("closed/a", "changed")
    shop.write("open", "x")
    # It can be read now, and still is left out: nobody knows what was in it.
    assert [each.path for each in await keeper.close(opened)] == ["open"]


async def test_a_plan_tells_what_it_is_of(shop):
    await shop.turn(write("a", "x"))
    assert repr(await shop.plan()) == f"<RestorePlan of 1 files in {shop.root}>"


async def test_files_are_restored_while_the_agent_s_session_is_open(shop):
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"))
    plan = await shop.plan()
    await shop.session.open()
    await plan.apply()
    assert shop.session.statistics().is_open
    await shop.session.close()
    assert shop.read("a") == "old"


async def test_where_it_is_required_no_tool_starts_without(shop):
    shop.store, shop.required = Fileless(), True
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


async def test_a_name_with_a_newline_is_one_line_of_the_plan(shop):
    await shop.turn(write("a\nwrite b", "x"))
    assert str(await shop.plan()) == "delete a\\u{a}write b"
    await shop.restore()
    assert shop.names == []


@tool
def rename_to_bytes(context: AgentContext) -> str:
    """Make a file of a name that is no UTF-8."""
    root = os.fsencode(context.workspace.root)
    with open(os.path.join(root, b"\xff"), "wb"):
        return "done"


async def test_a_name_that_is_no_unicode_is_told(shop):
    shop.tools = [*shop.tools, rename_to_bytes]
    await shop.turn(call("rename_to_bytes"))
    plan = await shop.plan()
    assert plan.files == ()
    assert "its name is not Unicode" in str(plan)


async def test_a_pipe_is_never_waited_for(shop):
    os.mkfifo(shop.root / "pipe")
    shop.write("a", "old")
    await shop.turn(bash("mkfifo other; rm a; mkfifo a"))
    plan = await shop.restore()
    assert told(plan) == [("write", "a"), ("delete", "other")]
    assert (shop.read("a"), shop.names) == ("old", ["a", "pipe"])
    assert stat.S_ISFIFO((shop.root / "pipe").stat().st_mode)


async def test_a_huge_file_is_not_read_and_said_to_be_lost(shop):
    with (shop.root / "huge").open("wb") as file:
        file.truncate(1 << 40)
    shop.write("big", "x" * 300_000)
    await shop.turn(bash("echo x >> huge; echo y >> big; truncate -s 1T new"))
    plan = await shop.restore()
    assert told(plan) == [("lost", "big"), ("leave", "huge"), ("leave", "new")]
    assert "its content was not kept" in str(plan)
    assert "larger than 10,000,000 bytes" in str(plan)


async def test_a_file_that_nobody_may_read_is_said_to_be_lost(shop, monkeypatch):
    secret = shop.write("secret", "old")
    real = os.open

    def refuse(path, flags, *rest, **options):
        if path == "secret" and flags & os.O_NONBLOCK:
            raise PermissionError(13, "Permission denied", path)
        return real(path, flags, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        await shop.turn(bash("echo new > secret"))
    assert told(await shop.plan()) == [("leave", "secret")]
    assert secret.read_text() == "new\n"


async def test_a_tool_that_names_a_file_has_a_large_one_kept(shop):
    shop.write("big", "x" * 300_000)
    await shop.turn(call("Read", file_path="big"), write("big", "small"))
    assert told(await shop.restore()) == [("write", "big")]
    assert len(shop.read("big")) == 300_000


async def test_what_git_ignores_is_covered_only_where_a_tool_names_it(shop):
    shop.write(".gitignore", "ignored\n")
    await shop.turn(write("ignored", "x"), bash("echo y > ignored; echo z > seen"))
    assert told(await shop.plan()) == [("leave", "ignored"), ("delete", "seen")]


async def test_a_plan_says_that_commands_may_have_changed_what_git_ignores_or_keeps(shop):
    shop.write(".gitignore", "ignored\n*.o\n")
    shop.write(".git/config", "")
    for number in range(5):
        shop.write(f"{number}.o", "")
    await shop.turn(write("seen", "x"))
    assert (await shop.plan(0)).gaps == ()
    await shop.turn(bash("echo y > ignored"))
    (gap,) = (await shop.plan(0)).gaps
    assert gap == (
        "what commands changed in ignored files and repositories is not known: "
        ".git/, 0.o, 1.o, 2.o, 3.o and 2 more"
    )


async def test_what_a_command_uncovers_was_not_made_by_it(shop):
    shop.write(".gitignore", "data\n")
    shop.write("data/a", "mine")
    await shop.turn(bash("echo > .gitignore"))
    await shop.restore()
    assert shop.read("data/a") == "mine"


async def test_what_may_have_been_moved_in_is_left(shop):
    shop.write(".gitignore", "data\n")
    old = shop.write("data/a", "mine")
    os.utime(old, (1, 1))
    await shop.turn(bash("mv data/a here"))
    assert told(await shop.plan()) == [("leave", "here")]


async def test_a_file_that_was_renamed_gets_its_name_back(shop):
    old = shop.write("a", "mine")
    os.utime(old, (1, 1))
    await shop.turn(bash("mv a b"))
    await shop.restore()
    assert (shop.names, shop.read("a")) == (["a"], "mine")


async def test_the_folder_of_the_sessions_is_not_looked_into(shop):
    shop.store = FileStore(shop.root / "sessions")
    await shop.turn(bash("echo x > x"))
    assert told(await shop.plan()) == [("delete", "x")]
    await shop.restore()
    assert len(shop.session.history) == 0


async def test_a_store_that_is_the_workspace_itself_hides_its_session_alone(shop):
    shop.store = FileStore(shop.root)
    await shop.turn(bash("echo x > x"))
    assert told(await shop.plan()) == [("delete", "x")]


@pytest.mark.parametrize("linked", ["d", "d/a"])
async def test_a_link_that_was_planted_since_leads_nowhere(shop, tmp_path, linked):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("new\n")
    shop.write("d/a", "old")
    await shop.turn(bash("echo new > d/a; echo b > d/b"))
    plan = await shop.plan()
    (shop.root / "d" / "a").unlink()
    if linked == "d":
        (shop.root / "d" / "b").unlink()
        (shop.root / "d").rmdir()
    (shop.root / linked).symlink_to(outside / "a" if linked == "d/a" else outside)
    report = await plan.apply()
    assert "d/a" in report.failed
    assert [each.name for each in outside.iterdir()] == ["a"]
    assert (outside / "a").read_text() == "new\n"
    assert ("leave", "d/a") in told(await shop.plan())


async def test_a_link_out_of_the_workspace_is_not_followed(shop, tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (shop.root / "link").symlink_to(outside)
    await shop.turn(bash("echo new > link"))
    assert told(await shop.plan()) == []
    assert outside.read_text() == "new\n"


async def test_a_path_that_leads_out_of_the_workspace_is_no_path(shop, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    await shop.turn(write("a", "x"))
    after = FileState("file", 0o644, 4, hashlib.sha256(b"mine").hexdigest())
    for path in ("../victim", str(victim), "d/../../victim", "./a", "a\0"):
        change = FileChange(path, FileState("absent"), after)
        shop.session.conversation.add_checkpoint(Checkpoint("c-1", str(shop.root), (), (change,)))
        assert told(await shop.plan()) == [("delete", "a")]


async def test_another_workspace_is_not_touched(shop, tmp_path):
    await shop.turn(write("a", "x"))
    other = tmp_path / "other"
    other.mkdir()
    (other / "a").write_text("x")
    plan = await FileCheckpoints.plan_restore(shop.session, 0, other)
    assert (plan.files, "another workspace" in str(plan)) == ((), True)


async def test_a_full_disk_stops_no_tool_and_is_told_once(shop, monkeypatch):
    shop.write("a", "old")

    real = os.rename

    def full(source, target, **options):
        if str(target).endswith(".pack"):
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        await shop.turn(bash("echo new > a"), bash("echo newer > a"))
    assert shop.read("a") == "newer\n"
    (error,) = shop.errors
    assert "No space left on device" in error.message
    plan = await shop.plan()
    assert told(plan) == [("lost", "a")]
    assert os.listdir(packs_of(shop)) == []


def packs_of(shop):
    return os.path.join(shop.store.folder(shop.session.session_id), "checkpoints")


async def test_what_would_be_overwritten_is_kept_first_or_nothing_is_done(shop, monkeypatch):
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"))
    plan = await shop.plan()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(SessionStorageError, match="No space left"):
            await plan.apply()
    assert shop.read("a") == "new\n"
    await plan.apply()
    kept = b"".join(each.read_bytes() for each in Path(packs_of(shop)).iterdir())
    assert b"new\n" in kept


async def test_what_was_let_go_to_make_room_is_lost(shop, monkeypatch):
    monkeypatch.setattr(packs, "MAX_KEPT_BYTES", 200)
    shop.write("a", "0" * 50)
    for number in range(5):
        await shop.turn(bash(f"printf {number} > a"))
    plan = await shop.plan()
    assert told(plan) == [("lost", "a")]
    assert "is not kept, or no longer" in str(plan)
    assert told(await shop.plan(16)) == [("write", "a")]


async def test_a_damaged_copy_is_not_put_in_place(shop):
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"))
    plan = await shop.plan()
    (pack,) = Path(packs_of(shop)).iterdir()
    pack.write_bytes(pack.read_bytes().replace(b"old", b"odd"))
    report = await plan.apply()
    assert "damaged" in report.failed["a"]
    assert shop.read("a") == "new\n"


async def too_late(work):
    """Let work know at once that its time is up."""
    late = threading.Event()
    late.set()
    return await trio.to_thread.run_sync(lambda: work(late))


async def test_time_that_runs_out_is_a_gap(shop, monkeypatch):
    shop.write("a", "old")
    monkeypatch.setattr(recorder, "MAX_SECONDS", 0.01)

    def slow(late):
        assert late.wait(60)
        return "late"

    assert await recorder._in_time(slow) == "late"
    keeper = WorkspaceRecorder(shop.root, Packs(str(shop.root.parent / "checkpoints")))
    monkeypatch.setattr(recorder, "MAX_SECONDS", 10)
    opened = await keeper.open([str(shop.root / "named")], compares=True)
    shop.write("a", "new")
    shop.write("named", "new")
    assert [each.path for each in await keeper.close(opened)] == ["a", "named"]
    in_time, calls = recorder._in_time, []

    async def second_too_late(work):
        calls.append(work)
        return await (in_time if len(calls) == 1 else too_late)(work)

    monkeypatch.setattr(recorder, "_in_time", second_too_late)
    assert [each.path for each in await keeper.close(opened)] == ["named"]
    assert opened.gaps == ["there was no time to read every file that commands changed"]
    opened.gaps.clear()
    assert [each.path for each in await keeper.close(opened)] == ["named"]
    assert opened.gaps == ["what commands changed is not known: it is too much to compare"]


@pytest.mark.parametrize("bound", ["files", "time", "later"])
async def test_a_workspace_too_large_to_compare_is_told_and_its_named_files_kept(
    shop, monkeypatch, bound
):
    for number in range(9):
        shop.write(f"{number}", "old")
    if bound == "time":
        monkeypatch.setattr(recorder, "_in_time", too_late)
    else:
        monkeypatch.setattr(recorder, "MAX_FILES", 8 if bound == "files" else 9)
    await shop.turn(bash("echo new > 1; echo x > x"), write("y", "y"))
    plan = await shop.plan()
    assert told(plan) == [("delete", "y")]
    assert "what commands change" in str(plan)
    assert len(shop.errors) == (bound != "later")


async def test_more_changes_than_can_be_on_record_are_counted(shop, monkeypatch):
    monkeypatch.setattr(recorder, "MAX_CHANGES", 3)
    await shop.turn(bash("touch 1 2 3 4 5"))
    plan = await shop.plan()
    assert told(plan) == [("delete", "1"), ("delete", "2"), ("delete", "3")]
    assert "2 more files were changed" in str(plan)


async def test_a_session_that_somebody_writes_is_left_alone(shop):
    await shop.turn(write("a", "x"))
    plan = await shop.plan()
    other = await AgentSession.load(shop.session.session_id, store=shop.store)
    await other.open()
    with pytest.raises(SessionLockedError):
        await plan.apply()
    assert shop.names == ["a"]
    await other.close()
    assert (await plan.apply()).restored == ("a",)


async def test_a_session_that_was_loaded_plans_the_same(shop):
    shop.write("a", "old")
    await shop.turn(bash("echo new > a"))
    shop.session = await AgentSession.load(shop.session.session_id, store=shop.store)
    await shop.restore()
    assert shop.read("a") == "old"


async def test_a_fork_undoes_what_happened_in_it_alone(shop):
    await shop.turn(write("a", "x"))
    shop.session = await shop.session.fork()
    await shop.turn(write("b", "x"))
    assert told(await shop.plan()) == [("delete", "b")]


@pytest.mark.parametrize("copy", [fork_of, import_of])
async def test_a_copy_says_that_it_does_not_know_what_was_changed_before(shop, copy):
    await shop.turn(write("a", "x"))  # messages 1 to 4: input, call, result, reply
    await shop.turn()
    shop.session = await copy(shop.session)
    await shop.turn(write("b", "x"))
    gaps = ("what tools changed before it was copied is not known",)
    assert [(await shop.plan(to)).gaps for to in (0, 1, 2)] == [gaps, gaps, gaps]
    assert [(await shop.plan(to)).gaps for to in (3, 4, 5, 6, 7)] == [()] * 5


async def test_a_copy_without_calls_has_nothing_to_say_of_files(shop):
    await shop.turn()
    shop.session = await shop.session.fork()
    assert (await shop.plan(0)).gaps == ()


@tool
async def die(context: AgentContext) -> str:
    """Do what a process does that is killed: leave the session's folder as it is at this moment."""
    folder = Path(context.spill_folder).parent
    (context.workspace.root / "a").write_text("new")
    shutil.copytree(folder, folder.parent.parent / "died" / folder.name)
    return "done"


async def test_after_a_kill_it_is_known_that_nothing_is_known(shop, tmp_path):
    shop.write("a", "old")
    shop.tools = [die]
    await shop.turn(call("die"))
    shop.session = await AgentSession.load(
        shop.session.session_id, store=FileStore(tmp_path / "died")
    )
    plan = await shop.plan()
    assert (plan.files, plan.gaps) == ((), (file_checkpoints._CUT_OFF,))


@tool(effects=lambda _, __: [WritePath("a")])
async def die_writing(context: AgentContext) -> str:
    """The same, having said what it writes."""
    return await die.execute({}, context)


async def test_after_a_kill_a_named_file_is_left(shop, tmp_path):
    shop.write("a", "old")
    shop.tools = [die_writing]
    await shop.turn(call("die_writing"))
    shop.session = await AgentSession.load(
        shop.session.session_id, store=FileStore(tmp_path / "died")
    )
    (file,) = (await shop.plan()).files
    assert (file.action, "cut off" in file.reason) == ("leave", True)
    shop.write("a", "old")
    assert (await shop.plan()).files == ()


async def test_an_interrupted_command_s_changes_are_on_record(shop):
    shop.write("a", "old")
    command = "echo new > a; echo started; sleep 600"
    llm = ScriptedProvider(bash(command))
    shop.session = AgentSession.new("coder", store=shop.store)
    with trio.fail_after(60):
        async with AgentRuntime(workspace=shop.root) as runtime:
            handle = runtime.spawn(
                shop.session,
                partial(coder, checkpoints=True),
                llm,
                ToolRegistry(builtin_tools()),
                PermissionManager(ALL),
            )
            async with handle.subscribe("all") as reader:
                await handle.send_input("go")
                async for chunk in reader:
                    if isinstance(chunk, ToolProgress):
                        break
                await handle.interrupt(grace=10)
    plan = await shop.plan()
    assert (told(plan), plan.gaps) == ([("write", "a")], ())


async def test_an_interrupt_while_files_are_kept_leaves_nothing_half(shop, monkeypatch):
    for number in range(20):
        shop.write(f"{number}", "old" * number)
    real, seen = recorder.look_at, []
    scope = trio.CancelScope()

    def cancel_at_the_tenth(path):
        seen.append(path)
        if len(seen) == 10:
            trio.from_thread.run_sync(scope.cancel)
        return real(path)

    monkeypatch.setattr(recorder, "look_at", cancel_at_the_tenth)
    folder = shop.root.parent / "checkpoints"
    keeper = WorkspaceRecorder(shop.root, Packs(str(folder)))
    with scope:
        await keeper.open([], compares=True)
    assert scope.cancelled_caught
    assert list(folder.iterdir()) == []
    assert len(seen) == 10
    opened = await keeper.open([], compares=True)
    shop.write("7", "new")
    (change,) = await keeper.close(opened)
    assert (change.path, change.before.size) == ("7", 21)


async def test_a_change_that_no_time_of_the_file_tells_is_seen(shop, monkeypatch):
    def coarse(status):
        return StatusStamp(status.st_mode, status.st_size, *[int(status.st_ctime) * 10**9] * 2, 1)

    monkeypatch.setattr(file_state, "take_stamp", coarse)
    monkeypatch.setattr(survey, "take_stamp", coarse)
    monkeypatch.setattr("greenroom.core.message._clock", lambda: datetime.now(UTC))
    shop.write("a", "one")
    keeper = WorkspaceRecorder(shop.root, Packs(str(shop.root.parent / "checkpoints")))
    for text in ("two", "six", "ten"):
        opened = await keeper.open([], compares=True)
        shop.write("a", text)
        (change,) = await keeper.close(opened)
        assert change.path == "a"


async def test_what_a_subagent_changes_is_undone_with_its_parent(shop):
    shop.write("a", "old")
    llm = ScriptedProvider(
        call("Task", description="change a", prompt="do"), bash("echo new > a"), "did", "done"
    )
    shop.session = AgentSession.new("coder", store=shop.store)
    parts = (llm, ToolRegistry(builtin_tools()), PermissionManager(ALL))
    with trio.fail_after(60):
        async with AgentRuntime(workspace=shop.root) as runtime:
            handle = runtime.spawn(shop.session, partial(coder, checkpoints=True), *parts)
            await handle.ask("go")
    assert shop.read("a") == "new\n"
    await shop.restore()
    assert shop.read("a") == "old"


async def test_without_checkpoints_there_are_none(shop):
    shop.session = AgentSession.new("coder", store=shop.store)
    parts = (ScriptedProvider(bash("echo x > x"), "done"), ToolRegistry(builtin_tools()))
    with trio.fail_after(60):
        async with AgentRuntime(workspace=shop.root) as runtime:
            await runtime.spawn(shop.session, coder, *parts, PermissionManager(ALL)).ask("go")
    assert (await shop.plan()).files == ()
    assert not Path(packs_of(shop)).exists()


async def test_nothing_to_restore_takes_no_lock(shop):
    await shop.turn(write("a", "x"))
    plan = await shop.plan(len(shop.session.history))
    other = await AgentSession.load(shop.session.session_id, store=shop.store)
    await other.open()
    report = await plan.apply()
    await other.close()
    assert (report.restored, report.failed) == ((), {})


async def test_each_reason_is_a_gap_of_its_own(shop, monkeypatch):
    folder = shop.write("../checkpoints", "no folder")
    monkeypatch.setattr(recorder, "MAX_FILES", 0)
    shop.write("a", "old")
    opened = await WorkspaceRecorder(shop.root, Packs(str(folder))).open([], compares=True)
    assert [gap.partition(":")[0] for gap in opened.gaps] == [
        "what commands change is not known",
        "former contents are not kept",
    ]


async def test_what_did_not_fit_is_kept_the_next_time(shop, monkeypatch):
    monkeypatch.setattr(packs, "MAX_PACK_BYTES", 250)
    for name in "abcd":
        os.utime(shop.write(name, name * 50), (1, 1))
    keeper = WorkspaceRecorder(shop.root, Packs(str(shop.root.parent / "checkpoints")))
    monkeypatch.setattr(window, "_GRAIN", -10)  # as if the files were old
    kept = [len((await keeper.open([], compares=True)).states) for _ in range(3)]
    assert kept == [2, 4, 4]
