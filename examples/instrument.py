"""Instruments: one that logs what agents do, and one that restricts a tool to a folder.

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
    """Publishes only drafts: replaces any folder that the model asks for by `drafts`."""

    def before_tool_call(
        self, agent: gr.AgentContext, call: gr.ToolUseBlock
    ) -> dict[str, object] | None:
        """Replace the folder; the new input is judged, shown and run."""
        return call.input | {"folder": "drafts"} if call.name == "publish" else None


class Diary:
    """Logs who did what; for OpenTelemetry it would open and close spans."""

    def before_model_call(self, agent: gr.AgentContext, call: ModelCall) -> None:
        """Log a question."""
        print(f"{'/'.join(agent.lineage)} asks {call.provider}:{call.model}")

    def after_tool_call(
        self,
        agent: gr.AgentContext,
        call: gr.ToolUseBlock,
        result: gr.ToolResult | None,
        error: BaseException | None,
    ) -> None:
        """Log a result, or the error."""
        lines = result.text.splitlines() if result else [repr(error)]
        print(f"{'/'.join(agent.lineage)} called {call.name}: {lines[-1]}")

    def after_turn(self, agent: gr.AgentContext, end: gr.Done) -> None:
        """Log how the turn ended."""
        print(f"{'/'.join(agent.lineage)} has {end.status}")


async def main() -> None:
    """Ask for a page, and watch where it goes."""
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
