"""A coding agent with nothing hidden: the whole loop, written with the primitives alone.

`greenroom.coder` does the same in a few lines, with `stream_reply` and `run_tools`. Start from here
when you want another policy inside the loop. Without a key it runs on the offline model.

    python examples/coder.py "read README.md"    # without a prompt, it opens a terminal session
"""

import sys
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

import trio

import greenroom as gr
from greenroom.llm import BlockDelta, BlockEnd


@dataclass
class Coder:
    """The loop of an agent that reads, edits and runs commands, as far as the rules allow."""

    agent: gr.AgentInternals
    llm: gr.LLMProvider
    tools: gr.ToolRegistry
    rules: gr.PermissionManager

    async def run(self) -> None:
        """Answer inputs until the agent is shut down."""
        while True:
            match await self.agent.receive():
                case gr.Shutdown():
                    return
                case gr.UserInput() | gr.SubAgentResult() | gr.AgentExit() as message:
                    async with self.agent.turn(message):
                        while (reply := await self.reply()).tool_uses:
                            await self.run_calls(reply)
                case gr.Interrupt() | gr.Resume():
                    continue  # no turn is open, and no questions were kept

    async def reply(self) -> gr.Message:
        """Send the model the whole history, and stream its reply to the subscribers."""
        await self.agent.step()
        self.agent.set_state(gr.AgentState.processing())
        self.agent.session.set_model(self.llm.name, self.llm.model)
        await self.agent.session.save(flush=False)  # from here on the input survives a crash
        tools, history = self.tools.definitions(), self.agent.session.history
        request = gr.ModelRequest(messages=history, tools=tools)
        async with self.agent.model_call(self.llm, request) as model_call:
            async with self.llm.stream(request) as stream:
                async for event in stream:
                    if isinstance(event, BlockDelta) and event.kind == "text":
                        await self.agent.send(gr.TextDelta(event.text))
                    elif isinstance(event, BlockEnd) and isinstance(event.block, gr.TextBlock):
                        await self.agent.send(gr.TextComplete(event.block.text))
                reply = model_call.reply = stream.message
                self.agent.session.add_message(reply)
                if reply.usage is not None:
                    self.agent.send_nowait(gr.UsageReport(reply.usage, model=reply.model))
        return reply

    async def run_calls(self, reply: gr.Message) -> None:
        """Ask about each call, record durably that they start, run them, append the results."""
        with ExitStack() as stack:
            scopes = [stack.enter_context(self.agent.tool_call(call)) for call in reply.tool_uses]
            calls = [(scope, await self.may_run(scope.call)) for scope in scopes]
            self.agent.session.mark_tools_started(scope.call.id for scope, yes in calls if yes)
            await self.agent.session.save()
            self.agent.set_state(gr.AgentState.executing_tool(reply.tool_uses[0].name))
            results = [await self.run_call(scope, yes) for scope, yes in calls]
        self.agent.session.add_message(gr.Message.user(results))

    async def run_call(self, scope: gr.ToolCallScope, allowed: bool) -> gr.ToolResultBlock:
        """Run one call, counted by the budgets, or answer that it was not allowed."""
        call = scope.call
        info = self.tools.info(call.name, call.input) if allowed else None
        await self.agent.send(gr.ToolStart(call.id, call.name, call.input, info))
        result = gr.ToolResult.error("The user did not allow this call.", gr.ToolStatus.DENIED)
        if allowed:
            context = self.agent.context.with_tool_use_id(call.id)
            context.on_search = partial(self.rules.screen_reads, call.name, call.input, context)
            async with scope.running():
                result = await self.tools.execute(call.name, call.input, context)
        await self.agent.send(gr.ToolEnd(call.id, result, result.is_error))
        scope.end(result)
        return result.block(call.id)

    async def may_run(self, call: gr.ToolUseBlock) -> bool:
        """Decide by the rules, and ask a person if they say so."""
        tool = self.tools.get(call.name)
        if tool is None:  # the registry answers with the names that exist
            return True
        explanation = self.rules.explain(tool, call.input, self.agent.context)
        if explanation.decision is not gr.RuleDecision.ASK:
            return explanation.decision is gr.RuleDecision.ALLOW
        action = tool.info(call.input).action
        return (await self.agent.request_permission(call.name, action, input=call.input)).allowed


async def main(prompt: str) -> None:
    """Answer one prompt, or open a terminal session."""
    tools, llm = gr.ToolRegistry(gr.builtin_tools()), gr.open_model(None)
    rules = gr.PermissionManager([gr.PermissionRule.allow_category("read")])

    async def coder(agent: gr.AgentInternals) -> None:
        await Coder(agent, llm, tools, rules).run()

    async with gr.AgentRuntime(store=gr.FileStore("sessions")) as runtime:
        session = gr.AgentSession.new("coder")
        handle = runtime.spawn(session, coder, unattended="deny" if prompt else "ask")
        if prompt:
            print((result := await handle.ask(prompt)).text or result.error)
        else:
            await gr.ConsoleRenderer(handle).run()
    await llm.aclose()


if __name__ == "__main__":
    trio.run(main, " ".join(sys.argv[1:]))
