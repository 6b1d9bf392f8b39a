"""An agent that streams, calls and asks at random, in a terminal: for tests that press any key."""

import random
import sys
import time

import trio

from greenroom.cli import ConsoleRenderer
from greenroom.cli.loading import begin_loading, end_loading
from greenroom.core import TextComplete, TextDelta, ToolEnd, ToolResult, ToolStart
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore

ANSWERED = "A QUESTION WAS ALLOWED"
HELD = "THE LOOP WAS HELD UP"
LONGEST = 0.1  # seconds
PIECES = (
    "word ",
    "**bold** ",
    "`code`\n",
    "\n\n",
    "👩‍👩‍👧 ",
    "سلام ",
    "世界",
    "<App/>",
    "- [x] a\n",
    "\x1b[2J",
)


async def babbler(agent):
    """Answer with random chunks; nine inputs of ten bring a question that must not be allowed."""
    rng = random.Random(7)
    async for message in agent.inputs():
        async with agent.turn(message):
            said = ""
            for _ in range(rng.randrange(20)):
                piece = rng.choice(PIECES)
                said += piece
                await agent.send(TextDelta(piece))
                await trio.lowlevel.checkpoint()
            await agent.send(TextComplete(said))
            if rng.random() < 0.5:
                await agent.send(ToolStart(f"t{agent.context.current_turn}", "Bash", {}))
                result = ToolResult.ok("line\n" * rng.randrange(40))
                await agent.send(ToolEnd(f"t{agent.context.current_turn}", result))
            if rng.random() < 0.5:
                answer = await agent.request_permission(
                    "Bash", "Run a command", input={"command": "rm -rf /"}, details="rm -rf /"
                )
                if answer.decision == "allow":
                    sys.stderr.write(ANSWERED)


class Holds(trio.abc.Instrument):
    """Notes each step of a task that takes longer than a tenth of a second of its thread's time.

    It is the thread's own time, so that a busy machine changes nothing.
    """

    def __init__(self):
        self.found = []
        self._began = 0.0

    def before_task_step(self, task):
        self._began = time.thread_time()

    def after_task_step(self, task):
        taken = time.thread_time() - self._began
        if taken > LONGEST:
            self.found.append(f"{HELD} for {taken:.3f} s by {task.name}")


async def main():
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("babbler"), babbler)
        await ConsoleRenderer(handle, model="offline:rules").run()
        handle.kill()


if __name__ == "__main__":
    # As the command: a walk of the collector through all that is loaded takes a tenth of a second
    # on a busy machine, in whatever step it comes.
    begin_loading()
    end_loading()
    holds = Holds()
    trio.run(main, instruments=[holds])
    print(*holds.found, sep="\n", file=sys.stderr)
