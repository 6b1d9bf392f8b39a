"""The stages of a turn: each move is in the table, and no other is made."""

import pytest
import trio

from greenroom import AgentRuntime, AgentSession, InMemoryStore, TextBlock, UserInput
from greenroom.core import TurnError
from greenroom.runtime.turn import Stage, may_open, move

MOVES = {
    ("queued", "taken"),
    ("queued", "dropped"),
    ("taken", "handed on"),
    ("taken", "open"),
    ("taken", "queued"),
    ("taken", "dropped"),
    ("handed on", "open"),
    ("handed on", "queued"),
    ("handed on", "dropped"),
    ("dropped", "open"),
    ("open", "ending"),
    ("ending", "closed"),
}


@pytest.mark.parametrize("before", Stage)
@pytest.mark.parametrize("after", Stage)
def test_a_turn_moves_as_the_table_says(before, after):
    if (before, after) in MOVES:
        assert move(before, after) is after
    else:
        with pytest.raises(TurnError, match=f"a turn that is {before} does not become {after}"):
            move(before, after)


def test_a_turn_is_opened_once():
    assert {stage for stage in Stage if may_open(stage)} == {"taken", "handed on", "dropped"}


async def run(agent_fn):
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("agent"), agent_fn)
        await handle.send_input("one")
        await handle.send_input("two")
        with trio.fail_after(60):
            return (await handle.wait()).value


async def test_the_stages_of_a_turn_that_is_opened():
    async def agent_fn(agent):
        seen = []
        turn = agent.turn(await anext(agent.inputs()))
        seen.append(turn.stage)
        async with turn:
            seen.append(turn.stage)
        return [*seen, turn.stage]

    assert await run(agent_fn) == ["taken", "open", "closed"]


async def test_the_stages_of_turns_that_are_not():
    async def agent_fn(agent):
        inputs = agent.inputs()
        first = agent.turn(await anext(inputs))
        second = agent.turn(await anext(inputs))  # the first input was answered without a turn
        own = agent.turn(UserInput((TextBlock("mine"),)))
        return [first.stage, second.stage, own.stage]

    assert await run(agent_fn) == ["dropped", "taken", "taken"]
