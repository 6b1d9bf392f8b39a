"""A command that stays: it outlives its call and an interrupt, not its agent; its end is told once.

The processes are real, and so is the clock.
"""

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio
import trio.testing

from greenroom.core import Custom, Done, PermissionRequest, TextDelta, ToolEnd, ToolStart
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import Sandbox, ToolRegistry, builtin_tools
from tests.agents.loops import simple_loop
from tests.session.accepted import check_accepted
from tests.tools.builtin.test_bash import marked, marker

ROUNDS = max(1, int(os.environ.get("GREENROOM_EXAMPLES", "10")) // 10)


def stay(command):
    return call("Bash", command=command, run_in_background=True)


def about(name, **given):
    """A call about the command that was started last."""

    def reply(request):
        ids = [word for message in request.messages for word in words_of(message)]
        return call(name, bash_id=[each for each in ids if each.startswith("bash-")][-1], **given)

    return reply


def words_of(message):
    return " ".join(each.text for each in message.tool_results).replace(".", " ").split()


class Desk:
    """An agent with the built-in tools."""

    def __init__(self, folder, *script, sandbox=None, store=None, session=None, rules=None):
        self.folder, self.store = folder, store or InMemoryStore()
        self.session = session or AgentSession.new("worker")
        tools = ToolRegistry(builtin_tools(sandbox=sandbox))
        mode = "bypass" if rules is None else "default"
        self.arguments = ScriptedProvider(*script), tools, PermissionManager(rules or (), mode=mode)

    async def __aenter__(self):
        self.runtime = AgentRuntime(store=self.store, workspace=self.folder)
        await self.runtime.__aenter__()
        self.handle = self.runtime.spawn(self.session, simple_loop, *self.arguments)
        self.chunks = self.handle.subscribe("all")
        return self

    async def __aexit__(self, *error):
        await self.runtime.__aexit__(*error)

    async def next(self, kind):
        with trio.fail_after(60):
            async for chunk in self.chunks:
                if isinstance(chunk, kind):
                    return chunk
        raise AssertionError("the agent has ended")


def told_in(history):
    """How often the conversation was told of the end of each command."""
    texts = [message.text for message in history if message.sender == "Bash"]
    return Counter(text.split("command ")[1].split()[0] for text in texts)


def begun_in(history):
    """The commands that calls have left running."""
    texts = [each.text for message in history for each in message.tool_results]
    return [text.split(" as ")[1].split(".")[0] for text in texts if "in the background as" in text]


async def until(is_true):
    """Wait for something outside of this process."""
    with trio.fail_after(60):
        while not is_true():  # noqa: ASYNC110 (nothing tells us)
            await trio.sleep(0.01)


async def gone(mark):
    """Check that no process has the mark; a killed one may take a moment to be reaped."""
    await until(lambda: not marked(mark))


async def test_it_stays_after_its_turn_is_read_and_killed(tmp_path):
    mark = marker()
    read = [about("BashOutput"), "So far."] * 2
    again = about("BashOutput", position=0, filter="two")
    script = [stay(f"seq 3; echo two; touch ready; exec sleep {mark}"), "Runs.", *read]
    script += [again, "Two."]
    async with Desk(tmp_path, *script, about("BashKill"), "Killed.") as desk:
        await desk.handle.ask("go")
        await desk.next(ToolEnd)
        await until(lambda: marked(mark))
        await until((tmp_path / "ready").exists)
        await trio.testing.wait_all_tasks_blocked(0.05)
        texts = []
        for question in ("read", "read", "again", "kill"):
            await desk.handle.ask(question)
            texts.append((await desk.next(ToolEnd)).result.text)
        history = await desk.handle.history()
        assert not marked(mark)
    assert texts[0] == "1\n2\n3\ntwo\n[running]\n[position 10]"
    assert texts[1] == "(no new output)\n[running]\n[position 10]"
    assert texts[2] == "two\n[running]\n[position 10]"
    assert "was ended" in texts[3]
    assert told_in(history) == {}
    check_accepted(history)


async def test_its_output_has_no_codes_for_a_terminal(tmp_path):
    draw = r"printf '10%%\r100%%\n\033[31mred\033[0m\n'"
    script = [stay(f"{draw}; touch ready; exec sleep {marker()}"), "Runs."]
    async with Desk(tmp_path, *script, about("BashOutput"), "So far.") as desk:
        await desk.handle.ask("go")
        await desk.next(ToolEnd)
        await until((tmp_path / "ready").exists)
        await trio.testing.wait_all_tasks_blocked(0.05)
        await desk.handle.ask("read")
        text = (await desk.next(ToolEnd)).result.text
    assert text.startswith("100%\nred\n[running]\n")


async def test_its_end_is_an_input_of_the_sender_bash(tmp_path):
    script = [stay("sleep 0.2; echo done; exit 3"), "It runs.", "It has ended."]
    async with Desk(tmp_path, *script) as desk:
        await desk.handle.ask("go")
        await desk.next(Done)
        await desk.next(Done)
        history = await desk.handle.history()
    (message,) = [each for each in history if each.sender == "Bash"]
    assert "has ended: exit code 3]\nThe end of its output:\ndone" in message.text
    assert history[-1].text == "It has ended."


async def test_what_it_has_left_running_is_said_with_its_end(tmp_path):
    async with Desk(tmp_path, stay(f"(sleep {marker()} &)"), "It runs.", "Ended.") as desk:
        await desk.handle.ask("go")
        await desk.next(Done)
        await desk.next(Done)
        history = await desk.handle.history()
    (message,) = [each for each in history if each.sender == "Bash"]
    assert "has ended: exit code 0; what it left running was killed]" in message.text


async def test_an_interrupt_leaves_it_and_the_agents_end_kills_it_and_says_so(tmp_path):
    mark, store = marker(), FileStore(tmp_path / "sessions")
    script = [stay(f"sleep {mark} & sleep {mark}"), Reply("thinking", hangs=True)]
    async with Desk(tmp_path, *script, store=store) as desk:
        await desk.handle.send_input("go")
        await desk.next(TextDelta)
        await desk.handle.interrupt()
        await until(lambda: len(marked(mark)) >= 4)
        await desk.handle.shutdown()
        assert not marked(mark)
        ended = await desk.next(Custom)
    assert (ended.kind, ended.data["sender"]) == ("background.ended", "Bash")
    assert "was ended with the agent" in ended.text
    session = await AgentSession.load(desk.session.session_id, store=store)
    for _ in range(2):  # told once
        async with Desk(tmp_path, "Hm.", store=store, session=session) as desk:
            await desk.handle.ask("go on")
            history = await desk.handle.history()
        session = await AgentSession.load(session.session_id, store=store)
    assert told_in(history) == dict.fromkeys(begun_in(history), 1)


async def test_eight_run_at_a_time_and_each_is_judged_as_any_command(tmp_path):
    mark = marker()
    calls = [stay(f"sleep {mark}") for _ in range(9)]
    async with Desk(tmp_path, Reply(calls), "Runs.") as desk:
        await desk.handle.ask("go")
        results = [(await desk.next(ToolEnd)).result for _ in calls]
        assert sum("8 background commands are running" in each.text for each in results) == 1
    await gone(mark)
    rules = [PermissionRule.deny_command("sleep")]
    async with Desk(tmp_path, stay(f"sleep {mark}"), "No.", rules=rules) as desk:
        await desk.handle.ask("go")
        assert (await desk.next(ToolEnd)).result.status == "denied"
    async with Desk(tmp_path, stay(f"make {mark}"), "No.", rules=[]) as desk:
        await desk.handle.send_input("go")
        request = await desk.next(PermissionRequest)
        assert request.action == "Run a command in the background"
        await desk.handle.respond_permission(request.request_id, "deny")
        await desk.next(Done)
    assert not marked(mark)


async def test_a_machine_that_refuses_a_process_ends_the_command_and_not_the_agent(
    tmp_path, monkeypatch
):
    async def refuse(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("greenroom.tools.builtin.background.run_contained", refuse)
    async with Desk(tmp_path, stay("sleep 1"), "It can't run.", "Here.") as desk:
        await desk.handle.ask("go")
        end = await desk.next(ToolEnd)
        assert end.result.is_error
        assert "Resource temporarily unavailable" in end.result.text
        assert (await desk.handle.ask("Are you there?")).text == "Here."


async def test_in_a_sandbox_nothing_of_it_is_left_either(tmp_path):
    mark = marker()
    script = [stay(f"setsid sleep {mark} & sleep {mark}"), "Runs."]
    async with Desk(tmp_path, *script, sandbox=Sandbox()) as desk:
        await desk.handle.ask("go")
        await desk.next(ToolEnd)
        await until(lambda: len(marked(mark)) >= 2)
    await gone(mark)


PROGRAM = """
import sys, trio
from greenroom.session import AgentSession, FileStore
from tests.agents.test_background_commands import Desk, stay

async def main(folder, mark):
    store = FileStore(folder + "/sessions")
    async with Desk(folder, stay("sleep " + mark), "Runs.", store=store) as desk:
        await desk.handle.ask("go")
        print(desk.session.session_id, flush=True)
        await trio.sleep_forever()

trio.run(main, *sys.argv[1:])
"""


async def test_after_a_kill_of_the_program_nothing_is_left_and_it_is_told_once(tmp_path):
    mark, store = marker(), FileStore(tmp_path / "sessions")
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), mark]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE)
    with trio.fail_after(60):
        session_id = (await process.stdout.receive_some()).decode().strip()
        await until(lambda: marked(mark))
        process.kill()
        await process.wait()
    await process.stdout.aclose()
    await gone(mark)
    for _ in range(2):
        session = await AgentSession.load(session_id, store=store)
        async with Desk(tmp_path, "Hm.", store=store, session=session) as desk:
            await desk.handle.ask("go on")
            history = await desk.handle.history()
    assert list(told_in(history).values()) == [1]
    check_accepted(history)


