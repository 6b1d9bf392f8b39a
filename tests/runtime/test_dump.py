"""The dump: the tree and the stacks, by a call and by a signal, also while the loop is blocked."""

import io
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.core import ConfigurationError
from greenroom.runtime import AgentRuntime, introspection
from greenroom.session import AgentSession, InMemoryStore


def new(id_=None):
    return AgentSession.new("worker", session_id=id_)


async def idle(agent):
    async for _ in agent.inputs():
        pass


async def sleeping_tool():
    await trio.sleep(100)


async def busy(agent):
    agent.spawn(new("s-child"), idle, name="child")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(sleeping_tool, name="a tool\x1b[2J")
        await trio.sleep_forever()


async def dumped(runtime):
    await wait_all_tasks_blocked()
    file = io.StringIO()
    runtime.dump(file)
    return file.getvalue()


async def test_it_shows_the_tree_and_where_each_task_of_each_agent_waits(runtime):
    runtime.spawn(new("s-boss"), busy, name="boss")
    text = await dumped(runtime)
    tree, boss, tool, child = text.split("\n\n")
    assert tree == str(runtime.tree())
    assert boss.startswith("boss (s-boss), task 'agent boss':\n")
    assert "await trio.sleep_forever()" in boss
    assert tool.startswith("boss (s-boss), task 'a tool\\x1b[2J':\n")
    assert "in sleeping_tool\n    await trio.sleep(100)\n" in tool
    assert child.startswith("boss/child (s-child), task 'agent child':\n")
    assert "in idle\n" in child
    assert child.endswith("\n")


async def test_without_a_file_it_goes_to_the_standard_error_of_the_moment(runtime, capsys):
    runtime.spawn(new("s-1"), idle)
    runtime.dump()
    assert capsys.readouterr().err.startswith("1 agent\nworker s-1 · idle")


async def test_an_agent_that_has_not_begun_and_one_that_has_ended_have_no_stack(runtime):
    ended = runtime.spawn(new(), idle)
    await ended.shutdown()
    runtime.spawn(new("s-1"), idle)
    file = io.StringIO()
    runtime.dump(file)
    assert "task" not in file.getvalue()


async def test_it_can_be_written_whenever_a_signal_comes(runtime):
    """Before and after every call that trio or the runtime makes meanwhile."""
    files, is_writing = [], False

    def interrupt(_frame, _event, _argument):
        nonlocal is_writing
        if not is_writing:
            is_writing = True
            files.append(io.StringIO())
            runtime.dump(files[-1])
            is_writing = False

    async def with_a_nursery(agent):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0)

    handle = runtime.spawn(new(), with_a_nursery)
    sys.setprofile(interrupt)
    try:
        await handle.wait()
    finally:
        sys.setprofile(None)
    assert all(file.getvalue() for file in files)
    assert any("with_a_nursery" in file.getvalue() for file in files)


async def test_stacks_are_bounded_one_by_one_and_together(runtime, monkeypatch):
    async def deep(agent, depth=50):
        if depth:
            await deep(agent, depth - 1)
        await trio.sleep_forever()

    for _ in range(5):
        runtime.spawn(new(), deep)
    text = await dumped(runtime)
    assert text.count("line repeated 2") == 5  # of fifty frames not even thirty
    assert text.count("in sleep_forever") == 5
    assert "in run_agent" not in text
    monkeypatch.setattr(introspection, "_CHARACTERS", 1)
    text = await dumped(runtime)
    assert text.count("in sleep_forever") == 1
    assert text.endswith("\n\n… the stacks of 4 agents left out\n")


async def test_a_signal_writes_it_and_the_former_handler_comes_back(runtime):
    seen = []
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append("former"))
    try:
        runtime.spawn(new("s-1"), idle)
        await wait_all_tasks_blocked()
        file = io.StringIO()
        with runtime.dump_on_signal(signal.SIGUSR1, file):
            for _ in range(2):
                os.kill(os.getpid(), signal.SIGUSR1)
                await trio.lowlevel.checkpoint()
        assert "task 'agent worker'" in file.getvalue()
        assert file.getvalue().count("The event loop's thread is here:\n") == 2
        assert seen == []
        os.kill(os.getpid(), signal.SIGUSR1)
        await trio.lowlevel.checkpoint()
        assert seen == ["former"]
    finally:
        signal.signal(signal.SIGUSR1, before)


async def test_a_dump_that_cannot_be_written_is_logged_and_raises_nowhere(runtime, caplog):
    class Full(io.StringIO):
        def write(self, text):
            raise OSError(28, "No space left on device")

    with runtime.dump_on_signal(signal.SIGUSR1, Full()):
        os.kill(os.getpid(), signal.SIGUSR1)
        await trio.lowlevel.checkpoint()
    assert [each.message for each in caplog.records] == ["the dump could not be written"]
    assert caplog.records[0].levelno == logging.ERROR


def test_another_thread_than_the_main_one_is_refused():
    errors = []

    def run():
        try:
            trio.run(main)
        except ConfigurationError as error:
            errors.append(error)

    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            with runtime.dump_on_signal(signal.SIGUSR1):
                pass

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in str(errors[0])


async def test_a_signal_that_cannot_be_handled_is_refused(runtime):
    with pytest.raises(ConfigurationError, match="signal 9 can't be handled"):
        with runtime.dump_on_signal(signal.SIGKILL):
            pass


PROGRAM = """
    import os, signal, sys, time
    import trio
    from greenroom import AgentRuntime, AgentSession, InMemoryStore

    async def here(agent):
        print("ready", flush=True)
        {body}

    async def main():
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            with runtime.dump_on_signal(signal.SIGUSR1):
                handle = runtime.spawn(AgentSession.new("w", session_id="s-1"), here)
                await handle.wait(check=True)

    trio.run(main)
"""


def read_until(stream, words):
    """Read up to the line that holds the words, which must come."""
    lines = []
    for line in stream:
        lines.append(line)
        if words in line:
            return lines
    raise AssertionError(f"{words!r} never came: {lines}")


@pytest.mark.parametrize(
    "body", ["await trio.sleep_forever()", "sys.stdin.read()", "while True: pass"]
)
def test_a_real_signal_shows_where_a_process_is(body, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM).format(body=body))
    with subprocess.Popen(
        [sys.executable, program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        safety_net = threading.Timer(60, process.kill)
        safety_net.start()
        try:
            read_until(process.stdout, "ready")
            process.send_signal(signal.SIGUSR1)
            assert "1 agent\n" in read_until(process.stderr, ", in here\n")
        finally:
            safety_net.cancel()
            process.kill()
