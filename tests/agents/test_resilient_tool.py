"""`resilient_tool`: breaker, retry and limits around a tool, and what the model is told."""

import pytest
import trio

from greenroom.agents import coder, resilient_tool
from greenroom.core import (
    AgentContext,
    NetworkError,
    ToolEnd,
    ToolError,
    ToolProgress,
    ToolResult,
    ToolStatus,
)
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Backoff, CircuitBreaker, ConcurrencyLimit, RateLimit, Retry
from greenroom.resilience._internal import CircuitState
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import (
    Scenario,
    ScriptedProvider,
    call,
    cancel_at_every_checkpoint,
    run_agent,
)
from greenroom.tools import ToolRegistry, builtin_tools, tool
from greenroom.tools._internal import RegisteredTool
from tests.conftest import few

CONTEXT = AgentContext(session_id="s-1", agent_type="demo")
EVEN = Retry(backoff=Backoff(first=1.0, jitter=0))


class Service:
    """A tool whose calls do what a test says, one after the other."""

    def __init__(self, *outcomes, **options):
        self.outcomes, self.times = list(outcomes), []

        @tool(**{"timeout": 10.0, "category": "read"} | options)
        async def fetch(name: str) -> ToolResult:
            """Fetch something."""
            self.times.append(trio.current_time())
            outcome = self.outcomes.pop(0) if self.outcomes else "fine"
            if isinstance(outcome, Exception):
                raise outcome
            if isinstance(outcome, float):
                await trio.sleep(outcome)
            return outcome if isinstance(outcome, ToolResult) else ToolResult.ok(str(outcome))

        self.tool = fetch


async def run(guarded):
    return await ToolRegistry([guarded]).execute("fetch", {"name": "x"}, CONTEXT)


def a_breaker(failures=2):
    return CircuitBreaker("the service", failures=failures, cooldown=30)


@pytest.mark.parametrize(
    ("outcome", "counts"),
    [
        (ConnectionResetError("gone"), True),
        (NetworkError("no route"), True),
        (ZeroDivisionError(), True),
        (11.0, True),
        (ToolResult.error("it took too long", ToolStatus.TIMEOUT), True),
        (ToolError("there is no x"), False),
        (ToolResult.error("there is no x"), False),
        ("fine", False),
    ],
)
async def test_what_counts_as_a_failure_of_a_tool(outcome, counts, autojump_clock):
    plain = await run(Service(outcome).tool)
    breaker = a_breaker(failures=1)
    assert await run(resilient_tool(Service(outcome).tool, breaker=breaker)) == plain
    assert (breaker.state is CircuitState.OPEN) == counts


async def test_while_the_circuit_is_open_the_model_is_told_when_to_try_again(autojump_clock):
    service, breaker = Service(NetworkError("down"), NetworkError("down")), a_breaker()
    guarded = resilient_tool(service.tool, breaker=breaker)
    for _ in range(2):
        assert (await run(guarded)).text == "NetworkError: down"
    await trio.sleep(10)
    result = await run(guarded)
    assert result.is_error
    assert result.text == (
        "fetch was not run: the service has failed 2 times lately, so it is not called for now. "
        "Try again in 20 seconds, or go on without it."
    )
    assert len(service.times) == 2
    await trio.sleep(20)
    assert (await run(guarded)).text == "fine"


async def test_one_breaker_may_guard_several_tools(autojump_clock):
    breaker = a_breaker(failures=1)
    first, second = Service(NetworkError("down")), Service()
    await run(resilient_tool(first.tool, breaker=breaker))
    assert "was not run" in (await run(resilient_tool(second.tool, breaker=breaker))).text


async def test_nothing_is_retried_without_a_retry(autojump_clock):
    service = Service(NetworkError("down"))
    assert (await run(resilient_tool(service.tool))).is_error
    assert len(service.times) == 1


async def test_without_a_retry_the_tool_s_own_retries_go_on(autojump_clock):
    service = Service()

    async def ask() -> str:
        service.times.append(trio.current_time())
        if len(service.times) < 3:
            raise NetworkError("down")
        return "fine"

    @tool(category="read")
    async def fetch(name: str) -> str:
        """Fetch something."""
        return await EVEN.call(ask)

    assert (await run(resilient_tool(fetch, breaker=a_breaker()))).text == "fine"
    assert service.times == [0, 1, 3]


async def test_with_a_retry_what_may_work_later_is_called_again_also_after_a_time_out(
    autojump_clock,
):
    service = Service(NetworkError("down"), 11.0)
    assert (await run(resilient_tool(service.tool, retry=EVEN))).text == "fine"
    assert service.times == [0, 1, 13]
    service = Service(ZeroDivisionError("a bug"))
    assert (await run(resilient_tool(service.tool, retry=EVEN))).text == "ZeroDivisionError: a bug"
    assert len(service.times) == 1


@pytest.mark.parametrize("outcome", [NetworkError("down"), 11.0])
@pytest.mark.parametrize(
    ("says", "calls"),
    [
        ({"category": "other"}, 2),
        ({"category": "other", "idempotent": True, "destructive": True}, 2),
        ({"category": "other", "idempotent": False}, 1),
        ({"category": "other", "destructive": True}, 1),
    ],
)
async def test_a_tool_that_says_so_is_not_called_again(says, calls, outcome, autojump_clock):
    service = Service(outcome, **says)
    assert (await run(resilient_tool(service.tool, retry=EVEN))).is_error == (calls == 1)
    assert len(service.times) == calls


