"""A suspended turn waits for an answer, and leaves what a kill at the question would have."""

import pytest
import trio
import trio.testing

from greenroom.core import Message, Resume, ToolUseBlock, TurnError, TurnStatus
from greenroom.core._internal import StateKind
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from tests.session.accepted import check_accepted

CALLS = Message.assistant([ToolUseBlock(id_, "deploy", {}) for id_ in ("a", "b")])


def suspending(body):
    """Make an agent that does this in a turn with two open calls, and then waits for input."""

    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                if not isinstance(message, Resume):
                    agent.session.add_message(CALLS)
                    await body(agent, turn)

    return agent


async def suspend(agent, turn):
    turn.suspend()


async def run(body, session=None):
    session = AgentSession.new("coder", store=InMemoryStore()) if session is None else session
    async with AgentRuntime(store=session.store) as runtime:
        handle = runtime.spawn(session, suspending(body))
        result = await handle.ask("go")
        assert handle.state.kind is StateKind.IDLE
    return session, result


async def test_it_waits_with_its_calls_open_and_everything_saved():
    session, result = await run(suspend)
    assert (result.status, result.error) == (TurnStatus.WAITING, "")
    assert session.is_saved
    assert session.history[-1] == CALLS
    loaded = await AgentSession.load(session.session_id, store=session.store, keep_open=True)
    assert [each.id for each in loaded.unstarted] == ["a", "b"]
    assert loaded.history == session.history


async def test_what_has_started_is_answered_and_the_rest_stays_open():
    async def body(agent, turn):
        agent.session.mark_tools_started(["a"])
        turn.suspend()

    session, result = await run(body)
    assert result.status is TurnStatus.WAITING
    (answer,) = session.history[-1].tool_results
    assert (answer.tool_use_id, "outcome is unknown" in answer.text) == ("a", True)
    assert [each.id for each in session.unstarted] == ["b"]


async def test_where_nothing_is_open_the_turn_completes():
    async def body(agent, turn):
        turn.suspend()
        agent.session.conversation.pair_tool_uses("done")

    assert (await run(body))[1].status is TurnStatus.COMPLETED


@pytest.mark.parametrize("status", [TurnStatus.INTERRUPTED, TurnStatus.FAILED])
async def test_an_interrupt_and_an_error_end_it_as_ever(status):
    async def body(agent, turn):
        turn.suspend()
        if status is TurnStatus.FAILED:
            raise TurnError("no")
        turn.interruption.order("now", 1)
        await trio.lowlevel.checkpoint()

    session, result = await run(body)
    assert result.status is status
    assert session.unstarted == ()
    check_accepted(session.history)


async def test_here_the_next_input_answers_the_calls_as_not_run():
    session = AgentSession.new("coder", store=InMemoryStore())
    seen = []

    async def agent(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                seen.append(type(message).__name__)
                if len(seen) == 1:
                    agent.session.add_message(CALLS)
                    turn.suspend()

    async with AgentRuntime(store=session.store) as runtime:
        handle = runtime.spawn(session, agent)
        await handle.ask("go")
        assert (await handle.ask("on")).status is TurnStatus.COMPLETED
    assert seen == ["UserInput", "UserInput"]
    assert all("was not started" in each.text for each in session.history[2].tool_results)
    check_accepted(session.history)


async def test_a_subagents_turn_is_refused_and_so_is_one_that_is_not_open():
    problems = []

    async def child(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                with pytest.raises(TurnError, match="subagent") as caught:
                    turn.suspend()
                problems.append(caught.value.hint)

    async def parent(agent):
        async for message in agent.inputs():
            turn = agent.turn(message)
            with pytest.raises(TurnError, match="not open"):
                turn.suspend()
            async with turn:
                handle = agent.spawn(AgentSession.new("child"), child)
                assert (await handle.ask("go")).status is TurnStatus.COMPLETED
            with pytest.raises(TurnError, match="not open"):
                turn.suspend()

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("parent"), parent)
        assert (await handle.ask("go")).error == ""
        await handle.shutdown()
        await handle.wait(check=True)
    assert "root" in problems[0]


async def test_a_subagent_that_the_turn_spawned_ends_with_it():
    ended = []

    async def child(agent):
        try:
            await trio.sleep_forever()
        finally:
            ended.append(agent.session.session_id)

    async def body(agent, turn):
        agent.spawn(AgentSession.new("child"), child)
        await trio.testing.wait_all_tasks_blocked()
        turn.suspend()

    _, result = await run(body)
    assert result.status is TurnStatus.WAITING
    assert len(ended) == 1


async def test_a_budget_of_time_that_is_not_spent_has_nothing_to_say(autojump_clock):
    session = AgentSession.new("coder", store=InMemoryStore())

    async def ask(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                agent.session.add_message(CALLS)
                await agent.request_permission("deploy", "Deploy", tool_use_id="a")

    async def agent(agent):
        with agent.budget(seconds=3600):
            await ask(agent)

    async with AgentRuntime(store=session.store) as runtime:
        handle = runtime.spawn(session, agent, unattended="suspend")
        result = await handle.ask("go")
    assert (result.status, result.error) == (TurnStatus.WAITING, "")
