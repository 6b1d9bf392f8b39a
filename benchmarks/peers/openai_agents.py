"""openai-agents, with its model for chat completions and its tracing off."""

from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

from benchmarks.peers import workloads
from benchmarks.sample import Meter
from benchmarks.sizes import STEPS

set_tracing_disabled(True)


def make_agent(url: str) -> Agent:
    client = AsyncOpenAI(base_url=url, api_key="k")
    model = OpenAIChatCompletionsModel(model="m", openai_client=client)
    return Agent(name="bench", model=model, tools=[function_tool(workloads.look)])


async def steps(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.steps_url(url))
    await workloads.run_steps(meter, lambda: Runner.run(agent, "go", max_turns=STEPS + 2))


async def crowd(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.crowd_url(url))
    await workloads.run_crowd(meter, lambda: Runner.run(agent, "go"))


async def burst(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.burst_url(url))

    async def read() -> int:
        count = 0
        async for event in Runner.run_streamed(agent, "go").stream_events():
            is_raw = event.type == "raw_response_event"
            count += is_raw and event.data.type == "response.output_text.delta"
        return count

    await workloads.read_bursts(meter, read)
