"""Go on with a conversation by its name, even if the last process was killed in the middle."""

import os
import signal
import sys

from greenroom import Agent, FileStore
from greenroom.testing import ScriptedProvider, call


def look(place: str) -> str:
    """Look somewhere."""
    if place == "cellar" and "--crash" in sys.argv:
        os.kill(os.getpid(), signal.SIGKILL)  # the lights go out
    return f"nothing in the {place}"


if "--again" in sys.argv:
    text = None  # the session has the question
    llm = ScriptedProvider(call("look", place="garden"), "It was in the garden after all.")
else:
    text = "Where is the cat?"
    llm = ScriptedProvider(call("look", place="attic"), call("look", place="cellar"), "Nowhere.")

agent = Agent(llm, tools=[look])
result = agent.run_sync(text, session="cat", store=FileStore("conversations"))
for message in result.session.history:
    for block in message.tool_results:
        print("tool:", block.text.splitlines()[0])
print(result.output)
