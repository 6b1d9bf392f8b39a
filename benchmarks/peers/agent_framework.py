"""agent-framework, with its client for chat completions."""

from agent_framework import Agent
from agent_framework.openai import OpenAIChatCompletionClient

from benchmarks.peers import workloads
from benchmarks.sample import Meter


def make_agent(url: str) -> Agent:
    client = OpenAIChatCompletionClient(model="m", api_key="k", base_url=url)
    return Agent(client, tools=[workloads.look])


async def steps(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.steps_url(url))
    await workloads.run_steps(meter, lambda: agent.run("go"))


async def crowd(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.crowd_url(url))
    await workloads.run_crowd(meter, lambda: agent.run("go"))


async def burst(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.burst_url(url))

    async def read() -> int:
        return sum([bool(update.text) async for update in agent.run("go", stream=True)])

    await workloads.read_bursts(meter, read)
