"""A team that researches, calculates and writes, and shares what it finds over a topic."""

import msgspec
import pytest

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore, RunContext
from greenroom.core import TurnStatus
from greenroom.flow import AgentMessage, Plan, Subtask, Topic, orchestrator
from greenroom.flow._internal import SharedInformation, TeamResult
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import calculator

TASK = "Research the average rainfall in Seattle and write a one-paragraph summary"
BUS = Topic[SharedInformation]("findings")


async def share(context: RunContext[None], key: str, value: str) -> str:
    """Tell all who listen what you have found."""
    await BUS.publish(SharedInformation(key, value))
    return f"shared {key}"


def last(request):
    return request.messages[-1].tool_results[-1].text


def team():
    """A researcher that shares what it finds, a calculator, and a writer that asks for sums."""
    researcher = Agent(
        ScriptedProvider(call("share", key="rainfall", value="37.5 inches"), "37.5 inches a year"),
        tools=[share],
        name="researcher",
        capabilities=["research"],
    )
    converter = Agent(
        ScriptedProvider(call("calculator", expression="37.5 * 25.4"), last),
        tools=[calculator],
        name="calculator",
        capabilities=["conversion"],
    )
    writer = Agent(
        ScriptedProvider(
            call("ask_for_help", capability="conversion", question="37.5 inches in mm?"),
            lambda request: f"It rains {last(request)} mm a year in Seattle.",
        ),
        name="writer",
        capabilities=["prose"],
    )
    plan = Plan(
        "",
        [
            Subtask("rainfall", "Find the average rainfall in Seattle", capability="research"),
            Subtask("summary", "Summarise: {rainfall}", after=["rainfall"], capability="prose"),
        ],
    )
    llm = ScriptedProvider(
        lambda request: request.messages[-1].text.splitlines()[-4].removeprefix("| ")
    )
    return orchestrator(llm, researcher, converter, writer, planner=plan, deadline=60)


@pytest.mark.checkpoint("5.5 a team researches and writes, without loops and deadlocks")
async def test_research_and_write_collaboration(autojump_clock):
    heard = []

    async def listener(agent):
        async for message in agent.inputs():
            heard.append(AgentMessage.of(message))  # noqa: PERF401 (until the runtime ends)

    crew = team()
    async with AgentRuntime(InMemoryStore()) as runtime:
        BUS.join(runtime.spawn(AgentSession.new("archive"), listener))
        handle = runtime.spawn(AgentSession.new("team"), crew)
        result = await handle.ask(TASK, timeout=60)
        assert runtime.statistics().running == 2  # of the crew, nobody is left
    assert result.status is TurnStatus.COMPLETED
    told = msgspec.convert(result.value, TeamResult)
    assert told.answer == "It rains 952.5 mm a year in Seattle."
    assert told.missing == {}
    assert [each.agent for each in told.sources] == ["researcher", "writer"]
    # Nobody was idle who was needed, and nobody worked twice.
    assert [
        (each.agent, len(each.completed), each.helped, each.failed) for each in told.reports
    ] == [
        ("researcher", 1, 0, 0),
        ("calculator", 0, 1, 0),
        ("writer", 1, 0, 0),
    ]
    assert [message.payload for message in heard] == [SharedInformation("rainfall", "37.5 inches")]
