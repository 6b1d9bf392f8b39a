"""Budgets where models and tools are called: tool calls, concurrency over a tree, cost."""

from contextlib import ExitStack
from contextvars import Context

import pytest
import trio
from hypothesis import given, strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from greenroom.agents import Agent, Task, run_tools, stream_reply
from greenroom.core import BudgetExceededError, Price, ToolUseBlock, TurnStatus, Usage
from greenroom.llm import OfflineProvider
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Budget
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool

ALL = PermissionManager([PermissionRule.allow_all()])


@pytest.fixture
async def runtime():
    with trio.fail_after(60):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            yield runtime


class Desk:
    """A tool that takes a second, and knows how many of its calls run at once."""

    def __init__(self, *, concurrent=True):
        self.begun, self.now, self.most = [], 0, 0

        @tool(concurrent=concurrent, category="read")
        async def work(label: str) -> str:
            """Work for a second."""
            self.begun.append(label)
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await trio.sleep(1)
            finally:
                self.now -= 1
            return f"{label} is done"

        self.tool = work


def agent_of(llm, *tools, wrap_up=False):
    registry = ToolRegistry(tools)

    async def loop(agent, tools):
        while (reply := await stream_reply(agent, llm, tools)).tool_uses:
            await run_tools(agent, reply.tool_uses, tools, ALL)

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if not wrap_up:
                    await loop(agent, registry)
                    continue
                with pytest.raises(BudgetExceededError), agent.budget(tool_calls=2):
                    await loop(agent, registry)
                await stream_reply(agent, llm, tool_choice="none")

    return agent_fn


def new():
    return AgentSession.new("worker")


def works(*labels):
    return [call("work", label=label) for label in labels]


@pytest.mark.parametrize("concurrent", [True, False])
async def test_calls_that_do_not_fit_are_answered_with_the_reason_and_end_the_turn(
    runtime, autojump_clock, concurrent
):
    desk, budget = Desk(concurrent=concurrent), Budget(tool_calls=3)
    llm = ScriptedProvider(works("a"), works("b", "c", "d", "e"))
    handle = runtime.spawn(new(), agent_of(llm, desk.tool), budget=budget)
    result = await handle.ask("go")
    assert (result.status, result.error) == (
        TurnStatus.FAILED,
        "the budget of worker is spent: 3 tool calls",
    )
    assert desk.begun == ["a", "b", "c"]
    texts = [block.content[0].text for block in (await handle.history())[-1].tool_results]
    assert texts[:2] == ["b is done", "c is done"]
    assert texts[2:] == ["work was not run: the budget of worker is spent: 3 tool calls."] * 2
    assert (budget.used["tool_calls"], budget.remaining) == (3, {"tool_calls": 0})


async def test_a_model_whose_tool_calls_are_all_used_may_still_answer(runtime, autojump_clock):
    desk, llm = Desk(), ScriptedProvider(works("a", "b"), "both are done")
    handle = runtime.spawn(new(), agent_of(llm, desk.tool), budget=Budget(tool_calls=2))
    assert (await handle.ask("go")).text == "both are done"


async def test_the_scope_alone_ends_and_the_model_can_be_asked_to_finish(runtime, autojump_clock):
    desk = Desk()
    llm = ScriptedProvider(works("a", "b", "c"), "I got as far as b")
    handle = runtime.spawn(new(), agent_of(llm, desk.tool, wrap_up=True))
    assert (await handle.ask("go")).text == "I got as far as b"
    told = llm.requests[-1].messages[-1].tool_results[-1].content[0].text
    assert "2 tool calls" in told


async def test_a_call_that_is_denied_counts_for_nothing(runtime, autojump_clock):
    desk, budget = Desk(), Budget(tool_calls=1)
    llm = ScriptedProvider([ToolUseBlock("1", "nothing", {}), *works("a")], "done")
    deny = PermissionManager([PermissionRule.deny_tool("work")])

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                reply = await stream_reply(agent, llm)
                await run_tools(agent, reply.tool_uses[1:], ToolRegistry([desk.tool]), deny)

    await runtime.spawn(new(), agent_fn, budget=budget).ask("go")
    assert (desk.begun, budget.used["tool_calls"]) == ([], 0)


def make_delegates(script, *tools):
    """An agent whose `Task` runs the next agent of the script; the last one has the tools."""
    (replies, *below) = script

    async def agent_fn(agent):
        mine = [Task(agent, make_delegates(below, *tools))] if below else list(tools)
        await agent_of(ScriptedProvider(*replies), *mine)(agent)

    return agent_fn


