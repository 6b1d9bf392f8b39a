"""Models that retry inside agents: one turn and one reply, budgets, interrupts, shared limits."""

from functools import partial

import pytest
import trio

from greenroom.agents import Agent, coder, stream_reply
from greenroom.core import (
    BudgetExceededError,
    Custom,
    Done,
    Error,
    Message,
    Price,
    TurnStatus,
    Usage,
    UsageReport,
)
from greenroom.llm import ModelOverloadedError, ModelRateLimitError, ModelStreamError, resilient
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Backoff, ConcurrencyLimit, RateLimit, Retry
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import (
    Reply,
    Scenario,
    ScriptedProvider,
    call,
    cancel_at_every_checkpoint,
    run_agent,
)
from greenroom.tools import ToolRegistry
from tests.conftest import few
from tests.llm import wire
from tests.llm.server import Answer, model_server

EVEN = Retry(attempts=4, backoff=Backoff(first=1.0, jitter=0))
ALL = PermissionManager([PermissionRule.allow_all()])


def fails(kind=ModelOverloadedError, text="busy", **facts):
    def step(request):
        raise kind(text, **facts)

    return step


async def talker(agent, llm):
    async for message in agent.inputs():
        async with agent.turn(message):
            await stream_reply(agent, llm)


def kinds(run):
    return [chunk.kind for chunk in run.of(Custom)]


def test_three_failures_and_a_success_are_one_turn_and_one_reply():
    llm = ScriptedProvider(fails(), fails(), fails(), Reply("hello", usage=Usage(10, 5)))
    run = run_agent(talker, resilient(llm, retry=EVEN), inputs="hi")
    assert [message.text for message in run.history] == ["hi", "hello"]
    assert [result.status for result in run.results] == [TurnStatus.COMPLETED]
    assert [report.usage.total for report in run.of(UsageReport)] == [15]
    assert len(run.of(Done)) == 1
    assert kinds(run) == ["model.retry"] * 3
    assert run.of(Custom)[0].text == "busy; attempt 2 of 4 in 1.0 s"


def test_a_reply_that_begins_anew_stands_alone_in_the_history_and_all_usage_is_reported():
    half = Reply("", usage=Usage(7, 0), error=ModelStreamError("cut"))
    llm = ScriptedProvider(Reply("half a", error=ModelStreamError("cut")), half, "whole")
    model = resilient(llm, retry=EVEN, after_output="restart")
    run = run_agent(talker, model, inputs="hi")
    assert [message.text for message in run.history] == ["hi", "whole"]
    assert kinds(run) == ["reply.restarted", "model.retry", "model.retry"]
    assert [report.usage.total for report in run.of(UsageReport)] == [7, 15]


async def test_a_reader_that_comes_late_is_told_only_what_still_counts(autojump_clock):
    llm = ScriptedProvider(
        Reply("half a", error=ModelStreamError("cut")), Reply("whole", hangs=True)
    )
    model = resilient(llm, retry=EVEN, after_output="restart")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker, model)
        await handle.send_input("hi")
        await trio.sleep(0.5)
        assert await handle.partial_text() == ""
        await trio.sleep(1)
        assert await handle.partial_text() == "whole"
        await handle.interrupt()
        assert [message.text for message in await handle.history()] == ["hi", "whole"]


def failure_of(run):
    (error,) = run.of(Error)
    return error.kind, error.message


@pytest.mark.parametrize(
    ("limit", "attempts"), [({"model_calls": 3}, 3), ({"tokens": 20}, 2), ({"cost": 30.0}, 3)]
)
def test_a_budget_refuses_to_wait_for_what_it_would_not_allow(limit, attempts):
    used = Reply("", usage=Usage(10, 0), error=ModelStreamError("cut"))
    llm = ScriptedProvider(*[used] * 10, price=Price(1_000_000.0, 0))
    causes = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(**limit):
                    try:
                        await stream_reply(agent, resilient(llm, retry=Retry(attempts=10)))
                    except BudgetExceededError as error:
                        causes.append(error.__cause__)
                        raise

    run = run_agent(agent_fn, inputs="hi", check=False)
    kind, message = failure_of(run)
    assert kind == "BudgetExceededError"
    assert "is spent" in message
    assert [type(cause) for cause in causes] == [ModelStreamError]
    assert len(llm.requests) == attempts
    assert kinds(run) == ["model.retry"] * (attempts - 1)  # what is refused is not announced
    assert [message.text for message in run.history] == ["hi"]


def test_further_attempts_count_as_model_calls_and_steps_do_not_grow():
    llm = ScriptedProvider(fails(), fails(), "hello", "again")
    seen = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget() as meter:
                    await stream_reply(agent, resilient(llm, retry=EVEN))
                seen.append(meter.used["model_calls"])

    run_agent(agent_fn, inputs=["hi", "ho"])
    assert seen == [3, 1]