async def test_an_open_circuit_is_waited_for_also_where_no_call_may_be_repeated(autojump_clock):
    service, breaker = Service(idempotent=False), a_breaker(failures=1)
    await run(resilient_tool(Service(NetworkError("down")).tool, breaker=breaker))
    guarded = resilient_tool(service.tool, breaker=breaker, retry=EVEN)
    assert (await run(guarded)).text == "fine"
    assert len(service.times) == 1


async def test_the_last_time_out_is_the_result(autojump_clock):
    service = Service(*[11.0] * 2)
    twice = Retry(attempts=2, backoff=Backoff(first=0))
    result = await run(resilient_tool(service.tool, retry=twice))
    assert result == await run(Service(11.0).tool)
    assert result.status is ToolStatus.TIMEOUT
    assert trio.current_time() == 30


async def test_limits_are_shared_and_their_waits_do_not_use_up_the_time_of_the_call(autojump_clock):
    services = [Service(8.0), Service(8.0)]
    limits = [ConcurrencyLimit(1), RateLimit(requests=1, period=10)]
    async with trio.open_nursery() as nursery:
        for service in services:
            nursery.start_soon(run, resilient_tool(service.tool, limits=limits))
    assert [service.times for service in services] in ([[0], [10]], [[10], [0]])
    assert trio.current_time() == 18


def test_to_rules_and_models_it_is_the_same_tool():
    for plain in builtin_tools():
        whole, guarded = RegisteredTool.of(plain), RegisteredTool.of(resilient_tool(plain))
        for member in ("name", "description", "category", "parameters", "requires_permission"):
            assert getattr(guarded, member) == getattr(whole, member)
        assert (guarded.concurrent, guarded.sandbox) == (whole.concurrent, whole.sandbox)
        assert whole.timeout < guarded.timeout <= whole.timeout + 1
        arguments = {"command": "ls", "file_path": "a", "pattern": "*", "url": "http://x.org"}
        assert guarded.effects(arguments, CONTEXT) == whole.effects(arguments, CONTEXT)
        assert guarded.info(arguments) == whole.info(arguments)


async def test_a_tool_of_a_registry_can_be_guarded_and_so_can_a_plain_function(autojump_clock):
    service, breaker = Service(NetworkError("down")), a_breaker(failures=1)
    await run(resilient_tool(RegisteredTool.of(service.tool), breaker=breaker))
    assert breaker.state is CircuitState.OPEN

    async def fetch(name: str) -> str:
        """Fetch something."""
        return name

    assert (await run(resilient_tool(fetch))).text == "x"


async def code_with(agent, service, guarded):
    def answer(request):
        return "done" if request.messages[-1].tool_results else call("fetch", name="x")

    llm = ScriptedProvider(*[answer] * 50)
    await coder(
        agent, llm, ToolRegistry([guarded]), PermissionManager([PermissionRule.allow_all()])
    )


def test_a_wait_is_shown_as_progress_of_the_call():
    service = Service(NetworkError("down"))
    run = run_agent(code_with, service, resilient_tool(service.tool, retry=EVEN), inputs="go")
    assert [chunk.output for chunk in run.of(ToolProgress)] == ["down; attempt 2 in 1.0 s\n"]
    assert [chunk.result.text for chunk in run.of(ToolEnd)] == ["fine"]


async def test_an_interrupt_ends_a_wait_and_counts_as_nothing(autojump_clock):
    breaker = CircuitBreaker("the service", failures=2)
    service = Service(NetworkError("down"))
    slow = Retry(backoff=Backoff(first=20.0, jitter=0))
    guarded = resilient_tool(service.tool, retry=slow, breaker=breaker)
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("coding"), code_with, service, guarded)
        await handle.send_input("go")
        await trio.sleep(5)
        await handle.interrupt()
        assert trio.current_time() == 5
    assert (breaker.statistics().failed, breaker.statistics().running) == (1, 0)


def test_a_cancel_at_every_checkpoint_leaves_nothing_held():
    def scenario():
        service, slots = (
            Service(NetworkError("down"), 2.0, NetworkError("down")),
            ConcurrencyLimit(1),
        )
        breaker = CircuitBreaker("the service")
        guarded = resilient_tool(service.tool, retry=EVEN, breaker=breaker, limits=slots)

        async def agent_fn(agent):
            try:
                await code_with(agent, service, guarded)
            finally:
                assert slots.is_free
                assert breaker.statistics().running == 0

        return Scenario(agent_fn, inputs="go")

    assert cancel_at_every_checkpoint(scenario, at_most=few(15)).violations == ()


async def test_a_slow_tool_gets_more_time_until_it_is_fast_again(autojump_clock):
    service = Service(11.0, 12.0, 11.0, 9.0, 11.0)
    guarded = resilient_tool(service.tool, retry=Retry(attempts=2), slow_timeout=30)
    for took, is_slow in [("12.0", True), ("11.0", True), ("9.0", False)]:
        assert (await run(guarded)).text == took
        assert guarded.is_slow is is_slow
    assert (await run(resilient_tool(service.tool))).status is ToolStatus.TIMEOUT


async def test_a_slow_tool_has_a_limit_too_and_without_one_of_its_own_only_a_mark(autojump_clock):
    hanging = Service(*[99.0] * 4)
    guarded = resilient_tool(hanging.tool, retry=Retry(attempts=2), slow_timeout=30)
    assert "did not finish within 30 seconds" in (await run(guarded)).text
    guarded = resilient_tool(hanging.tool)
    for _ in range(2):
        assert "did not finish within 10 seconds" in (await run(guarded)).text
    assert guarded.is_slow
