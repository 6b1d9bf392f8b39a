"""langgraph, by langchain's `create_agent` and langchain-openai, without a checkpointer."""

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from benchmarks.peers import workloads
from benchmarks.sample import Meter

GO = {"messages": [{"role": "user", "content": "go"}]}
CONFIG = {"recursion_limit": 100}


def make_agent(url: str) -> object:
    model = ChatOpenAI(model="m", base_url=url, api_key="k", stream_usage=True)
    return create_agent(model, tools=[workloads.look])


async def steps(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.steps_url(url))
    await workloads.run_steps(meter, lambda: agent.ainvoke(GO, config=CONFIG))


async def crowd(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.crowd_url(url))
    await workloads.run_crowd(meter, lambda: agent.ainvoke(GO, config=CONFIG))


async def burst(meter: Meter, url: str) -> None:
    agent = make_agent(workloads.burst_url(url))

    async def read() -> int:
        chunks = agent.astream(GO, stream_mode="messages")
        return sum([bool(chunk.text) async for chunk, _ in chunks])

    await workloads.read_bursts(meter, read)
