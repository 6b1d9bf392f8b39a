"""A report by three agents that talk over a desk: who asked whom for what is its message log."""

import msgspec
import trio

from greenroom import (
    Agent,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    Message,
    stream_reply,
)
from greenroom.llm import ModelRequest, generate_structured
from greenroom.teams import AgentMessage, TaskRequest, TaskResponse, Topic
from greenroom.testing import ScriptedProvider, call

desk = Topic[AgentMessage]("desk")


class Step(msgspec.Struct):
    """Something to do, and who is good at it."""

    id: str
    capability: str
    goal: str


class Steps(msgspec.Struct):
    """What the model answers when it is asked for a plan."""

    steps: list[Step]


def search(query: str) -> str:
    """Search the web."""
    return "IPCC: the sea rises 3.7 mm a year, heat waves come 2.8 times as often."


team = [  # in a program of yours, their models are called "anthropic:claude-sonnet-5"
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
        instructions="Write three paragraphs of what was found.",
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
    """Do what the desk asks for, and answer over the desk."""
    async for message in agent.inputs():
        async with agent.turn(message):
            result = await role.run(message.text)
            request = AgentMessage.of(message)
            if request and isinstance(task := request.payload, TaskRequest):
                await desk.publish(request.reply(TaskResponse(task.task_id, result.output)))


async def lead(agent: AgentInternals, llm: ScriptedProvider) -> None:
    """Plan, have each step done by who is good at it, and make one answer of the results."""
    async for message in agent.inputs():
        async with agent.turn(message):
            found: dict[str, object] = {}
            plan = ModelRequest(messages=[Message.user(f"Plan: {message.text}")])
            for step in (await generate_structured(llm, plan, Steps)).steps:
                who = next(each.name for each in team if step.capability in each.capabilities)
                task = TaskRequest(step.id, step.goal, context=dict(found))
                await desk.publish(AgentMessage("", who, content=task, correlation_id=step.id))
                reply = AgentMessage.of(await agent.receive())
                if reply and isinstance(done := reply.payload, TaskResponse):
                    found[done.task_id] = done.result
            results = "\n\n".join(f"{id_}: {result}" for id_, result in found.items())
            told = Message.user(f"Answer: {message.text}\n\n{results}")
            await stream_reply(agent, llm, messages=[told])


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
