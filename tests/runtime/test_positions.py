"""A reader's position outlives its agent: what comes later is read once, and what is lost is said.

    GREENROOM_POSITIONS=long pytest tests/runtime/test_positions.py

tries a thousand readers over twelve lives each, with seeds of its own.
"""

import os
import random
import secrets
import subprocess
import sys

import pytest
import trio

from greenroom.core import Exited, Lagged
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, FileStore, InMemoryStore, SQLiteStore
from tests.runtime.positions import Play, Reader, live

IS_LONG = os.environ.get("GREENROOM_POSITIONS") == "long"
READERS = 340 if IS_LONG else 20
LIVES = 12 if IS_LONG else 3


async def says_ok(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            pass


async def spawned(runtime, session_id="mine"):
    handle = runtime.spawn(AgentSession.new("worker", session_id=session_id), says_ok)
    await handle.ask("hi")
    return handle


async def test_a_position_of_an_earlier_process_is_told_that_nobody_knows_what_it_missed(runtime):
    handle = await spawned(runtime)
    reader = handle.subscribe((1, 1004))
    assert await anext(reader) == Lagged(None)
    assert reader.position == (handle.subscribe("none").position[0], 0)


async def test_an_agent_that_was_spawned_again_has_another_epoch(runtime, store):
    epochs = []
    for _ in range(3):
        handle = await spawned(runtime)
        await handle.shutdown()
        epochs.append(handle.subscribe("none").position[0])
        await AgentSession.delete("mine", store=store)
    assert epochs == sorted(set(epochs))


async def test_a_position_of_before_the_lock_is_kept(runtime):
    handle = runtime.spawn(AgentSession.new("worker"), says_ok)
    early = handle.subscribe("none").position
    await handle.ask("hi")
    assert handle.subscribe("none").position[0] > early[0]
    assert not isinstance(await anext(handle.subscribe(early)), Lagged)


async def test_two_agents_that_never_got_the_lock_are_told_apart(store):
    holder = AgentSession.new("worker", session_id="mine", store=store)
    await holder.open()
    positions = []
    for _ in range(2):
        async with AgentRuntime(store=store) as runtime:
            handle = runtime.spawn(AgentSession.new("worker", session_id="mine"), says_ok)
            await handle.wait()
            if positions:
                assert await anext(handle.subscribe(positions[0])) == Lagged(None)
            reader = handle.subscribe("all")
            assert isinstance([chunk async for chunk in reader][-1], Exited)
            positions.append(reader.position)
    await holder.close()


def play_elsewhere(kind, path, play):
    command = [sys.executable, "-m", "tests.runtime.positions", kind, str(path)]
    done = subprocess.run(
        command, input=play.write(), capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return Play.read(done.stdout)


@pytest.mark.parametrize("kind", ["memory", "files", "sqlite"])
def test_readers_over_many_lives_read_each_chunk_once_and_are_told_what_they_miss(kind, tmp_path):
    seed = secrets.randbits(32) if IS_LONG else 7
    print("seed", seed)
    rng = random.Random(seed)
    readers = [Reader() for _ in range(READERS)]
    memory, path = InMemoryStore(), tmp_path / "sessions"
    for life in range(LIVES):
        play = Play(life, rng.randrange(1 << 30), readers)
        if kind != "memory" and life % 2:
            readers = play_elsewhere(kind, path, play).readers
        else:
            store = {"memory": lambda: memory, "files": lambda: FileStore(path),
                     "sqlite": lambda: SQLiteStore(path)}[kind]()  # fmt: skip
            trio.run(live, store, play)
    assert max(reader.life for reader in readers) == LIVES - 1
