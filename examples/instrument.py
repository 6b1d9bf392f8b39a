"""Instruments: one that writes down what agents do, and one that keeps a tool in its folder.

python examples/instrument.py
"""

import trio

import greenroom as gr
from greenroom.core import ModelCall
from greenroom.testing import ScriptedProvider, call


@gr.tool(category="write")
async def publish(folder: str, page: str) -> str:
    """Publish a page in a folder."""
    return f"{page} is in {folder}"


class Drafts:
    """Publishes nothing for real: whatever folder the model asks for, it becomes `drafts`."""

    def before_tool_call(
        self, agent: gr.AgentContext, call: gr.ToolUseBlock
    ) -> dict[str, object] | None:
        """Put another folder in; what stands there now is judged, shown and run."""
        return call.input | {"folder": "drafts"} if call.name == "publish" else None


class Diary:
    """Writes down who did what; for OpenTelemetry it would open and close spans."""

    def before_model_call(self, agent: gr.AgentContext, call: ModelCall) -> None:
        """Note a question."""
        print(f"{'/'.join(agent.lineage)} asks {call.provider}:{call.model}")

    def after_tool_call(
        self,
        agent: gr.AgentContext,
        call: gr.ToolUseBlock,
        result: gr.ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """Note a result, or why there is none."""
        told = result.text.splitlines() if result else [repr(error)]
        print(f"{'/'.join(agent.lineage)} called {call.name}: {told[-1]}")

    def after_turn(self, agent: gr.AgentContext, end: gr.Done) -> None:
        """Note how it ended."""
        print(f"{'/'.join(agent.lineage)} has {end.status}")


async def main() -> None:
    """Ask for a page, and see where it goes."""
    llm = ScriptedProvider(call("publish", folder="/var/www", page="index"), "It is online.")
    tools = gr.ToolRegistry([publish])
    permissions = gr.PermissionManager([gr.PermissionRule.allow_tool("publish")])
    async with gr.AgentRuntime(store=gr.InMemoryStore(), instruments=[Drafts()]) as runtime:
        runtime.instruments.add(Diary())
        session = gr.AgentSession.new("coder")
        handle = runtime.spawn(session, gr.coder, llm, tools, permissions, name="Ann")
        await handle.ask("Publish the index page.")


if __name__ == "__main__":
    trio.run(main)
