"""Resilience: a model that fails, another to fall back on, and a breaker around a tool.

    python examples/resilience.py

The models are scripted, so this needs no API key, and the delays are short.
"""

import trio

import greenroom as gr
from greenroom import ModelRequest
from greenroom.agents import resilient_tool
from greenroom.llm import ModelOverloadedError, resilient
from greenroom.resilience import Backoff, CircuitBreaker, Retry
from greenroom.testing import ScriptedProvider, call

ALLOW = gr.PermissionManager([gr.PermissionRule.allow_all()])
QUICK = Retry(attempts=2, backoff=Backoff(first=0.01))


@gr.tool(category="read")
async def look_up(word: str) -> str:
    """Look up a word in the dictionary."""
    raise ConnectionError("the dictionary does not answer")


def busy(_: ModelRequest) -> str:
    """Fail as an overloaded model does."""
    raise ModelOverloadedError("the first model is overloaded")


async def tell(handle: gr.AgentHandle) -> None:
    """Print what an agent's subscribers see of the failures."""
    async with handle.subscribe() as chunks:
        async for chunk in chunks:
            if isinstance(chunk, gr.Custom):
                print(f"{chunk.kind}: {chunk.text.partition(' in 0.')[0]}")
            elif isinstance(chunk, gr.ToolEnd):
                print(f"look_up: {chunk.result.text.partition('.')[0]}")
            elif isinstance(chunk, gr.TextComplete):
                print("reply:", chunk.text)
            elif isinstance(chunk, gr.Done):
                return


async def main() -> None:
    """Ask an agent whose first model fails, and whose tool fails as well."""
    first = ScriptedProvider(*[busy] * 6)
    words = [call("look_up", word=word) for word in ("actor", "stage")]
    second = ScriptedProvider(*words, "I can't look it up.", name="second")
    breaker = CircuitBreaker("the first model", failures=3)
    llm = resilient(first, retry=QUICK, fallback=[second], breaker=breaker)
    guarded = resilient_tool(look_up, breaker=CircuitBreaker("the dictionary", failures=1))
    async with gr.AgentRuntime(store=gr.InMemoryStore()) as runtime, trio.open_nursery() as nursery:
        session = gr.AgentSession.new("coder")
        tools = gr.ToolRegistry([guarded])
        handle = runtime.spawn(session, gr.coder, llm, tools, ALLOW)
        nursery.start_soon(tell, handle)
        await handle.send_input("What is an actor?")
    print("the first model's circuit is", breaker.state)


if __name__ == "__main__":
    trio.run(main)
