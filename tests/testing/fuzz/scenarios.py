"""The fuzzed scenarios: the coder with all it can do, and a loop whose turns are steered."""

from contextlib import suppress
from dataclasses import dataclass

import trio

from greenroom.agents import coder, run_tools, stream_reply
from greenroom.core import (
    AgentContext,
    Done,
    Message,
    Shutdown,
    SubAgentResult,
    TextBlock,
    TextComplete,
    TextDelta,
    ToolEnd,
    ToolError,
    ToolResult,
    ToolStart,
    ToolUseBlock,
    UsageReport,
    UserInput,
)
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.resilience import Backoff
from greenroom.runtime import fan_out, spawn_subagent
from greenroom.session import AgentSession
from greenroom.testing import ScriptedApprover, ScriptedProvider, call
from greenroom.testing.fuzz import Scenario
from greenroom.tools import ToolRegistry, tool


@dataclass
class Oven:
    """Where the trays of a run are: one that was put in has to come out."""

    put_in: int = 0
    taken_out: int = 0


oven = Oven()
"""The oven of the run in hand."""


@tool(concurrent=True, timeout=7200)
async def bake(loaves: int, context: AgentContext) -> str:
    """Bake bread, and take it out whatever happens."""
    oven.put_in += 1
    try:
        context.progress(f"{loaves} loaves are in")
        await trio.sleep(60 * loaves)
    finally:
        with context.cleanup(2.0):
            await trio.sleep(1)
            oven.taken_out += 1
    return f"{loaves} baked"


@tool
async def sell(loaves: int) -> str:
    """Sell bread; a person is asked before."""
    await trio.sleep(1)
    return f"{loaves} sold"


@tool
async def burn() -> str:
    """Burn everything."""
    await trio.sleep(1)
    raise ToolError("too hot")


@tool
async def steal() -> str:
    """Take what is not yours; a rule forbids it."""
    return "gone"


TOOLS = ToolRegistry([bake, sell, burn, steal])


def rules():
    return PermissionManager(
        [
            PermissionRule.allow_tool("bake"),
            PermissionRule.allow_tool("burn"),
            PermissionRule.deny_tool("steal"),
        ]
    )


def baker(request):
    """Answer as the conversation stands, which may have been cut anywhere."""
    last, asked = request.messages[-1], [m for m in request.messages if m.tool_uses]
    if not last.tool_results:
        return ORDERS.get(last.text, lambda: f"You said: {last.text}")()
    if any(tool_use.name == "Task" for tool_use in asked[-1].tool_uses):
        return to_the_shop()
    return "Done."


def baked_and_delegated():
    task = call("Task", description="bake rolls", prompt="Bake rolls.")
    return [TextBlock("To work."), call("bake", loaves=1), call("bake", loaves=3), task]


def to_the_shop():
    calls = [call("sell", loaves=2), call("steal"), call("burn"), call("no_such_tool")]
    return [TextBlock("To the shop."), *calls]


ORDERS = {
    "Bread for everybody!": baked_and_delegated,
    "Bake rolls.": lambda: [call("bake", loaves=2), call("sell", loaves=9)],
}


def bakery(agent_fn=coder):
    """The coder: parallel tools with clean-up, a subagent, prompts, a denied and a failing call."""
    global oven  # noqa: PLW0603 (a run has one oven, and the tools are made once)
    oven = Oven()
    return Scenario(
        agent_fn,
        ScriptedProvider(*[baker] * 50),
        TOOLS,
        rules(),
        person=customers,
        approver=ScriptedApprover(*["allow"] * 10),
    )


