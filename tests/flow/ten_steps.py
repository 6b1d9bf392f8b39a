"""A plan of ten steps with effects, which kills its process at a given point.

    python -m tests.flow.ten_steps STEP WHERE

WHERE is "before" or "behind" (the effect, in the middle of the call), or "started" or "completed"
(as soon as the plan says so). Two chains run side by side; every other step is an agent that asks a
model. The effects are lines of a file.
"""

import os
import signal
import sys
from pathlib import Path

import trio

from greenroom import Agent, AgentRuntime, AgentSession, Custom, FileStore
from greenroom.flow import Plan, PlanRun, Subtask, execute_plan
from greenroom.testing import ScriptedProvider, call

STEPS = [f"s{n}" for n in range(10)]


def subtask(n):
    after = [f"s{n - 2}"] if n > 1 else []
    if n % 2:
        return Subtask(f"s{n}", "", after=after, tool="book", arguments={"step": f"s{n}"})
    return Subtask(f"s{n}", f"Book s{n}", after=after)


PLAN = Plan("ten steps", [subtask(n) for n in range(10)])


def model(request):
    """What the model of every other step says: it books, until that is done."""
    results = [each for message in request.messages for each in message.tool_results]
    if any(not each.is_error for each in results):
        return "It is booked."
    return call("book", step=request.messages[0].text.split()[-1])


class TenSteps:
    """The plan in one folder, with no person to ask, or one who sees which effects happened."""

    def __init__(self, folder, step="", where="", is_attended=True):
        self.effects = folder / "effects"
        self.effects.touch()
        self.store = FileStore(folder / "sessions")
        self.death = (step, where)
        self.is_attended = is_attended
        self.asked = []

    def die(self, step, where):
        if (step, where) == self.death:
            os.kill(os.getpid(), signal.SIGKILL)

    async def book(self, step: str) -> str:
        """Have an effect."""
        self.die(step, "before")
        with self.effects.open("a") as file:
            file.write(f"{step}\n")
        self.die(step, "behind")
        return f"booked {step}"

    async def agent(self, agent):
        async def book(step: str) -> str:
            """Have an effect."""
            return await self.book(step)

        worker = Agent(ScriptedProvider(*[model] * 50), tools=[book])
        async for message in agent.inputs():
            async with agent.turn(message):
                begun = agent.session.records("plan.step")
                plan = PlanRun.load(agent.session) if begun else PLAN
                await execute_plan(agent, plan, worker, tools=[book], concurrency=2)

    async def watch(self, handle, task_status=trio.TASK_STATUS_IGNORED):
        async with handle.subscribe("all", answers=self.is_attended) as chunks:
            task_status.started()
            async for chunk in chunks:
                if isinstance(chunk, Custom) and "id" in chunk.data:
                    words = {"executing": "started"}
                    self.die(
                        chunk.data["id"], words.get(chunk.data["status"], chunk.data["status"])
                    )
                for request in await handle.pending() if self.is_attended else ():
                    step = request.action.split()[3]
                    self.asked.append(step)
                    has_effect = step in self.effects.read_text().split()
                    decision, result = ("deny", {"result": f"booked {step}"})
                    if not has_effect:
                        decision, result = ("allow", None)
                    await handle.respond_permission(request.request_id, decision, input=result)

    async def run(self):
        """Execute the plan, or continue it, and return its run."""
        if "plan" in [each.session_id for each in await AgentSession.list_all(store=self.store)]:
            session = await AgentSession.load("plan", store=self.store)
        else:
            session = AgentSession.new("planner", session_id="plan")
        async with AgentRuntime(self.store) as runtime, trio.open_nursery() as nursery:
            handle = runtime.spawn(session, self.agent, unattended="deny")
            await nursery.start(self.watch, handle)
            await handle.ask("Go.")
            nursery.cancel_scope.cancel()
        return PlanRun.load(session)


if __name__ == "__main__":
    trio.run(TenSteps(Path.cwd(), *sys.argv[1:]).run)
