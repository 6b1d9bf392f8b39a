"""After a kill or power cut during a compaction, the old conversation is there or the new one."""

import random
import signal
from contextlib import asynccontextmanager
from functools import partial
from types import SimpleNamespace

import pytest
import trio

from greenroom import AgentSession, FileStore, Message
from greenroom.core import AgentContext, TextBlock, ToolResultBlock, ToolUseBlock
from greenroom.memory import Compactor, ContextBudget
from greenroom.testing import ScriptedProvider
from tests.session.faults.life import FOLDER, installed, new_disk
from tests.session.faults.simulated_disk import Crash
from tests.warm_python import run_warm

WORDS = "The quick brown fox jumps over the lazy dog near the old river bank. " * 8
BUDGET = ContextBudget(3_000, reply=500)


class Internals:
    """An agent, as far as a compactor knows one; it notes each conversation that there was."""

    def __init__(self, session):
        self.session = session
        self.context = AgentContext(session_id="s-1", agent_type="coder")
        self.known = [session.history]

    async def send(self, chunk):
        self.send_nowait(chunk)

    def send_nowait(self, chunk):
        self.known.append(self.session.history)

    @asynccontextmanager
    async def model_call(self, llm, request, count):
        yield SimpleNamespace()


def talk():
    """A conversation for which notes are needed."""
    for number in range(9):
        yield Message.user(f"Question {number}. {WORDS}")
        yield Message.assistant(f"Answer {number}. {WORDS}")


def conversation_with_results():
    """A conversation whose results can shrink."""
    yield Message.user("Read them all.")
    for number in range(6):
        yield Message.assistant([ToolUseBlock(f"c{number}", "Read", {})])
        yield Message.user([ToolResultBlock(f"c{number}", (TextBlock(WORDS * 3),))])
    yield Message.assistant("Done.")


def conversation_with_long_end():
    """A conversation whose last message is too long by itself."""
    yield from talk()
    yield Message.user(WORDS * 20)


async def life(messages, crash_at, disk):
    """Compact a stored conversation on a disk; return its versions, and whether it survived."""
    session = AgentSession.new("agent", session_id="mine", store=FileStore(FOLDER))
    for message in messages():
        session.add_message(message)
    await session.save()
    internals = Internals(session)
    disk.restart()
    disk.crash_at = crash_at
    try:
        await Compactor(ScriptedProvider("notes"), BUDGET).prepare(internals)
    except Crash:
        return [*internals.known, session.history], False
    await session.close()
    return [*internals.known, session.history], True


@pytest.mark.parametrize("cut", ["kill", "lose_power"])
@pytest.mark.parametrize("messages", [talk, conversation_with_results, conversation_with_long_end])
async def test_whenever_a_compaction_breaks_off_a_whole_conversation_is_there(messages, cut):
    crash_at, has_survived, found = 0, False, set()
    while not has_survived:
        crash_at += 1
        disk = new_disk("strict", random.Random(crash_at))
        with installed(disk):
            known, has_survived = await life(messages, crash_at, disk)
            getattr(disk, cut)()
            disk.restart()
            session = await AgentSession.load("mine", store=FileStore(FOLDER))
        has_notes = session.history[1:] == known[0][-1:]  # and the last message is cut next
        assert session.history in known or has_notes
        found.add(session.history == known[0])
    assert found == {True, False}
    assert crash_at > 3


PROCESS = """
import os, signal, sys, trio
from greenroom import AgentRuntime, AgentSession, FileStore, stream_reply
from greenroom.memory import Compactor, ContextBudget
from greenroom.testing import ScriptedProvider

WORDS = "The quick brown fox jumps over the lazy dog near the old river bank. " * 8
folder, place = sys.argv[1:]

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def answer(request):
    is_summary = "You keep the notes" in str(request.system)
    return die() if is_summary and place == "notes" else "ok" if is_summary else WORDS

class Memory:
    add = die

async def agent(internals):
    llm = ScriptedProvider(*[answer] * 99)
    compactor = Compactor(llm, ContextBudget(3_000, reply=500), memory=Memory())
    async for message in internals.inputs():
        async with internals.turn(message):
            await stream_reply(internals, llm, compactor=compactor)

async def main():
    store = FileStore(folder)
    async with AgentRuntime(store) as runtime:
        handle = runtime.spawn(AgentSession.new("agent", session_id="mine", store=store), agent)
        for number in range(40):
            await handle.ask(f"Question {number}.")

trio.run(main)
"""


@pytest.mark.parametrize(("place", "sender"), [("notes", ""), ("memory", "summary")])
def test_a_killed_process_leaves_the_old_conversation_or_the_new_one(place, sender, tmp_path):
    code, _, errors = run_warm(["-c", PROCESS, tmp_path, place], tmp_path, {})
    assert code == -signal.SIGKILL, errors
    session = trio.run(partial(AgentSession.load, "mine", store=FileStore(tmp_path)))
    assert session.history[0].sender == sender
    asked = "\n".join(message.text for message in session.history if message.role == "user")
    last = int(asked.rsplit("Question ", 1)[1].split(".")[0])
    assert [n for n in range(last + 1) if f"Question {n}." not in asked] == []
