"""A person's yes covers the files that a command named as they were, and its program."""

import os
import threading

import pytest
import trio
import trio.testing

from greenroom.core import PermissionRequest, ToolEnd, ToolStatus
from greenroom.permissions import PermissionRule, explanation
from greenroom.testing import Reply, call
from greenroom.tools import tool
from tests.agents.test_tool_calls import FakeBash, Stage
from tests.cli.test_permission_prompt import shown


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A workspace, and a folder of programs that comes first on PATH."""
    programs, folder = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    write_program(programs / "deploy", "echo deployed")
    write_program(folder / "run.sh", "echo run")
    for name in ("a.txt", "b.txt", "key"):
        (folder / name).write_text(name)
    (folder / "link").symlink_to("a.txt")
    (folder / "sub").mkdir()
    (folder / "way").symlink_to("sub")
    for place in ("sub", "."):
        (folder / place / "deep").write_text("here")
    return folder


def write_program(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


async def ask(folder, command, meanwhile, **answer):
    """Let a person say yes to a command, while something happens to the disk; how it ended."""
    bash = FakeBash()
    async with Stage([bash], call("Bash", command=command), "ok", workspace=folder) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        meanwhile(folder)
        await stage.handle.respond_permission(request.request_id, "allow", **answer)
        end = await stage.next(ToolEnd)
    assert bool(bash.ran) is (end.result.status is ToolStatus.SUCCESS)
    return end.result


def relink(name, target):
    def swap(folder):
        (folder / name).unlink()
        (folder / name).symlink_to(target)

    return swap


def rewrite_unseen(folder):
    """Change what a file holds, and neither its size nor its times as far as these can be set."""
    path = folder / "run.sh"
    before = path.stat()
    path.write_text(path.read_text().replace("run", "rum"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


def replace_unseen(folder):
    """Put another file in place of one, with the same content and time."""
    path, other = folder / "run.sh", folder / "other"
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


CHANGES = {
    "a link swapped": ("python link", relink("link", "key")),
    "a link that leads to the same": ("python link", relink("link", "./a.txt")),
    "a folder's link swapped": ("python way/deep", relink("way", ".")),
    "a new file that fits": ("python *.txt", lambda at: (at / "c.txt").touch()),
    "a changed script": ("bash run.sh", lambda at: write_program(at / "run.sh", "rm -rf ~")),
    "behind an equals sign": ("frob --config=key", lambda at: (at / "key").write_text("x")),
    "behind an at sign": ("curl -d@key a.test", lambda at: (at / "key").write_text("x")),
    "behind a short option": ("frob -fkey", lambda at: (at / "key").write_text("x")),
    "within a wrapper": ("timeout 5 bash run.sh", lambda at: write_program(at / "run.sh", "x")),
    "within a text": ("bash -c './run.sh'", lambda at: write_program(at / "run.sh", "x")),
    "in another folder": ("cd sub && bash deep", lambda at: (at / "sub/deep").write_text("x")),
    "where output goes": ("make > key", lambda at: (at / "key").write_text("x")),
    "a program by its path": ("./run.sh", lambda at: write_program(at / "run.sh", "x")),
    "a program on PATH": ("deploy", lambda at: write_program(at / "../bin/deploy", "x")),
    "one before it on PATH": ("id -u", lambda at: write_program(at / "../bin/id", "x")),
    "content alone": ("bash run.sh", rewrite_unseen),
    "the file alone": ("bash run.sh", replace_unseen),
    "a file that was not there": ("bash new.sh", lambda at: (at / "new.sh").touch()),
    "a name in the workspace": ("frob .", lambda at: (at / "new").touch()),
    "a name in a folder": ("frob sub", lambda at: (at / "sub/new").touch()),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("remember", [None, "session"])
@pytest.mark.every(3)
async def test_what_changed_meanwhile_does_not_run(folder, name, remember):
    result = await ask(folder, *CHANGES[name], remember=remember)
    assert result.status is ToolStatus.DENIED
    assert "what was approved has changed meanwhile" in result.text


@pytest.mark.parametrize("command", sorted({command for command, _ in CHANGES.values()}))
@pytest.mark.parametrize("remember", [None, "session"])
async def test_what_is_as_it_was_runs(folder, command, remember):
    def change_others(folder):
        (folder.parent / "unnamed").write_text("x")

    assert (await ask(folder, command, change_others, remember=remember)).text == "ran"


@pytest.mark.parametrize("folder_named", [".", "../work"])
async def test_what_greenroom_makes_in_the_workspace_itself_is_no_change(folder, folder_named):
    def use_a_sandbox(folder):  # which keeps such names from being made
        (folder / ".git").mkdir()
        (folder / ".git").rmdir()

    command = f"make -C {folder_named}"
    result = await ask(folder, command, use_a_sandbox, remember="project")
    assert (folder / ".greenroom/permissions.json").exists()
    assert result.text == "ran"


async def settle():
    """Wait until every task waits, and none for a thread, such as one that reads files."""
    await trio.testing.wait_all_tasks_blocked()
    while trio.testing.active_thread_count():
        await trio.testing.wait_all_threads_completed()
        await trio.testing.wait_all_tasks_blocked()


async def test_what_a_person_wrote_is_bound_to_its_files_as_well(folder):
    answered = trio.Event()

    @tool(concurrent=False)
    async def alter() -> str:
        """Change a script."""
        await answered.wait()
        (folder / "run.sh").write_text("echo another")
        return "altered"

    rules = [PermissionRule.parse("alter", "allow")]
    calls = Reply([call("alter"), call("Bash", command="make")])
    async with Stage([alter, FakeBash()], calls, "ok", rules=rules, workspace=folder) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        edited = {"command": "bash run.sh"}
        await stage.handle.respond_permission(request.request_id, "allow", input=edited)
        await settle()
        answered.set()
        await stage.next(ToolEnd)
        end = await stage.next(ToolEnd)
    assert end.result.status is ToolStatus.DENIED


async def test_what_rules_allow_is_not_bound_to_files(folder):
    @tool
    async def alter() -> str:
        """Change a script."""
        (folder / "run.sh").write_text("echo another")
        return "altered"

    calls = Reply([call("alter"), call("Bash", command="bash run.sh")])
    rules = [PermissionRule.allow_all()]
    async with Stage([alter, FakeBash()], calls, "ok", rules=rules, workspace=folder) as stage:
        await stage.handle.ask("go")
    assert stage.seen(ToolEnd)[1].result.text == "ran"


@pytest.mark.parametrize(
    ("count", "size", "why"), [(101, 0, "more than 100 files"), (17, 1 << 20, "more than 16 MiB")]
)
async def test_more_than_can_be_compared_is_not_offered_for_always(folder, count, size, why):
    names = [f"{number}.c" for number in range(count)]
    for name in names:
        (folder / name).write_bytes(bytes(size))
    command = f"frob {' '.join(names)}"
    async with Stage([FakeBash()], call("Bash", command=command), workspace=folder) as stage:
        await stage.handle.send_input("go")
        request = await stage.next(PermissionRequest)
        await stage.handle.respond_permission(request.request_id, "allow", remember="session")
        end = await stage.next(ToolEnd)
    assert end.result.text == "ran"
    assert request.remembers == ()
    assert why in request.unremembered
    assert f"{request.unremembered}, so a yes can't be remembered" in " ".join(
        shown(request).split()
    )
    assert stage.permissions.rules == ()


async def test_the_files_of_a_question_are_read_beside_the_event_loop(folder, monkeypatch):
    threads = []
    looked = explanation.fingerprint

    def noting(call):
        threads.append(threading.current_thread())
        return looked(call)

    monkeypatch.setattr(explanation, "fingerprint", noting)
    await ask(folder, "bash run.sh", lambda _: None)
    assert len(threads) == 2
    assert threading.main_thread() not in threads
