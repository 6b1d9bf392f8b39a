"""An agent with a memory: run it twice, and the second run knows what you told the first."""

from greenroom import Agent
from greenroom.memory import SQLiteMemory, memory_tools
from greenroom.testing import ScriptedProvider, call

memory = SQLiteMemory("memory.db")
model = ScriptedProvider(
    call("Recall", query="vegetarian food"),
    lambda request: request.messages[-1].tool_results[0].text,
    call("Remember", text="I'm vegetarian."),
    "I'll keep that in mind.",
)
agent = Agent(model, tools=memory_tools(memory))
print(agent.run_sync("What do I eat?").output)
print(agent.run_sync("I'm vegetarian.").output)
