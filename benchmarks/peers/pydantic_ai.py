"""pydantic-ai, with its model for chat completions."""

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from benchmarks.peers import workloads
from benchmarks.sample import Meter

LIMITS = UsageLimits(request_limit=None)


def make_agent(url: str) -> Agent:
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="k"))
    return Agent(model, tools=[workloads.look])


async def steps(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.steps_url(url))
    await workloads.run_steps(meter, lambda: agent.run("go", usage_limits=LIMITS))


async def crowd(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.crowd_url(url))
    await workloads.run_crowd(meter, lambda: agent.run("go", usage_limits=LIMITS))


async def burst(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.burst_url(url))

    async def read() -> int:
        async with agent.run_stream("go") as result:
            texts = result.stream_text(delta=True, debounce_by=None)
            return sum([bool(text) async for text in texts])

    await workloads.read_bursts(meter, read)
