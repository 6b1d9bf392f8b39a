"""An agent that executes a plan, and the records of its work."""

from contextlib import asynccontextmanager

import trio

from greenroom import (
    AgentRuntime,
    AgentSession,
    Custom,
    InMemoryStore,
    PermissionRequest,
    SubAgentOutput,
)
from greenroom.flow import PlanRun, execute_plan


class Planned:
    """An agent whose turns execute a plan, or continue the run in its session."""

    def __init__(self, plan, worker=None, *args, store=None, session=None, limits=None, **options):
        self.plan, self.worker, self.args, self.options = plan, worker, args, options
        self.store = store or InMemoryStore()
        self.session = session or AgentSession.new("planned", session_id="planned")
        self.limits = limits
        self.run = None
        self.told = None  # the run as the chunks tell it
        self.steps = []
        self.asked = []

    async def __call__(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                plan = self.plan
                if agent.session.records("plan.step"):
                    plan = PlanRun.load(agent.session)
                self.run = await execute_plan(agent, plan, self.worker, *self.args, **self.options)

    @asynccontextmanager
    async def spawn(self):
        async with AgentRuntime(self.store, self.limits) as runtime, trio.open_nursery() as nursery:
            self.runtime = runtime
            handle = runtime.spawn(self.session, self, unattended="deny")
            await nursery.start(self._watch, handle)
            yield handle
            await handle.shutdown()

    async def _watch(self, handle, task_status=trio.TASK_STATUS_IGNORED):
        async with handle.subscribe("all") as chunks:
            task_status.started()
            async for chunk in chunks:
                self._note(chunk)

    def _note(self, chunk):
        match chunk:
            case SubAgentOutput():
                self._note(chunk.chunk)
            case Custom(kind="plan.step"):
                self.steps.append(chunk.text.removeprefix("plan: "))
                self.told = PlanRun.follow(self.told, chunk.data)
            case PermissionRequest():
                self.asked.append(chunk)

    async def carry_out(self):
        """Run one turn to its end; return its result."""
        async with self.spawn() as handle:
            return await handle.ask("Go.")


async def worker(agent, delays=None):
    """Sleep as long as the goal says, and fail where it says so."""
    async for message in agent.inputs():
        async with agent.turn(message) as turn:
            await trio.sleep((delays or {}).get(message.metadata["subtask"], 0.2))
            if "fail" in message.text:
                raise ValueError(message.text)
            turn.set_result({"done": message.text})