async def customers(handle):
    """Order, and while the oven is hot say something else."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.ask, "Bread for everybody!")
        await trio.sleep(30)
        await handle.send_input("And a coffee.")


def every_tray_comes_out(trial):
    """Clean-up under `cleanup(grace)` has run to its end, unless the agent was killed."""
    if trial.mode != "kill":
        assert oven.put_in == oven.taken_out, f"{oven}"


def what_was_said_is_kept(trial):
    """Each text that was streamed, as far as it came, is in the history."""
    for session_id, chunks in trial.streams.items():
        kept = [m.text for m in trial.stored_histories.get(session_id, ()) if m.role == "assistant"]
        said = ""
        for chunk in chunks:
            if isinstance(chunk, TextDelta):
                said += chunk.text
            elif isinstance(chunk, (TextComplete, Done)):
                assert not said or any(text.startswith(said) for text in kept), f"{said!r} is lost"
                said = ""


def every_reply_is_billed(trial):
    """What a kept reply has used is reported, also where the reply was cut off."""
    for session_id, chunks in trial.streams.items():
        used = [m.usage for m in trial.stored_histories.get(session_id, ()) if m.usage is not None]
        told = [chunk.usage for chunk in chunks if isinstance(chunk, UsageReport)]
        assert len(told) >= len(used), f"{session_id}: {len(used)} replies, {len(told)} bills"


OF_THE_BAKERY = (every_tray_comes_out, what_was_said_is_kept, every_reply_is_billed)


async def steered_coder(agent, llm, tools, permissions):
    """A loop whose turns take what is said meanwhile."""
    async for message in agent.inputs():
        async with agent.turn(message, steer=True):
            while True:
                reply = await stream_reply(agent, llm, tools)
                if not reply.tool_uses:
                    break
                await run_tools(agent, reply.tool_uses, tools, permissions)


async def manager(agent):
    """A loop over `receive()` that gives work away, goes on, and is told of the result later."""
    while True:
        match await agent.receive():
            case UserInput() as message:
                async with agent.turn(message):
                    await agent.step()
                    agent.spawn(AgentSession.new("worker"), worker, message.text)
                    say(agent, "on its way")
            case SubAgentResult() as message:
                async with agent.turn(message):
                    say(agent, f"back: {message.text}")
            case Shutdown():
                return


async def worker(agent, text):
    agent.spawn(AgentSession.new("clerk"), clerk, detached=True)
    await agent.request_permission("Tool", "work", timeout=30)
    with agent.budget(seconds=100):
        await trio.sleep(10)
    say(agent, f"did {text}")


async def clerk(agent):
    """Detached: it outlives the one who started it."""
    await trio.sleep(50)
    say(agent, "filed")


def say(agent, text):
    agent.session.add_message(Message.assistant(text))
    agent.send_nowait(TextComplete(text))


async def visitors(handle):
    """Say several things at once, and leave before all is answered."""
    for text in ("one", "two"):
        handle.send_input_nowait(text)
    with trio.move_on_after(5):
        await handle.ask("three")
    await trio.sleep(40)


def office():
    """Background subagents, a detached one, prompts that run out, input that is queued."""
    return Scenario(manager, person=visitors, approver=ScriptedApprover("allow", "deny"))


async def producer(agent):
    """Ask several agents at once under a budget, beside one that is restarted after a crash."""
    supervisor = agent.supervisor("one_for_all")
    lives = iter(range(10))
    supervisor.spawn(AgentSession.new("actor"), performer, lives, restart="transient")
    supervisor.spawn(AgentSession.new("stand-in"), stand_in, restart="permanent")
    async for message in agent.inputs():
        async with agent.turn(message):
            with agent.budget(seconds=30, tool_calls=5):
                takes = await fan_out(agent, take, inputs=["one", "two", "three"], until=2)
            say(agent, " ".join(result.text for result in takes if result is not None))


async def performer(agent, lives):
    """Crash in the first life, and live on in the second."""
    await trio.sleep(3)
    if next(lives) == 0:
        raise RuntimeError("stage fright")
    async for message in agent.inputs():
        async with agent.turn(message):
            say(agent, message.text)


async def stand_in(agent):
    """Wait with a clean-up of one's own."""
    try:
        await trio.sleep_forever()
    finally:
        with agent.cleanup(1):
            await trio.sleep(0.5)


async def take(agent):
    async for message in agent.inputs():
        async with agent.turn(message) as turn:
            turn.set_result(len(message.text))
            await trio.sleep(len(message.text))
            say(agent, message.text)


async def waiter(agent):
    """A loop with a task of its own beside it, and a tool that the client runs."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        async for message in agent.inputs():
            async with agent.turn(message):
                order = ToolUseBlock(f"order of {message.text}", "Kitchen")
                agent.session.add_message(Message.assistant([order]))
                await agent.send(ToolStart(order.id, order.name))
                result = ToolResult.error("sold out")
                with trio.move_on_after(20):
                    result = await agent.wait_tool_result(order.id)
                agent.session.add_message(Message.user([result.block(order.id)]))
                await agent.send(ToolEnd(order.id, result, result.is_error))
                say(agent, "enjoy")
        nursery.cancel_scope.cancel()


async def guests(handle):
    """Bring a result in time, one too late, and one that nobody has ordered."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(handle.ask, "soup")
        await trio.sleep(5)
        await bring(handle, "soup")
        nursery.start_soon(handle.ask, "fish")
        await trio.sleep(1)
        await handle.send_input("wine")
        await bring(handle, "cheese")


async def bring(handle, what):
    with suppress(ToolError):  # nobody waits for it any more
        await handle.send_tool_result(f"order of {what}", ToolResult.ok(what))


def restaurant():
    """A tool that the client runs, and an agent with tasks of its own."""
    return Scenario(waiter, person=guests)


async def manager_of_managers(agent, depth=3):
    """Delegate all the way down, and leave something running at each level."""
    async for message in agent.inputs():
        async with agent.turn(message):
            if depth:
                below = agent.spawn(AgentSession.new("below"), manager_of_managers, depth - 1)
                spawn_subagent(AgentSession.new("aside"), take)
                await below.ask(message.text, timeout=4 * depth)
            await agent.request_permission("Tool", f"at depth {depth}", timeout=5)
            say(agent, message.text)


def company():
    """Subagents of subagents, with prompts that bubble up."""
    return Scenario(manager_of_managers, inputs="Go!", approver=ScriptedApprover(*["allow"] * 9))


def studio():
    """Supervised agents and restarts, a fan-out that cancels who is not needed, budgets."""
    return Scenario(producer, inputs=["Action!", "Once more!"])


async def labourer(agent):
    """Crash on the word, and take a while to leave."""
    try:
        async for message in agent.inputs():
            async with agent.turn(message):
                await trio.sleep(1)
                if message.text == "crash":
                    raise ValueError("broken")
    finally:
        with agent.cleanup(2):
            await trio.sleep(1)


async def foreman(agent):
    """Keep a group that outlives turns, and crash one of it, or one of a supervisor below."""
    group = agent.supervisor("rest_for_one", intensity=100, backoff=Backoff(jitter=0))
    fragile = group.spawn(AgentSession.new("labourer"), labourer, restart="permanent")
    group.spawn(AgentSession.new("labourer"), labourer, restart="transient")
    below = group.supervisor(intensity=0)
    deep = below.spawn(AgentSession.new("labourer"), labourer, restart="permanent")
    agent.monitor(fragile)
    async for message in agent.inputs():
        async with agent.turn(message):
            for handle in (deep, fragile):
                await handle.send_input("crash")
                await handle.ask("work")
            say(agent, "done")


def site():
    """A restarted group, a supervisor in it that gives up, and a monitored agent."""
    return Scenario(foreman, inputs=["build", "build on"])
