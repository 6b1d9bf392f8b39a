"""Whatever runs has the same methods, and goes on by its session."""

import os
import re
import signal
import sys
from pathlib import Path

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import Agent, AgentRuntime, BudgetExceededError, ConfigurationError, InMemoryStore
from greenroom.agents import Runnable
from greenroom.core import Done, TurnStatus
from greenroom.flow import handoff_team
from greenroom.resilience import Budget
from greenroom.testing import Reply, ScriptedProvider, call
from tests.flow.kinds import KINDS, Payment, agent, workflow
from tests.warm_python import run_warm

ABOVE = {"composite": 1, "handoff to a team": 2}
"""How many models are asked before the worker's."""

PROGRAM = Path(__file__).with_name("kinds.py")


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def make(request):
    return request.param


async def test_run(make):
    result = await make(agent()).run("Go.")
    assert (result.status, result.text) == (TurnStatus.COMPLETED, result.text)
    assert "done" in str(result.output)
    assert result.usage.total > 0
    assert result.denials == ()


def test_run_sync(make):
    assert "done" in make(agent()).run_sync("Go.").text


async def test_stream_to_the_end(make):
    async with make(agent()).stream("Go.") as run:
        chunks = [chunk async for chunk in run]
    assert "done" in run.result.text
    assert run.result.status is TurnStatus.COMPLETED
    if make is workflow:  # it streams its states
        assert chunks == [{"text": "Go."}, {"text": "done"}]
    else:
        assert [chunk for chunk in chunks if isinstance(chunk, Done)] == chunks[-1:]


@pytest.mark.every(2)
async def test_stream_and_leave_early(make):
    begun = agent(Reply("I begin", hangs=True))
    async with make(begun).stream("Go.") as run:
        async for _ in run:
            break
        while not begun.llm.requests:
            await trio.lowlevel.checkpoint()
    assert run.result.status is TurnStatus.INTERRUPTED
    with pytest.raises(Exception, match="no output"):
        _ = run.result.output


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
async def test_left_early_in_a_call_it_goes_on_and_pays_once(kind, tmp_path):
    left = Payment(tmp_path, kind, hangs=True)
    async with left.make().stream("Go.", session="s", store=left.store):
        await left.paid.wait()
    payment = Payment(tmp_path, kind)
    result = await payment.run()
    assert result.status is TurnStatus.COMPLETED, result.error
    assert "done" in str(result.output)
    assert payment.effects == ["pay"]
    assert payment.asked == ["pay"]


@pytest.mark.every(2)
async def test_as_a_tool_of_another(make):
    tool = make(agent()).as_tool("helper")
    boss = Agent(ScriptedProvider(call("helper", prompt="Go."), "Thanks."), tools=[tool])
    result = await boss.run("Go.")
    assert "done" in result.messages[2].tool_results[0].text
    assert result.output == "Thanks."


@pytest.mark.every(2)
async def test_as_a_tool_each_call_has_a_budget_of_its_own(make):
    worker = agent()
    tool = make(worker).as_tool("helper", budget=Budget(model_calls=5))
    script = [call("helper", prompt="Go.")] * 2
    result = await Agent(ScriptedProvider(*script, "Thanks."), tools=[tool]).run("Go.")
    assert [each.tool_results[0].is_error for each in result.messages[2:5:2]] == [False, False]
    none = make(agent()).as_tool("helper", budget=Budget(model_calls=0))
    boss = Agent(ScriptedProvider(script[0], "It failed."), tools=[none])
    [told] = (await boss.run("Go.")).messages[2].tool_results
    assert told.is_error == ("model call" in told.text)


@pytest.mark.every(2)
async def test_with_a_budget_that_ends(make):
    def act() -> str:
        """Act."""
        return "done"

    worker = agent(*[call("act")] * 9, tools=[act])
    result = await make(worker).run("Go.", budget=Budget(model_calls=1))
    assert len(worker.llm.requests) <= 1
    is_summed_up = result.status is TurnStatus.COMPLETED  # such as by an orchestrator
    assert is_summed_up or "model call" in str(result.error)


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
async def test_behind_a_budget_that_ended_it_goes_on_and_pays_once(kind, tmp_path):
    budget = Budget(model_calls=1 + ABOVE.get(kind, 0))
    first = Payment(tmp_path, kind)
    assert (await first.run(budget)).status is TurnStatus.FAILED
    assert first.effects == ["pay"]
    payment = Payment(tmp_path, kind)
    result = await payment.run()
    assert result.status is TurnStatus.COMPLETED, result.error
    assert "done" in str(result.output)
    assert (payment.effects, payment.asked) == (["pay"], [])


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
async def test_as_a_tool_behind_a_budget_that_ended_it_goes_on_and_pays_once(kind, tmp_path):
    budget = Budget(model_calls=2 + ABOVE.get(kind, 0))
    first = Payment(tmp_path, kind, is_tool=True)
    assert (await first.run(budget)).status is TurnStatus.FAILED
    assert first.effects == ["pay"]
    payment = Payment(tmp_path, kind, is_tool=True)
    result = await payment.run()
    assert result.status is TurnStatus.COMPLETED, result.error
    assert "done" in str(result.output)
    assert (payment.effects, payment.asked) == (["pay"], [])


