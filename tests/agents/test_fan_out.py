"""A tool that fans out to subagents, run as any other tool is."""

import trio
from trio.testing import wait_all_tasks_blocked

from greenroom.agents import run_tools, stream_reply
from greenroom.core import AgentContext, SubAgentComplete, ToolEnd, ToolStart, TurnStatus
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime, fan_out
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool


async def talker(agent, llm):
    async for message in agent.inputs():
        async with agent.turn(message):
            await stream_reply(agent, llm)


async def lead(agent, llm, ask_subagent):
    """Answer with the help of a tool that asks a subagent for each word."""

    @tool
    async def survey(words: str, context: AgentContext) -> str:
        """Ask about each word."""
        try:
            results = await fan_out(agent, *ask_subagent, inputs=words.split(), concurrency=2)
        finally:
            with context.cleanup(5):
                await trio.lowlevel.checkpoint()
        return ", ".join(result.text or result.error for result in results)

    permissions = PermissionManager([PermissionRule.allow_all()])
    tools = ToolRegistry([survey])
    async for message in agent.inputs():
        async with agent.turn(message):
            while (reply := await stream_reply(agent, llm, tools)).tool_uses:
                await run_tools(agent, reply.tool_uses, tools, permissions)


async def test_its_answers_go_back_to_the_model_once():
    llm = ScriptedProvider(call("survey", words="a b c"), "all fine")
    below = ScriptedProvider("yes", "yes", "yes")
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("lead"), lead, llm, (talker, below))
        with trio.fail_after(60):
            assert (await handle.ask("go")).text == "all fine"
        (answer,) = llm.requests[1].messages[-1].tool_results
        assert answer.text == "yes, yes, yes"
        # Nothing of it came as an input of its own: two requests, and the agent is idle.
        await wait_all_tasks_blocked()
        assert len(llm.requests) == 2
        assert len(await handle.children()) == 3
        assert runtime.list_active() == (handle.session_id,)


async def hangs(agent):
    async for message in agent.inputs():
        async with agent.turn(message):
            await trio.sleep_forever()


async def test_an_interrupt_ends_it_with_its_subagents_and_names_them():
    llm = ScriptedProvider(call("survey", words="a b c"), "after that")
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("lead"), lead, llm, (hangs,))
        await handle.send_input("go")
        with trio.fail_after(60):
            while (await handle.statistics()).subagents < 2:
                await wait_all_tasks_blocked()
            report = await handle.interrupt()
        (use,) = (await handle.history())[1].tool_uses
        the_tool = f"tool survey ({use.id})"
        assert report.stopped[0] == the_tool
        below = sorted(what.split(" (")[0] for what in report.stopped[1:])
        assert below == ["subagent worker 1", "subagent worker 2"]
        assert report.cleaned == (the_tool,)
        assert (report.abandoned, report.repaired) == ((), (use.id,))
        (result,) = (await handle.history())[-1].tool_results
        assert (result.tool_use_id, result.is_error) == (use.id, True)
        assert runtime.list_active() == (handle.session_id,)
        with trio.fail_after(60):
            assert (await handle.ask("and now?")).status is TurnStatus.COMPLETED
        chunks = handle.subscribe("all")
    told = [chunk async for chunk in chunks]
    assert sum(isinstance(chunk, SubAgentComplete) for chunk in told) == 2
    starts, ends = ([c.id for c in told if isinstance(c, kind)] for kind in (ToolStart, ToolEnd))
    assert starts == ends == [use.id]
