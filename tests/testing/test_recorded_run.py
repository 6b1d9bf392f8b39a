"""One call runs an agent through its whole life; what went wrong is said clearly."""

import pytest
import trio
from trio.testing import MockClock

from greenroom.agents import coder
from greenroom.core import (
    Done,
    Exited,
    Lagged,
    Message,
    SubAgentSpawned,
    TextBlock,
    TextDelta,
    ToolEnd,
    TurnStart,
    TurnStatus,
)
from greenroom.core._internal import EndStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import RuntimeLimits
from greenroom.session import AgentSession, FileStore, InMemoryStore
from greenroom.testing import ScriptedApprover, ScriptedProvider, call, run_agent
from greenroom.testing._internal import AgentRunError, run_agent_async
from greenroom.tools import ToolRegistry, tool


@tool(timeout=7200)
async def bake(loaves: int = 1) -> str:
    """Bake bread."""
    await trio.sleep(3600 * loaves)
    return f"{loaves} baked"


TOOLS = ToolRegistry([bake])
ALLOWED = PermissionManager([PermissionRule.allow_tool("bake")])
ASKING = PermissionManager()


async def echo(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await agent.send(TextDelta(message.text))
            agent.session.add_message(Message.assistant(f"you said {message.text}"))


async def stuck(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep_forever()


def test_hours_pass_in_no_time_and_everything_that_came_of_it_is_there():
    model = ScriptedProvider(call("bake"), "Here you are.")
    run = run_agent(coder, model, TOOLS, ALLOWED, inputs="Bread, please.")
    assert run.text == "Here you are."
    assert [result.status for result in run.results] == [TurnStatus.COMPLETED]
    assert [message.role for message in run.history] == ["user", "assistant", "user", "assistant"]
    assert run.outcome.status is EndStatus.COMPLETED
    assert [end.result.text for end in run.of(ToolEnd)] == ["1 baked"]
    assert isinstance(run.chunks[-1], Exited)


def test_each_input_is_told_after_the_turn_of_the_one_before():
    run = run_agent(echo, inputs=["one", [TextBlock("two")]])
    assert [result.text for result in run.results] == ["you said one", "you said two"]
    kinds = [type(chunk) for chunk in run.chunks if isinstance(chunk, (TurnStart, Done))]
    assert kinds == [TurnStart, Done] * 2


def test_an_agent_without_inputs_may_finish_what_it_does():
    async def once(agent):
        await trio.sleep(3600)
        await agent.send(TextDelta("done"))

    run = run_agent(once)
    assert (run.of(TextDelta), run.results, run.text) == ((TextDelta("done"),), (), "")


def test_an_input_without_a_turn_gives_no_result_and_is_no_failure():
    async def deaf(agent):
        async for message in agent.inputs():
            await agent.send(TextDelta(message.text))

    run = run_agent(deaf, inputs=["one", "two"])
    assert run.results == ()
    assert run.of(TextDelta) == (TextDelta("one"), TextDelta("two"))


def test_a_session_goes_on_where_another_run_left_it():
    store = InMemoryStore()
    first = run_agent(echo, inputs="one", store=store)
    session = trio.run(lambda: AgentSession.load(first.session_id, store=store))
    second = run_agent(echo, inputs="two", store=store, session=session)
    assert second.session_id == first.session_id
    assert [m.text for m in second.history] == ["one", "you said one", "two", "you said two"]


def test_in_real_time_threads_may_work(tmp_path):
    store = FileStore(tmp_path)
    run = run_agent(echo, inputs="one", store=store, real_time=True)
    assert run.text == "you said one"
    assert (tmp_path / run.session_id / "history.jsonl").exists()


def test_the_workspace_and_the_limits_are_the_run_s(tmp_path):
    async def chatty(agent):
        for _ in range(9):
            await agent.send(TextDelta(str(agent.context.workspace.root)))

    run = run_agent(chatty, workspace=tmp_path, limits=RuntimeLimits(ring_chunks=5))
    assert run.chunks[0] == Lagged(6)
    assert run.of(TextDelta)[0].text == str(tmp_path)


def test_more_chunks_are_kept_than_usual():
    async def chatty(agent):
        for _ in range(20_000):
            agent.send_nowait(TextDelta("x"))

    assert len(run_agent(chatty).of(TextDelta)) == 20_000


async def test_inside_trio_a_runtime_is_opened():
    with pytest.raises(RuntimeError, match="inside trio, open an AgentRuntime"):
        run_agent(echo)
    run = await run_agent_async(echo, inputs="one")
    assert run.text == "you said one"


def test_a_script_that_is_used_up_fails_the_test():
    with pytest.raises(AgentRunError, match=r"turn 1 failed: the script of scripted is used up"):
        run_agent(coder, ScriptedProvider(), TOOLS, ALLOWED, inputs="Bread, please.")


def test_a_crash_is_the_cause():
    bug = ZeroDivisionError("a bug")

    async def crash(agent):
        raise bug

    with pytest.raises(AgentRunError, match="the agent crashed: ZeroDivisionError: a bug") as info:
        run_agent(crash, inputs=["one", "two"])
    assert info.value.__cause__ is bug
    assert info.value.run.outcome.status is EndStatus.CRASHED
    assert len(info.value.run.chunks) == 3


def test_an_agent_that_leaves_before_its_last_input_fails_the_test():
    async def once(agent):
        async with agent.turn(await agent.receive()):
            pass

    with pytest.raises(AgentRunError, match="the agent ended before input 2 of 3"):
        run_agent(once, inputs=["one", "two", "three"])


def test_a_request_that_nobody_wrote_an_answer_for_fails_the_test():
    model = ScriptedProvider(call("bake"), "No bread today.")
    with pytest.raises(
        AgentRunError, match="no answer was written for these requests: bake"
    ) as info:
        run_agent(coder, model, TOOLS, ASKING, inputs="Bread, please.")
    (end,) = info.value.run.of(ToolEnd)
    assert "This call was denied: the test's approver has no answer" in end.result.text


def test_an_approver_answers():
    model = ScriptedProvider(call("bake"), "Here you are.")
    person = ScriptedApprover("allow")
    run = run_agent(coder, model, TOOLS, ASKING, inputs="Bread, please.", approver=person)
    assert [end.result.text for end in run.of(ToolEnd)] == ["1 baked"]
    person.check()


def test_what_an_answer_raises_comes_out_bare():
    def judge(request):
        assert request.tool_name == "toast"

    model = ScriptedProvider(call("bake"))
    with pytest.raises(AssertionError, match="toast") as info:
        run_agent(
            coder, model, TOOLS, ASKING, inputs="Bread, please.", approver=ScriptedApprover(judge)
        )
    assert not isinstance(info.value, AgentRunError)


def test_a_hang_is_found_at_once_and_says_where():
    with pytest.raises(AgentRunError, match="hangs in input 2 of 2, processing") as info:
        run_agent(stuck_at_two, inputs=["one", "two"])
    assert [result.text for result in info.value.run.results] == ["1"]
    assert info.value.run.of(Done)[-1].status is TurnStatus.INTERRUPTED


async def stuck_at_two(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            if message.text == "two":
                await trio.sleep_forever()
            agent.session.add_message(Message.assistant("1"))


def test_an_agent_that_does_not_end_hangs_after_its_last_input():
    async def deaf(agent):
        await trio.sleep_forever()

    with pytest.raises(AgentRunError, match="the agent hangs after its last input, idle"):
        run_agent(deaf)


def test_a_hang_in_real_time_is_found_at_its_time_out():
    with pytest.raises(AgentRunError, match="hangs in input 1 of 1"):
        run_agent(stuck, inputs="one", real_time=True, timeout=0.01)


def test_without_the_check_what_went_wrong_is_in_the_run():
    run = run_agent(coder, ScriptedProvider(), TOOLS, ALLOWED, inputs="Bread!", check=False)
    assert run.results[0].status is TurnStatus.FAILED
    assert "used up" in run.results[0].error


async def test_in_real_time_a_hang_has_a_minute():
    clock = trio.lowlevel.current_clock()
    assert not isinstance(clock, MockClock)

    async def patient(agent):
        agent.context.metadata["deadline"] = trio.current_effective_deadline()

    run = await run_agent_async(patient)
    assert run.outcome.status is EndStatus.COMPLETED


def test_a_subagent_s_chunks_stand_apart():
    async def parent(agent):
        child = agent.spawn(AgentSession.new("child"), echo)
        await child.ask("hello")
        await child.shutdown()

    run = run_agent(parent)
    assert len(run.of(SubAgentSpawned)) == 1
    assert run.of(TextDelta) == ()