async def test_in_a_runtime_with_a_store(make):
    store = InMemoryStore()
    async with AgentRuntime(store) as runtime:
        result = await make(agent()).run("Go.", runtime=runtime, session="s")
        assert await store.exists("s")
    assert result.session.session_id == "s"


@pytest.mark.every(2)
async def test_it_goes_on_in_another_runtime_and_is_then_over(make):
    store = InMemoryStore()
    hangs = agent(Reply("I begin", hangs=True))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: make(hangs).run("Go.", session="s", store=store))
        with trio.fail_after(60):
            while not hangs.llm.requests:  # noqa: ASYNC110 (a thread of the store is in between)
                await trio.sleep(0.01)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    result = await make(agent()).run(None, session="s", store=store)
    assert "done" in str(result.output)
    if make is workflow:  # it gives the state of the run that is over
        assert (await make(agent()).run(None, session="s", store=store)).output == result.output
    else:
        with pytest.raises(ConfigurationError, match="nothing to go on with"):
            await make(agent()).run(None, session="s", store=store)


def kill(folder, *arguments):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}
    code, _, errors = run_warm([str(PROGRAM), *arguments], folder, environment)
    assert code == -signal.SIGKILL, errors


def go_on(payment):
    """Go on with a payment; it is made once."""
    result = trio.run(payment.run)
    assert result.status is TurnStatus.COMPLETED, result.error
    assert "done" in str(result.output)
    assert payment.effects == ["pay"]


@pytest.mark.every(3)
@pytest.mark.parametrize("point", ["before pay", "behind pay", "told pay"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_in_another_process_and_pays_once(kind, point, tmp_path):
    kill(tmp_path, kind, point)
    payment = Payment(tmp_path, kind)
    go_on(payment)
    assert payment.asked == (["pay"] if point != "told pay" else [])


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_as_a_tool_it_goes_on_in_another_process_and_pays_once(kind, tmp_path):
    kill(tmp_path, kind, "behind pay", "tool")
    payment = Payment(tmp_path, kind, is_tool=True)
    go_on(payment)
    assert payment.asked == ["pay"]


@pytest.mark.every(3)
@pytest.mark.parametrize("kind", KINDS)
def test_as_a_tool_it_is_killed_twice_and_pays_once(kind, tmp_path):
    for _ in range(2):
        kill(tmp_path, kind, "told pay", "tool")
    payment = Payment(tmp_path, kind, is_tool=True)
    go_on(payment)
    assert payment.asked == []


def test_all_of_them_are_runnables():
    for make in KINDS.values():
        assert isinstance(make(agent()), Runnable)


async def test_a_conversation_is_handed_to_a_workflow():
    transfer = ScriptedProvider(call("transfer_to_workflow"))
    desk = Agent(transfer, name="desk", handoffs=["workflow"])
    result = await handoff_team(desk, workflow(agent())).run("Go.")
    assert result.output == "done"


async def test_deps_reach_the_agents_in_a_workflow_and_a_plan():
    heard = []

    def instructions(context):
        heard.append(context.deps)
        return ""

    for name in ("workflow", "planner", "pipeline", "orchestrator"):
        member = agent(instructions=instructions, deps_type=str)
        assert (await KINDS[name](member).run("Go.", deps=name)).status is TurnStatus.COMPLETED
    assert heard == ["workflow", "planner", "pipeline", "orchestrator"]


async def test_a_budget_that_is_spent_is_the_error_of_the_result():
    result = await workflow(agent()).run("Go.", budget=Budget(model_calls=0))
    assert result.status is TurnStatus.FAILED
    assert "model call" in str(result.error)
    assert result.state == {"text": "Go."}
    result = await KINDS["agent"](agent()).run("Go.", budget=Budget(model_calls=0))
    assert isinstance(result.error, BudgetExceededError)


@pytest.mark.parametrize("kind", ["agent", "pipeline"])
def test_the_question_says_how_often_and_when_it_was_started(kind, tmp_path):
    for _ in range(2):
        kill(tmp_path, kind, "before pay")
    payment, details = Payment(tmp_path, kind), []

    async def answer(request):
        details.append(request.details)
        return True

    payment.answer = answer
    trio.run(payment.run)
    assert len(details) == 1
    often = r"It was started 2 times, the (first|last) time at [0-9-]{10} [0-9:]{8} UTC"
    assert re.search(often, details[0])