async def test_a_fork_is_told_that_it_belongs_to_the_other_conversation(tmp_path):
    mark, store = marker(), FileStore(tmp_path / "sessions")
    async with Desk(tmp_path, stay(f"sleep {mark}"), "Runs.", store=store) as desk:
        await desk.handle.ask("go")
        fork = await desk.session.fork()
        async with Desk(tmp_path, "Hm.", store=store, session=fork) as other:
            await other.handle.ask("And you?")
            history = await other.handle.history()
        await until(lambda: marked(mark))
    (message,) = [each for each in history if each.sender == "Bash"]
    assert message.text.endswith("belongs to the conversation that this one was forked from]")


# --- Kills, interrupts and ends at random moments ------------------------------------------------


def random_turns(dice, mark):
    """A script of some turns that start commands, and end some of them."""
    for _ in range(dice.randint(1, 3)):
        commands = [
            f"sleep 0.0{dice.randint(0, 9)} {'; exit 1' * dice.randint(0, 1)} # {mark}"
            if dice.random() < 0.5
            else f"sleep {mark} & sleep {mark}"
            for _ in range(dice.randint(1, 3))
        ]
        yield Reply([stay(each) for each in commands])
        if dice.random() < 0.4:
            yield about("BashKill")
        yield "So be it."
    yield from ["I see."] * 12


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_at_random_moments_no_process_is_left_and_each_end_is_told_once(seed, tmp_path):
    dice, mark, store = random.Random(seed), marker(), FileStore(tmp_path / "sessions")
    async with Desk(tmp_path, *random_turns(dice, mark), store=store) as desk:
        for _ in range(3):
            await desk.handle.send_input("go")
        await desk.next(ToolStart)
        for _ in range(dice.randint(0, 2)):
            await trio.sleep(dice.random() / 5)
            await desk.handle.interrupt()
        await trio.sleep(dice.random() / 3)
        match dice.choice(["kill", "shutdown", "leave"]):
            case "kill":
                desk.handle.kill()
            case "shutdown":
                await desk.handle.shutdown(grace=0.1)
    outcome = await desk.handle.wait()
    left = [Path(f"/proc/{pid}/status").read_text() for pid in marked(mark)]
    assert left == []
    session = await AgentSession.load(desk.session.session_id, store=store)
    async with Desk(tmp_path, *["Hm."] * 9, store=store, session=session) as desk:
        await desk.handle.ask("go on")
        history = await desk.handle.history()
    killed = {
        text.split()[0]
        for message in history
        for text in (each.text for each in message.tool_results)
        if "was ended, with all" in text
    }
    told = told_in(history)
    for id_ in begun_in(history):
        assert told[id_] + (id_ in killed) == 1, (seed, id_, outcome)
    check_accepted(history)


async def test_it_is_said_that_it_runs_in_another_folder(tmp_path):
    script = [call("Bash", command="mkdir sub; cd sub"), "There."]
    script += [stay(f"sleep {marker()}"), "Runs."]
    async with Desk(tmp_path, *script) as desk:
        await desk.handle.ask("go")
        await desk.next(ToolEnd)
        (tmp_path / "sub").rmdir()
        await desk.handle.ask("stay")
        text = (await desk.next(ToolEnd)).result.text
    assert text.endswith(f"sub is gone; the command ran in {tmp_path}]")
