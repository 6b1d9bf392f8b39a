"""`greenroom tree`: whoever runs agents tells what they are doing, to its own user."""

import json
import os
import socket
import stat
import sys
import tempfile

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore
from greenroom.cli import serve_tree
from greenroom.cli.diagnostics import live_folder, print_trees, read_trees
from greenroom.cli.options import Options
from greenroom.flow import pipeline


@pytest.fixture(autouse=True)
def folder(monkeypatch):
    """A folder whose name is short enough for a socket."""
    with tempfile.TemporaryDirectory(prefix="gr-", dir="/tmp") as made:
        monkeypatch.setenv("XDG_RUNTIME_DIR", made)
        yield live_folder()


async def writer(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep_forever()


async def test_a_team_is_listed_while_it_works(capfd, folder):
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(serve_tree, runtime)
        handle = runtime.spawn(
            AgentSession.new("team", session_id="s-1"), pipeline(writer), name="team"
        )
        handle.send_input_nowait("Go.")
        await trio.testing.wait_all_tasks_blocked()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert await print_trees(Options()) == 0
        said = capfd.readouterr().out.splitlines()
        assert said[:2] == [f"process {os.getpid()}", "2 agents"]
        assert said[2].startswith("team s-1 · processing · turn 1")
        assert said[3].startswith("└─ writer ")
        await print_trees(Options(json=True))
        [told] = json.loads(capfd.readouterr().out)
        assert told["tree"]["agents"][0]["children"][0]["name"] == "writer"
        handle.kill()
        nursery.cancel_scope.cancel()
    assert [*folder.iterdir()] == []
    await print_trees(Options())
    assert capfd.readouterr().out == "no agents are running\n"


async def test_a_socket_of_a_process_that_is_gone_is_removed(folder):
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(folder / "12345.sock"))
    (folder / "notes.sock").touch()
    assert await read_trees() == []
    assert [path.name for path in folder.iterdir()] == ["notes.sock"]


async def test_each_runtime_of_a_process_is_told_of(folder):
    async with (
        AgentRuntime(InMemoryStore()) as first,
        AgentRuntime(InMemoryStore()) as second,
        trio.open_nursery() as nursery,
    ):
        async with trio.open_nursery() as inner:
            nursery.start_soon(serve_tree, first)
            inner.start_soon(serve_tree, second)
            await trio.testing.wait_all_tasks_blocked()
            assert [each.pid for each in await read_trees()] == [os.getpid()] * 2
            inner.cancel_scope.cancel()
        assert [each.pid for each in await read_trees()] == [os.getpid()]
        nursery.cancel_scope.cancel()


async def test_a_folder_that_others_may_write_to_is_not_used(folder, caplog):
    folder.mkdir()
    folder.chmod(0o777)
    async with AgentRuntime(InMemoryStore()) as runtime:
        with caplog.at_level("INFO"), trio.fail_after(60):
            await serve_tree(runtime)
    assert "others may write to" in caplog.text
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(folder / "12345.sock"))
        own.listen()
        assert await read_trees() == []


async def test_a_socket_that_can_not_be_opened_is_left_alone(folder):
    folder.mkdir(mode=0o700)
    with socket.socket(
        socket.AF_UNIX, socket.SOCK_DGRAM
    ) as own:  # stands for EMFILE, EACCES and others
        own.bind(str(folder / "12345.sock"))
        assert [each.text for each in await read_trees()] == [""]
    assert len([*folder.iterdir()]) == 1


async def test_who_does_not_answer_is_listed_all_the_same(folder, capfd, autojump_clock):
    folder.mkdir(mode=0o700)
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(folder / "12345.sock"))
        own.listen()
        await print_trees(Options())
    assert capfd.readouterr().out == "process 12345\nit does not answer\n"


async def test_where_no_socket_can_be_made_the_agents_run_all_the_same(monkeypatch, caplog):
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/" + "x" * 200)
    async with AgentRuntime(InMemoryStore()) as runtime:
        with caplog.at_level("INFO"):
            await serve_tree(runtime)
    assert "is too long for a socket" in caplog.text


async def test_the_folders_that_it_makes_are_for_this_user_alone(monkeypatch, folder):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder.parent / "new"))
    async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        nursery.start_soon(serve_tree, runtime)
        await trio.testing.wait_all_tasks_blocked()
        made = (live_folder(), live_folder().parent)
        assert {stat.S_IMODE(each.stat().st_mode) for each in made} == {0o700}
        nursery.cancel_scope.cancel()


def test_the_command_lists_what_runs(run):
    assert run("tree").out == "no agents are running\n"


def test_a_headless_run_tells_its_tree(run, folder):
    ask = f"run {sys.executable} -m greenroom tree"
    done = run("-p", ask, "--permission-mode", "bypass", XDG_RUNTIME_DIR=str(folder.parent))
    assert f"process {os.getpid()}\n1 agent\n" in done.out
    assert "executing tool: Bash" in done.out
