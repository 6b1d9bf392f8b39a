"""Failures of one component that concern others: what each of them is told, and does."""

import json

import pytest
import trio

from greenroom import Agent, Custom, tool
from greenroom.agents import resilient_tool
from greenroom.flow import (
    ModelPlanner,
    Plan,
    RecoveryPolicy,
    Subtask,
    orchestrator,
    plan_and_execute,
)
from greenroom.resilience import Backoff, Retry
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.testing._internal import run_agent_async
from tests.flow.planned import Planned


async def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


async def test_a_model_that_invents_a_tool_is_told_which_there_are_and_another_one_goes_on():
    able = ScriptedProvider(call("look", place="here"), name="able")
    policy = RecoveryPolicy(fallback=[able])
    inventive = ScriptedProvider(call("find", place="a"), call("find", place="b"), "Nothing.")
    ended = await run_agent_async(Agent(policy.model(inventive), tools=[look]), inputs="Look.")
    assert ended.text == "Nothing."
    results = [each for message in able.requests[0].messages for each in message.tool_results]
    assert [each.is_error for each in results] == [True, True]
    told = "There is no tool named 'find'. The tools are: look."
    assert [each.text for each in results] == [told, told]


@pytest.mark.parametrize("is_retried", [True, False])
async def test_a_slow_tool_gets_more_time_and_the_planner_plans_without_it(
    is_retried, autojump_clock
):
    @tool(timeout=10.0, idempotent=True)
    async def fetch() -> str:
        """Fetch."""
        await trio.sleep(15)
        return "fetched"

    retry = Retry(attempts=2, backoff=Backoff(first=1.0, jitter=0)) if is_retried else None
    guarded = resilient_tool(fetch, retry=retry, slow_timeout=20)
    drafts = ({"id": "other", "goal": "Do without"},)
    llm = ScriptedProvider(json.dumps({"subtasks": drafts}))
    planned = Planned(
        Plan("", [Subtask("a", "", tool="fetch", critical=True)]),
        Agent(ScriptedProvider("Done without.")),
        tools=[guarded],
        planner=ModelPlanner(llm),
    )
    await planned.carry_out()
    assert planned.run.results == ({"a": "fetched"} if is_retried else {"other": "Done without."})
    assert guarded.is_slow
    told = [request.messages[-1].text for request in llm.requests]
    assert all("fetch: Fetch. (slow at present: a call has timed out)" in text for text in told)
    assert len(told) == (not is_retried)


async def test_a_plan_is_made_without_memories_if_they_can_t_be_recalled_and_it_is_told():
    async def recall(goal):
        raise OSError("no disk")

    llm = ScriptedProvider('{"subtasks": [{"id": "a", "goal": "Look"}]}', "Nothing.", "It is so.")
    ended = await run_agent_async(plan_and_execute(llm, [look], recall=recall), inputs="Look.")
    assert ended.text == "It is so."
    assert "Look." in llm.requests[0].messages[-1].text
    assert "What is known" not in llm.requests[0].messages[-1].text
    assert [each.text for each in ended.of(Custom) if each.kind == "memory.failed"] == [
        "nothing was recalled: OSError: no disk"
    ]


async def test_the_work_of_a_silent_agent_goes_to_another_and_is_planned_anew_without_one(
    autojump_clock,
):
    def silent():
        return Agent(ScriptedProvider(*[Reply("It", hangs=True)] * 9), name="silent")

    spare = Agent(ScriptedProvider("It is done."), name="spare")
    plan = Plan("", [Subtask("a", "Do a", critical=True)])
    team = orchestrator(ScriptedProvider(), silent(), spare, planner=plan, patience=30)
    found = (await team.run("Go.")).output
    assert found.answer == "It is done."
    assert [(each.agent, each.failed) for each in found.reports] == [("silent", 1), ("spare", 0)]

    class Other(Plan, frozen=True):
        async def revise(self, run, failure):
            assert "silent for 30 seconds" in failure.error
            return Plan("", [Subtask("b", "", tool="look", arguments={"place": "here"})])

    planned = Planned(plan, silent(), tools=[look], planner=Other("", ()), patience=30)
    await planned.carry_out()
    assert planned.run.results == {"b": "nothing in here"}
