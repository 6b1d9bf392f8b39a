"""Who of a team gets a subtask: the agent that says it is good at it."""

import msgspec
import pytest

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore
from greenroom.flow import Plan, Subtask, orchestrator
from greenroom.flow._internal import TeamResult
from greenroom.testing import ScriptedProvider

ROLES = {
    "Researcher": ["web_search", "facts"],
    "Writer": ["draft_outline", "prose"],
    "Software Engineer": ["code_executor", "debugger"],
}


@pytest.mark.checkpoint("5.1 a subtask goes to the agent with the role for it")
async def test_role_matching():
    agents = [
        Agent(ScriptedProvider("done"), name=name.replace(" ", "_"), capabilities=words)
        for name, words in ROLES.items()
    ]
    subtasks = [
        Subtask(words[-1], f"Do what takes {words[-1]}", capability=words[-1])
        for words in ROLES.values()
    ]
    team = orchestrator(ScriptedProvider("All is done."), *agents, planner=Plan("", subtasks[::-1]))
    async with AgentRuntime(InMemoryStore()) as runtime:
        result = await runtime.spawn(AgentSession.new("team"), team).ask("Go.")
    sources = msgspec.convert(result.value, TeamResult).sources
    assert {each.subtask: each.agent for each in sources} == {
        "facts": "Researcher",
        "prose": "Writer",
        "debugger": "Software_Engineer",
    }
