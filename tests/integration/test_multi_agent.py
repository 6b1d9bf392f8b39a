"""An agent that gives work to others by their roles, and puts together what they have found."""

from greenroom import Agent, SubAgentOutput, SubAgentSpawned, TextComplete
from greenroom.testing import ScriptedProvider, call

TASK = "Research the average rainfall in Seattle and write a one-paragraph summary"
FACT = "Seattle has 952 mm of rain a year."


def worker(name, description, *script):
    return Agent(ScriptedProvider(*script), name=name, description=description)


async def test_each_gets_the_work_of_its_role_and_the_results_come_together():
    researcher = worker("researcher", "Finds facts.", FACT)
    writer = worker("writer", "Writes.", lambda request: f"It rains. {request.messages[-1].text}")

    def hand_on(request):
        (found,) = request.messages[-1].tool_results
        return call("writer", prompt=f"One paragraph: {found.text}")

    def answer(request):
        return request.messages[-1].tool_results[0].text

    lead = ScriptedProvider(call("researcher", prompt="Rainfall in Seattle?"), hand_on, answer)
    desk = Agent(lead, tools=[researcher.as_tool(), writer.as_tool()], name="desk")
    async with desk.stream(TASK) as run:
        chunks = [chunk async for chunk in run]
    assert [c.name for c in chunks if isinstance(c, SubAgentSpawned)] == ["researcher", "writer"]
    assert [
        researcher.llm.requests[0].messages[0].text,
        writer.llm.requests[0].messages[0].text,
    ] == [
        "Rainfall in Seattle?",
        f"One paragraph: {FACT}",
    ]
    assert run.result.output == f"It rains. One paragraph: {FACT}"
    said = [
        c.chunk.text
        for c in chunks
        if isinstance(c, SubAgentOutput) and isinstance(c.chunk, TextComplete)
    ]
    assert said == [FACT, run.result.output]
    # None has seen the conversation of another, and each was asked once.
    assert len(researcher.llm.requests) == len(writer.llm.requests) == 1
