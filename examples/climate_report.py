"""A report by three agents that talk through a topic, whose log shows who asked whom for what."""

import msgspec
import trio

from greenroom import (
    Agent,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    Message,
    ModelRequest,
    stream_reply,
)
from greenroom.flow import AgentMessage, TaskRequest, Topic
from greenroom.llm import generate_structured
from greenroom.testing import ScriptedProvider, call

desk = Topic[AgentMessage]("desk")


class Step(msgspec.Struct):
    """A step of the plan, and the capability that it needs."""

    id: str
    capability: str
    goal: str


class Steps(msgspec.Struct):
    """The plan, as the model answers it."""

    steps: list[Step]


def search(query: str) -> str:
    """Search the web."""
    return "IPCC: the sea rises 3.7 mm a year, heat waves come 2.8 times as often."


team = [  # your program would use models such as "anthropic:claude-sonnet-5-5"
    Agent(
        ScriptedProvider(
            call("search", query="climate change impacts"),
            "The sea rises 3.7 mm a year; heat waves come 2.8 times as often (IPCC).",
        ),
        tools=[search],
        capabilities=["research"],
        name="researcher",
    ),
    Agent(
        ScriptedProvider("It gets warmer.\n\nThe sea rises 3.7 mm a year.\n\nHeat waves multiply."),
        instructions="Write three paragraphs about the findings.",
        capabilities=["writing"],
        name="writer",
    ),
]
planner = ScriptedProvider(
    call(
        "final_answer",
        steps=[
            {"id": "facts", "capability": "research", "goal": "Find impacts of climate change"},
            {"id": "summary", "capability": "writing", "goal": "Write a summary"},
        ],
    ),
    lambda request: request.messages[-1].text.rpartition("\n\nsummary: ")[2],
)


async def worker(agent: AgentInternals, role: Agent) -> None:
    """Do the tasks that come over the desk, and answer there."""
    async for message in agent.inputs():
        async with agent.turn(message):
            result = await role.run(message.text)
            request = AgentMessage.of(message)
            if request and request.kind == "task_request":
                await desk.publish(request.respond(result.output))


async def lead(agent: AgentInternals, llm: ScriptedProvider) -> None:
    """Plan, give each step to a capable agent, and combine the results into one answer."""
    async for message in agent.inputs():
        async with agent.turn(message):
            results: dict[str, object] = {}
            plan = ModelRequest(messages=[Message.user(f"Plan: {message.text}")])
            for step in (await generate_structured(llm, plan, Steps)).steps:
                who = next(each.name for each in team if step.capability in each.capabilities)
                task = TaskRequest(step.id, step.goal, context=dict(results))
                await desk.publish(AgentMessage("", who, content=task, correlation_id=step.id))
                reply = AgentMessage.of(await agent.receive())
                if reply and reply.kind == "task_response":
                    results[step.id] = reply.result
            report = "\n\n".join(f"{id_}: {result}" for id_, result in results.items())
            question = Message.user(f"Answer: {message.text}\n\n{report}")
            await stream_reply(agent, llm, messages=[question])


async def main() -> None:
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("lead"), lead, planner)
        desk.join(handle)
        for role in team:
            desk.join(runtime.spawn(AgentSession.new(role.name), worker, role))
        print((await handle.ask("Research climate change, in three paragraphs")).text)
    print("\nThe message log:")
    for message in desk.log:
        print(f"{message.sender} → {message.to}: {message.text}")


trio.run(main)
