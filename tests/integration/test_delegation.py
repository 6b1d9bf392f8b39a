"""A task that is split up: each worker gets what it is good at, with what the others have found."""

import msgspec
import pytest

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
from greenroom.flow import Plan, Subtask, orchestrator
from greenroom.flow._internal import TeamResult
from greenroom.testing import ScriptedProvider


@pytest.mark.checkpoint("5.3 tasks are delegated to the workers for them")
async def test_task_delegation_flow():
    researcher = Agent(
        ScriptedProvider("It is warm."), name="researcher", capabilities=["research"]
    )
    writer = Agent(ScriptedProvider("A warm day."), name="writer", capabilities=["prose"])
    plan = Plan(
        "",
        [
            Subtask("facts", "Find facts", capability="research"),
            Subtask("text", "Write about: {facts}", after=["facts"], capability="prose"),
        ],
    )
    team = orchestrator(ScriptedProvider("Report: a warm day."), writer, researcher, planner=plan)
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("team"), team)
        result = await handle.ask("How is it?")
    assert writer.llm.requests[0].messages[0].text == "Write about: It is warm."
    told = msgspec.convert(result.value, TeamResult)
    assert told.answer == "Report: a warm day."
    assert [each.result for each in told.sources] == ["It is warm.", "A warm day."]
    assert {each.agent: each.completed for each in told.reports} == {
        "researcher": ("facts",),
        "writer": ("text",),
    }
