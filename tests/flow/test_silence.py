"""Silent agents, and subtasks that another agent takes over."""

import pytest
import trio

from greenroom import Agent, tool
from greenroom.flow import Plan, Subtask
from greenroom.llm import ModelOverloadedError
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import Reply, ScriptedProvider, call
from tests.flow.planned import Planned

BUSY = Reply("I am", error=ModelOverloadedError("busy"))


class GoOn:
    """A recovery by which another agent always continues."""

    async def recover(self, run, failure):
        return "go_on"


def alternate(*agents):
    """An agent function that is another agent each time."""
    left = iter(agents)

    async def work(internals):
        await next(left)(internals)

    return work


async def carry_out(*agents, **options):
    planned = Planned(Plan("", [Subtask("a", "Do a")]), alternate(*agents), **options)
    await planned.carry_out()
    return planned


async def test_the_next_agent_goes_on_in_the_conversation(autojump_clock):
    made = []

    async def make(what: str) -> str:
        """Make."""
        made.append(what)
        return f"made {what}"

    second = ScriptedProvider("It is made.")
    first = Agent(ScriptedProvider(call("make", what="a"), BUSY), tools=[make])
    planned = await carry_out(first, Agent(second), recovery=GoOn())
    assert planned.run.results == {"a": "It is made."}
    assert made == ["a"]
    asked = second.requests[0].messages
    assert asked[0].text == "Do a"
    assert asked[2].tool_results[0].text == "made a"
    assert asked[-1].text == (
        "Take this over: go on where the work has stopped, and do nothing twice."
        " It had stopped with: busy (try again later)"
    )
    assert planned.steps.count("a pending: busy (try again later)") == 1


async def test_an_answer_that_was_refused_is_not_the_result(autojump_clock):
    first = Agent(ScriptedProvider("Many."), output_type=int, output_retries=0)
    planned = await carry_out(first, Agent(ScriptedProvider("Seven.")), recovery=GoOn())
    assert planned.run.results == {"a": "Seven."}


async def test_a_call_that_may_have_had_its_effect_is_asked_about(autojump_clock):
    @tool
    async def make() -> str:
        """Make."""
        await trio.sleep_forever()
        return ""

    agents = Agent(ScriptedProvider(call("make")), tools=[make]), Agent(ScriptedProvider())
    planned = await carry_out(*agents, recovery=GoOn(), patience=10)
    assert "the call of make had started" in planned.run.state("a").error
    assert [request.action for request in planned.asked] == ["Run the subtask a again"]
    assert trio.current_time() == pytest.approx(10, abs=0.1)


async def test_agents_are_replaced_as_often_as_the_policy_says(autojump_clock):
    agents = [Agent(ScriptedProvider(BUSY)) for _ in range(5)]
    planned = await carry_out(*agents, recovery=GoOn())
    assert planned.run.state("a").failures == 3


async def test_a_silent_agent_has_failed_and_one_that_asks_a_person_has_not(autojump_clock):
    silent = Agent(ScriptedProvider(Reply("I", hangs=True)))
    planned = await carry_out(silent, patience=10)
    assert planned.run.errors == {"a": "it was silent for 10 seconds"}
    assert trio.current_time() == pytest.approx(10, abs=0.1)

    async def make() -> str:
        """Make."""
        return "made"

    asks = PermissionManager([PermissionRule.ask_for_tool("make")])
    agent = Agent(ScriptedProvider(call("make"), "It is made."), tools=[make], permissions=asks)
    planned = Planned(Plan("", [Subtask("a", "Do a")]), agent, patience=10)

    async def attend(handle):
        async with handle.subscribe(answers=True):
            await trio.sleep(100)
            (request,) = await handle.pending()
            await handle.respond_permission(request.request_id, "allow")
            await trio.sleep(1)

    async with planned.spawn() as handle, trio.open_nursery() as nursery:
        nursery.start_soon(attend, handle)
        await handle.ask("Go.")
    assert planned.run.results == {"a": "It is made."}
