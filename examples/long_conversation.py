"""A conversation that outgrows the model's window: the user's words stay, the rest is a summary."""

from greenroom import Agent, AgentSession, InMemoryStore
from greenroom.testing import ScriptedProvider

model = ScriptedProvider(*["Noted."] * 40, name="groq", model="openai/gpt-oss-20b")
agent = Agent(model, instructions="You plan a journey.")  # its known window: 131,072 tokens
session = AgentSession.new("guide", store=InMemoryStore())

agent.run_sync("I'm vegetarian.", session=session)
for number in range(30):
    agent.run_sync(f"Page {number}: " + "A lovely town. " * 1_000, session=session)

summary, *rest = session.history
print(len(rest), "messages, and a summary of the others:")
print(*summary.text.split("\n\n")[1:5], sep="\n")