def test_a_deadline_refuses_a_wait_that_it_would_cut_off_at_once():
    llm = ScriptedProvider(fails(ModelRateLimitError, retry_after=40.0), "never")
    times = []

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                try:
                    with agent.budget(seconds=30):
                        await stream_reply(agent, resilient(llm))
                finally:
                    times.append(trio.current_time())

    run = run_agent(agent_fn, inputs="hi", check=False)
    kind, message = failure_of(run)
    assert kind == "BudgetExceededError"
    assert "has 30 seconds left, and there would be 4" in message
    assert times == [0]
    assert kinds(run) == []


def test_where_there_is_no_time_to_wait_another_model_is_asked_at_once():
    llm = ScriptedProvider(fails(ModelRateLimitError, retry_after=40.0))
    model = resilient(llm, fallback=[ScriptedProvider("hello", name="spare")])

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(seconds=30):
                    await stream_reply(agent, model)

    run = run_agent(agent_fn, inputs="hi")
    assert (run.text, kinds(run)) == ("hello", ["model.fallback"])


def test_a_fallback_is_a_further_attempt_too():
    spare = ScriptedProvider("never")
    model = resilient(ScriptedProvider(fails()), retry=Retry(attempts=1), fallback=[spare])

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(model_calls=1):
                    await stream_reply(agent, model)

    run = run_agent(agent_fn, inputs="hi", check=False)
    assert failure_of(run)[0] == "BudgetExceededError"
    assert spare.requests == []


def test_a_cost_budget_refuses_a_chain_in_which_one_model_has_no_price():
    model = resilient(ScriptedProvider("hi", price=Price(1, 1)), fallback=[ScriptedProvider()])

    async def agent_fn(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(cost=5):
                    await stream_reply(agent, model)

    assert failure_of(run_agent(agent_fn, inputs="hi", check=False))[0] == "ConfigurationError"


async def test_an_interrupt_during_a_wait_ends_the_turn_at_once(autojump_clock):
    llm = ScriptedProvider(fails(ModelRateLimitError, retry_after=50.0), "hello")
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("talker"), talker, resilient(llm))
        await handle.send_input("hi")
        await trio.sleep(5)
        report = await handle.interrupt()
        assert (trio.current_time(), report.abandoned) == (5, ())
        assert (await handle.ask("again")).text == "hello"


def test_a_cancel_at_every_checkpoint_leaves_limits_and_circuits_whole():
    def scenario():
        steps = {"count": 0}

        def step(request):
            steps["count"] += 1
            if steps["count"] % 2:
                raise ModelOverloadedError("busy")
            return "hello" if request.messages[-1].text else "?"

        slots = ConcurrencyLimit(1)
        llm = ScriptedProvider(*[step] * 50)
        model = resilient(llm, retry=EVEN, limits=[slots, RateLimit(requests=2, period=9)])

        async def agent_fn(agent):
            try:
                await talker(agent, model)
            finally:
                assert slots.is_free

        return Scenario(agent_fn, inputs=["hi", "ho"])

    report = cancel_at_every_checkpoint(scenario, at_most=few(25))
    assert report.violations == ()
    assert sum(report.cancels.values()) > few(20)


def test_subagents_share_a_rate_limit():
    times = []

    def answer(request):
        times.append(trio.current_time())
        if request.messages[-1].tool_results:
            return "all done"
        if request.messages[-1].text == "delegate":
            tasks = [f"part {n}" for n in range(4)]
            return [call("Task", description=part, prompt=part) for part in tasks]
        return f"did {request.messages[-1].text}"

    model = resilient(ScriptedProvider(*[answer] * 6), limits=RateLimit(requests=2, period=10))
    run = run_agent(
        partial(coder, llm=model, tools=ToolRegistry([]), permissions=ALL), inputs="delegate"
    )
    assert run.text == "all done"
    assert times == [0, 0, 10, 10, 20, 20]


def test_a_subagent_spawned_in_an_attempt_retries_for_itself():
    llm = ScriptedProvider(fails(), "from the child")

    async def parent(agent):
        async def delegate():
            child = agent.spawn(AgentSession.new("talker"), talker, resilient(llm), report=False)
            return await child.ask("go")

        async for message in agent.inputs():
            async with agent.turn(message):
                result = await Retry(attempts=3).call(delegate)
                agent.session.add_message(Message.assistant(result.text))

    assert run_agent(parent, inputs="hi").text == "from the child"
    assert len(llm.requests) == 2


async def test_in_a_run_of_an_agent_by_name_a_reply_that_breaks_off_starts_over(monkeypatch):
    cut = wire.anthropic(*wire.text_block(0, "half a"))[:-60]
    whole = wire.anthropic(*wire.text_block(0, "the whole"))
    answers = [Answer.stream(cut, end="cut"), Answer.stream(whole)]
    async with model_server(lambda _: answers.pop(0)) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        result = await Agent("anthropic:m").run("go")
    assert result.output == "the whole"
    assert [message.text for message in result.session.history] == ["go", "the whole"]
