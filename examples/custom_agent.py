"""An agent of your own: a coroutine, a tool, a resource and a rule.

    python examples/custom_agent.py

The model is scripted, so this needs no API key; replace it with any other, such as
`open_model("anthropic:…")`.
"""

from dataclasses import dataclass, field

import trio

from greenroom import (
    AgentContext,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    LLMProvider,
    PermissionManager,
    PermissionRule,
    TextComplete,
    ToolEnd,
    ToolRegistry,
    run_tools,
    stream_reply,
    tool,
)
from greenroom.testing import ScriptedProvider, call


@dataclass
class Shelf:
    """State that the agent's tools share; the model never sees it."""

    books: list[str] = field(default_factory=list)


@tool(category="write")
async def add_book(title: str, context: AgentContext) -> str:
    """Put a book on the shelf.

    Args:
        title: The book's title.
        context: Passed by the runtime, hidden from the model.
    """
    shelf = context.resources.get(Shelf)
    assert shelf is not None
    shelf.books.append(title)
    return f"{title} is book number {len(shelf.books)}"


async def librarian(
    agent: AgentInternals, llm: LLMProvider, tools: ToolRegistry, permissions: PermissionManager
) -> None:
    """Keep a shelf of books, one turn for each input."""
    agent.context.resources.insert(Shelf())
    async for message in agent.inputs():
        async with agent.turn(message):
            while True:
                reply = await stream_reply(
                    agent, llm, tools, instructions="You keep a shelf of books."
                )
                if not reply.tool_uses:
                    break
                await run_tools(agent, reply.tool_uses, tools, permissions)


async def main() -> list[str]:
    """Add one book, and print what happens."""
    llm = ScriptedProvider(call("add_book", title="Middlemarch"), "It is on the shelf.")
    tools = ToolRegistry([add_book])
    permissions = PermissionManager([PermissionRule.allow_tool("add_book")])
    seen = []
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        session = AgentSession.new("librarian")
        handle = runtime.spawn(session, librarian, llm, tools, permissions)
        receipt = await handle.send_input("Add Middlemarch, please.")
        async for chunk in handle.stream(receipt):
            match chunk:
                case ToolEnd(result=result):
                    seen.append(f"tool: {result.text}")
                case TextComplete(text=text):
                    seen.append(f"model: {text}")
                case _:
                    pass
    print(*seen, sep="\n")
    return seen


if __name__ == "__main__":
    trio.run(main)