def task(name="help"):
    return call("Task", description=name, prompt="go")


@pytest.mark.parametrize("limit", [1, 2, 3])
async def test_concurrency_is_that_of_the_whole_tree(runtime, autojump_clock, limit):
    desk = Desk()
    script = [([[task(), task(), task()], "done"]), ([works("a", "b"), "done"])]
    budget = Budget(concurrency=limit)
    handle = runtime.spawn(new(), make_delegates(script, desk.tool), budget=budget)
    before = trio.current_time()
    assert (await handle.ask("go")).text == "done"
    assert (len(desk.begun), desk.most) == (6, limit)
    assert trio.current_time() - before == 6 / limit
    assert (budget.statistics().running, budget.statistics().waiting) == (0, 0)


async def test_three_levels_go_on_with_a_single_slot(runtime, autojump_clock):
    desk = Desk()
    script = [
        ([[task(), task()], "all done"]),
        ([[task()], "done"]),
        ([[task(), task()], "done"]),
        ([works("a", "b"), "done"]),
    ]
    handle = runtime.spawn(
        new(), make_delegates(script, desk.tool), budget=Budget(concurrency=1, tool_calls=100)
    )
    assert (await handle.ask("go")).text == "all done"
    assert (len(desk.begun), desk.most) == (8, 1)


