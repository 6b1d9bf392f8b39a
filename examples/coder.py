"""A coding agent with nothing hidden: the whole loop, written with the primitives alone.

`greenroom.coder` does the same in a few lines, by `stream_reply` and `run_tools`; start from here when
you want another policy. Without a key it runs offline: python examples/coder.py "read README.md"
"""

import sys
from contextlib import ExitStack

import trio

import greenroom as gr
from greenroom import AgentInternals, ToolCallScope
from greenroom.llm import BlockDelta, BlockEnd, ModelRequest


async def coder(
    agent: AgentInternals, llm: gr.LLMProvider, tools: gr.ToolRegistry, rules: gr.PermissionManager
) -> None:
    """Answer inputs until the agent is shut down."""
    while True:
        match await agent.receive():
            case gr.Shutdown():
                return
            case gr.UserInput() | gr.SubAgentResult() | gr.AgentExit() as message:
                async with agent.turn(message):
                    reply = await one_reply(agent, llm, tools)
                    while reply.tool_uses:
                        await run_calls(agent, reply, tools, rules)
                        reply = await one_reply(agent, llm, tools)
            case gr.Interrupt() | gr.Resume():
                continue  # no turn is open, and the session was not loaded to keep its questions


async def one_reply(
    agent: AgentInternals, llm: gr.LLMProvider, tools: gr.ToolRegistry
) -> gr.Message:
    """Call the model with the whole history, and pass on what it says while it says it."""
    await agent.step()
    agent.set_state(gr.AgentState.processing())
    agent.session.set_model(llm.name, llm.model)
    await agent.session.save(flush=False)  # what was said survives this process from here on
    request = ModelRequest(messages=agent.session.history, tools=tools.definitions())
    with agent.model_call(llm, request) as asked:
        async with llm.stream(request) as stream:
            async for event in stream:
                if isinstance(event, BlockDelta) and event.kind == "text":
                    await agent.send(gr.TextDelta(event.text))
                elif isinstance(event, BlockEnd) and isinstance(event.block, gr.TextBlock):
                    await agent.send(gr.TextComplete(event.block.text))
            reply = asked.reply = stream.message
            agent.session.add_message(reply)
            if reply.usage is not None:
                agent.send_nowait(gr.UsageReport(reply.usage, model=reply.model))
    return reply


async def run_calls(
    agent: AgentInternals, reply: gr.Message, tools: gr.ToolRegistry, rules: gr.PermissionManager
) -> None:
    """Ask about each call, make durable that they start, run them, append their results."""
    with ExitStack() as stack:
        scopes = [stack.enter_context(agent.tool_call(call)) for call in reply.tool_uses]
        allowed = [await may_run(agent, scope, tools, rules) for scope in scopes]
        calls = list(zip(scopes, allowed, strict=True))
        agent.session.mark_tools_started(scope.call.id for scope, yes in calls if yes)
        await agent.session.save()
        agent.set_state(gr.AgentState.executing_tool(reply.tool_uses[0].name))
        results = [await run_call(agent, scope, tools, yes) for scope, yes in calls]
    agent.session.add_message(gr.Message.user(results))
    agent.set_state(gr.AgentState.processing())


async def run_call(
    agent: AgentInternals, scope: ToolCallScope, tools: gr.ToolRegistry, allowed: bool
) -> gr.ToolResultBlock:
    """Run one call, where budgets count it, or answer that it was not allowed."""
    call = scope.call
    info = tools.info(call.name, call.input) if allowed else None
    await agent.send(gr.ToolStart(call.id, call.name, call.input, info))
    result = gr.ToolResult.error("The user did not allow this call.", gr.ToolStatus.DENIED)
    if allowed:
        context = agent.context.with_tool_use_id(call.id)
        async with scope.running():
            result = await tools.execute(call.name, call.input, context)
    await agent.send(gr.ToolEnd(call.id, result, result.is_error))
    scope.end(result)
    return result.block(call.id)


async def may_run(
    agent: AgentInternals, scope: ToolCallScope, tools: gr.ToolRegistry, rules: gr.PermissionManager
) -> bool:
    """Decide by the rules, and where they do not know, by a person."""
    call = scope.call
    tool = tools.get(call.name)
    if tool is None:  # the registry answers with the names that exist
        return True
    found = rules.explain(tool, call.input, agent.context)
    if found.decision is not gr.RuleDecision.ASK:
        return found.decision is gr.RuleDecision.ALLOW
    what = tool.info(call.input).action
    return (await agent.request_permission(call.name, what, input=call.input)).allowed


async def main(prompt: str) -> None:
    """Ask one question and print the answer; whatever needs a person is denied."""
    tools = gr.ToolRegistry(gr.builtin_tools())
    rules = gr.PermissionManager([gr.PermissionRule.allow_category("read")])
    session, llm = gr.AgentSession.new("coder"), gr.open_model(None)
    async with gr.AgentRuntime(store=gr.FileStore("sessions")) as runtime:
        handle = runtime.spawn(session, coder, llm, tools, rules, unattended="deny")
        result = await handle.ask(prompt)
        print(result.text or result.error)
    await llm.aclose()


if __name__ == "__main__":
    trio.run(main, " ".join(sys.argv[1:]) or "read README.md")
