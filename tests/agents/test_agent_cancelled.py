"""An `Agent` with tools, guards and another one inside, cancelled at every checkpoint."""

import pytest
import trio

from greenroom import Agent, Guard, RunContext
from greenroom.testing import Scenario, ScriptedProvider, call, cancel_at_every_checkpoint
from tests.conftest import few


def scenario(delegates):
    """An agent whose tool waits, and which asks another one that has a tool of its own."""

    async def look(context: RunContext) -> str:
        """Look."""
        await trio.sleep(60)
        return f"rain at step {context.step}"

    async def pass_on(context, text):
        await trio.sleep(1)

    def inner(request):
        return "It rains." if request.messages[-1].tool_results else call("look")

    helper = Agent(
        ScriptedProvider(*[inner] * 50), tools=[look], name="helper", description="Looks."
    )

    async def ask(question: str) -> str:
        """Ask the helper."""
        async with helper.stream(question) as run:
            return "".join([piece async for piece in run.text()])

    other = [ask] if delegates == "stream" else [helper.as_tool("ask")]

    def outer(request):
        results = request.messages[-1].tool_results
        if not results:
            return call("look")
        if "rain at" in results[0].text:
            return call("ask", **({"question": "?"} if delegates == "stream" else {"prompt": "?"}))
        return "Take an umbrella."

    guards = [Guard(pass_on, on=on) for on in ("input", "text", "output")]
    agent = Agent(ScriptedProvider(*[outer] * 50), tools=[look, *other], guards=guards)
    return Scenario(agent, inputs="Look!")


@pytest.mark.parametrize("delegates", ["stream", "as_tool"])
def test_a_cancel_at_any_checkpoint_leaves_nothing_behind(delegates):
    report = cancel_at_every_checkpoint(lambda: scenario(delegates), at_most=few(24))
    assert report.violations == ()