async def test_the_tighter_of_two_scopes_does_not_hold_the_wider_one_s_slots(
    runtime, autojump_clock
):
    desk, wide = Desk(), Budget(concurrency=2)
    narrow = agent_of(ScriptedProvider(works("a", "b", "c"), "ok"), desk.tool)
    free = agent_of(ScriptedProvider(works("x"), "ok"), desk.tool)

    async def root(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                one = agent.spawn(new(), narrow, budget=Budget(concurrency=1))
                other = agent.spawn(new(), free)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(one.ask, "go")
                    await wait_all_tasks_blocked(0.001)
                    assert wide.statistics().running == 1
                    nursery.start_soon(other.ask, "go")

    handle = runtime.spawn(new(), root, budget=wide)
    before = trio.current_time()
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert desk.most == 2
    assert trio.current_time() - before < 3.1


async def test_two_purses_that_are_nested_in_both_orders_do_not_wait_for_each_other(
    runtime, autojump_clock
):
    desk, one, other = Desk(), Budget(concurrency=1), Budget(concurrency=1)

    def parent(inner):
        async def agent_fn(agent):
            async for message in agent.inputs():
                async with agent.turn(message):
                    calls = [works(*"abc"), "ok"]
                    child = agent_of(ScriptedProvider(*calls), desk.tool)
                    await agent.spawn(new(), child, budget=inner).ask("go")

        return agent_fn

    async with trio.open_nursery() as nursery:
        for outer, inner in ((one, other), (other, one)):
            handle = runtime.spawn(new(), parent(inner), budget=outer)
            nursery.start_soon(handle.ask, "go")
    assert (len(desk.begun), desk.most) == (6, 1)


async def test_waiting_for_a_slot_can_be_interrupted_and_leaves_nothing_behind(
    runtime, autojump_clock
):
    desk, budget = Desk(), Budget(concurrency=1, tool_calls=10)
    llm = ScriptedProvider(works("a", "b", "c"), works("d"), "done")
    handle = runtime.spawn(new(), agent_of(llm, desk.tool), budget=budget)
    await handle.send_input("go")
    await trio.sleep(0.5)
    assert budget.statistics().waiting == 2
    await handle.interrupt()
    assert desk.begun == ["a"]
    assert (budget.statistics().running, budget.statistics().waiting) == (0, 0)
    assert budget.used["tool_calls"] == 1  # those that never began are given back
    assert (await handle.ask("again")).text == "done"
    assert desk.begun == ["a", "d"]


async def test_a_tool_that_waits_for_an_agent_in_any_way_holds_no_slot_it_needs(
    runtime, autojump_clock
):
    """A pool of helpers that live longer than a call, driven by every door of the handle."""
    desk = Desk()
    ways = ["ask", "send", "send_nowait", "stream", "subscribe", "interrupt", "shutdown"]

    def helper():
        return agent_of(ScriptedProvider(works("a"), "helped"), desk.tool)

    async def drive(helper, way):
        match way:
            case "ask":
                return (await helper.ask("go")).text
            case "send":
                receipt = await helper.send_input("go")
            case "send_nowait":
                receipt = helper.send_input_nowait("go")
            case "stream" | "subscribe" | "interrupt" | "shutdown":
                # Somebody else has given it work, outside of any tool call.
                receipt = Context().run(helper.send_input_nowait, "go")
        if way in {"interrupt", "shutdown"}:
            await wait_all_tasks_blocked()  # its call waits for the slot
        if way == "interrupt":
            await helper.interrupt("after_step")
        if way == "shutdown":
            await helper.shutdown(grace=60)
            return "shut down"
        if way == "subscribe":
            async for chunk in helper.subscribe("all"):
                if type(chunk).__name__ == "Done":
                    return "read"
        return [chunk async for chunk in helper.stream(receipt)][-1].status.value

    async def root(agent):
        helpers = {way: agent.spawn(new(), helper()) for way in ways}

        @tool(concurrent=False)
        async def delegate(way: str) -> str:
            return await drive(helpers[way], way)

        llm = ScriptedProvider([call("delegate", way=way) for way in ways], "all helped")
        await agent_of(llm, delegate)(agent)

    handle = runtime.spawn(new(), root, budget=Budget(concurrency=1))
    assert (await handle.ask("go")).text == "all helped"
    assert (len(desk.begun), desk.most) == (len(ways), 1)


async def test_a_tool_that_calls_tools_itself_does_not_wait_for_its_own_slot(
    runtime, autojump_clock
):
    desk, budget = Desk(), Budget(concurrency=1)

    async def agent_fn(agent):
        @tool(category="read")
        async def both() -> str:
            await run_tools(agent, works("a", "b"), ToolRegistry([desk.tool]), ALL)
            return "both are done"

        await agent_of(ScriptedProvider(call("both"), "done"), both)(agent)

    handle = runtime.spawn(new(), agent_fn, budget=budget)
    assert (await handle.ask("go")).text == "done"
    assert (desk.most, budget.statistics().running) == (1, 0)


@pytest.mark.parametrize("way", ["ask", "ask twice at once", "a time-out"])
async def test_a_call_takes_its_slot_again_when_its_wait_is_over(runtime, autojump_clock, way):
    """What calls do after they have waited for an agent counts like any other work."""
    desk, budget = Desk(), Budget(concurrency=2)

    async def root(agent):
        @tool(concurrent=True, category="read")
        async def consult(label: str) -> str:
            """Ask a helper, then work with what it said."""
            helper = agent.spawn(new(), agent_of(ScriptedProvider(works("a"), "b"), desk.tool))
            async with trio.open_nursery() as nursery:
                if way == "ask twice at once":
                    nursery.start_soon(helper.ask, "go")
                with trio.move_on_after(0.5 if way == "a time-out" else 60):
                    await helper.ask("go")
            if way != "a time-out":
                assert budget.statistics().running <= 2
            return await desk.tool("after it")

        llm = ScriptedProvider([call("consult", label=each) for each in "abcd"], "done")
        await agent_of(llm, consult)(agent)

    handle = runtime.spawn(new(), root, budget=budget)
    assert (await handle.ask("go")).text == "done"
    await handle.shutdown()
    assert desk.begun.count("after it") == 4
    # A wait that is cut short can't wait for a slot: the four go on beside two that have one.
    assert desk.most <= (2 if way != "a time-out" else 2 + 4)
    assert (budget.statistics().running, budget.statistics().waiting) == (0, 0)


shapes = st.recursive(
    st.fixed_dictionaries({"works": st.integers(0, 3)}),
    lambda below: st.fixed_dictionaries(
        {
            "works": st.integers(0, 3),
            "limit": st.none() | st.integers(1, 3),
            "calls": st.none() | st.integers(0, 8),
            "tasks": st.lists(below, max_size=3),
        }
    ),
    max_leaves=6,
)


@given(shapes, st.none() | st.floats(0, 6))
def test_no_tree_runs_more_at_once_than_any_scope_allows_and_none_stands_still(shape, cut):
    trio.run(_work_a_tree, shape, cut, clock=MockClock(autojump_threshold=0))


class Meter:
    """What runs below one budget, as counted beside it."""

    def __init__(self, shape):
        self.budget = Budget(concurrency=shape.get("limit"), tool_calls=shape.get("calls"))
        self.now = self.calls = 0

    def begin(self):
        self.now += 1
        self.calls += 1
        limits = self.budget.statistics().limits
        assert self.now <= limits.get("concurrency", 99)
        assert self.calls <= limits.get("tool_calls", 99)


async def _work_a_tree(shape, cut):
    meters = []

    async def delegate(agent, scope, below, above):
        try:
            async with scope.running():
                for meter in above:
                    meter.calls += 1
                mine = Meter(below)
                meters.append(mine)
                child = agent.spawn(new(), node, below, [*above, mine], budget=mine.budget)
                await child.wait()
        except BudgetExceededError:
            assert any(meter.budget.describe_spent("tool_calls") for meter in above)

    async def work(scope, above):
        try:
            async with scope.running():
                for meter in above:
                    meter.begin()
                try:
                    await trio.sleep(1)
                finally:
                    for meter in above:
                        meter.now -= 1
        except BudgetExceededError:
            assert any(meter.budget.describe_spent("tool_calls") for meter in above)

    async def node(agent, shape, above):
        with ExitStack() as stack:
            async with trio.open_nursery() as nursery:
                for number in range(shape["works"]):
                    scope = stack.enter_context(agent.tool_call(ToolUseBlock(f"{number}", "work")))
                    nursery.start_soon(work, scope, above)
                for number, below in enumerate(shape.get("tasks", ())):
                    scope = stack.enter_context(agent.tool_call(ToolUseBlock(f"t{number}", "Task")))
                    nursery.start_soon(delegate, agent, scope, below, above)

    meters.append(Meter(shape))
    with trio.fail_after(1000):
        async with AgentRuntime(store=InMemoryStore()) as runtime:
            root = runtime.spawn(new(), node, shape, list(meters), budget=meters[0].budget)
            if cut is not None:
                await trio.sleep(cut)
                root.kill()
            assert (await root.wait()).error is None
    for meter in meters:
        statistics = meter.budget.statistics()
        assert (statistics.running, statistics.waiting, meter.now) == (0, 0, 0)
        assert statistics.used["tool_calls"] == meter.calls


PRICE = Price(input=10, output=100)


async def test_a_reply_costs_what_the_provider_charges_in_every_account(runtime):
    llm = ScriptedProvider(Reply("hi", usage=Usage(1000, 100)), price=PRICE)
    budget = Budget(cost=1)
    handle = runtime.spawn(new(), agent_of(llm), budget=budget)
    result = await handle.ask("go")
    assert result.usage.cost == budget.used["cost"] == 0.02
    assert (await handle.usage()).cost == (await handle.history())[-1].usage.cost == 0.02


async def test_a_cost_budget_ends_the_turn_at_the_first_step_after_it_is_spent(runtime):
    llm = ScriptedProvider(Reply("hi", usage=Usage(0, 1000)), "never asked", price=PRICE)
    handle = runtime.spawn(new(), agent_of(llm), budget=Budget(cost=0.1))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED
    assert (await handle.ask("go")).error == "the budget of worker is spent: a cost of 0.1"
    assert len(llm.requests) == 1


async def test_a_model_without_a_price_is_refused_before_it_is_asked(runtime):
    llm = ScriptedProvider("hi")
    handle = runtime.spawn(new(), agent_of(llm), budget=Budget(cost=1))
    result = await handle.ask("go")
    assert result.status is TurnStatus.FAILED
    assert "scripted:script has no price" in result.error
    assert llm.requests == []


@pytest.mark.parametrize("budget", [Budget(tokens=100), Budget(cost=1)])
async def test_a_model_that_reports_no_usage_is_refused_and_not_taken_for_free(runtime, budget):
    llm = ScriptedProvider(Reply("hi", usage=None), price=PRICE)
    handle = runtime.spawn(new(), agent_of(llm), budget=budget)
    result = await handle.ask("go")
    assert (result.status, result.text) == (TurnStatus.FAILED, "hi")
    assert "scripted:script reports no usage" in result.error


async def test_a_model_that_reports_no_usage_may_be_used_where_that_is_not_limited(runtime):
    llm = ScriptedProvider(Reply("hi", usage=None))
    handle = runtime.spawn(new(), agent_of(llm), budget=Budget(model_calls=1))
    assert (await handle.ask("go")).status is TurnStatus.COMPLETED


async def test_the_offline_model_is_free(runtime):
    handle = runtime.spawn(new(), agent_of(OfflineProvider()), budget=Budget(cost=0.01, tokens=9))
    assert (await handle.ask("hello")).status is TurnStatus.COMPLETED


async def test_a_run_whose_time_is_over_says_so_by_its_error(autojump_clock):
    agent = Agent(ScriptedProvider(Reply("late", seconds=60)))
    result = await agent.run("hi", budget=Budget(seconds=1))
    assert result.status is TurnStatus.FAILED
    with pytest.raises(BudgetExceededError, match=r"1 second\b"):
        print(result.output)
