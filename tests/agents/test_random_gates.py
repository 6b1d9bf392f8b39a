"""Random programs with gates: what was refused never runs, and what ran is in the audit.

In each, an agent works with tools and agents below it, while gates deny, ask, raise, hang and
change their mind, a person answers or does not, and somebody interrupts, kills or leaves.
GREENROOM_GATES is how many run, and GREENROOM_GATES_SEED the first seed, which is printed
(CONTRIBUTING.md has the long run).
"""

import math
import os
import random
from collections import Counter
from contextlib import suppress

import trio
from trio.testing import MockClock

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    InMemoryStore,
    PermissionRequest,
    PermissionRule,
    ToolUseBlock,
    tool,
)
from greenroom.core import Ask, Deny
from greenroom.flow import Plan, Subtask, plan_and_execute
from greenroom.permissions import PermissionManager
from greenroom.runtime import AgentNotRunningError
from greenroom.testing import ScriptedProvider

PROGRAMS = int(os.environ.get("GREENROOM_GATES", "30"))
SEED = int(os.environ.get("GREENROOM_GATES_SEED", "1"))


class World:
    """One program: its dice, and what has happened in it."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.refused, self.asked, self.approved = set(), set(), set()
        self.audited, self.ran, self.told = Counter(), Counter(), Counter()
        self.calls = 0

    def flip(self, *options):
        return self.dice.choice(options)

    def call(self, name, **more):
        self.calls += 1
        return ToolUseBlock(f"c{self.calls}", name, {"number": self.calls, **more})


class Moody:
    """Denies, asks, raises, hangs and says nonsense, as the dice fall."""

    def __init__(self, world):
        self.world = world
        self.timeout = world.flip(1, 5)

    async def judge(self, agent, call):
        if call.name == "below":
            return None
        mood = self.world.flip(*[None] * 9, "deny", "ask", "raise", "hang", 7)
        number = call.input["number"]
        if mood is not None:
            (self.world.refused if mood == "deny" else self.world.asked).add(number)
        if mood == "raise":
            raise ExceptionGroup("broken", [ValueError("one"), KeyError("two")])
        if mood == "hang":
            await trio.sleep_forever()
        await trio.sleep(self.world.flip(0, 0.5))
        return {"deny": Deny("no"), "ask": Ask("sure?")}.get(mood, mood)

    async def before_run(self, agent, call):
        if call.name == "below":
            return None
        mood = self.world.flip(*[None] * 16, "no", "", "raise", "hang", "swallow")
        if mood is not None:
            self.world.refused.add(call.input["number"])
        if mood == "raise":
            raise OSError("the disk is full")
        try:
            await trio.sleep(math.inf if mood in ("hang", "swallow") else 0.01)
        except trio.Cancelled:
            if mood != "swallow":
                raise
        return None if mood == "swallow" else mood


class Audit:
    """Writes a line before each run, as an audit does, and hears of each run as an instrument."""

    def __init__(self, world):
        self.world = world

    async def before_run(self, agent, call):
        await trio.sleep(self.world.flip(0, 0.1))
        self.world.audited[call.input.get("number")] += 1

    def before_tool_run(self, agent, call):
        self.world.told[call.input.get("number")] += 1


def make_tools(world):
    async def act(number: int) -> str:
        """Act."""
        world.ran[number] += 1
        await trio.sleep(world.flip(0, 0, 1, 30))
        world.flip(None, None, 1) and 1 / 0
        return "done"

    @tool
    async def strict(number: int) -> str:
        """Act; it needs permission."""
        return await act(number)

    return [act, strict]


def make_agent(world, depth):
    tools = make_tools(world)
    script = []
    for _ in range(world.flip(1, 2, 3)):
        calls = [world.call(world.flip("act", "strict")) for _ in range(world.flip(1, 2, 3))]
        if depth and world.flip(True, False):
            world.calls += 1
            calls.append(ToolUseBlock(f"c{world.calls}", "below", {"prompt": "go"}))
        script.append(calls)
    below = [make_agent(world, depth - 1).as_tool(name="below")] if depth else []
    rules = [PermissionRule.ask_for_tool("strict")] if world.flip(True, False) else []
    rules.append(PermissionRule.allow_all())
    return Agent(
        ScriptedProvider(*script, "done", *["done"] * 9),
        tools=[*tools, *below],
        permissions=PermissionManager(rules),
        name=f"agent{depth}",
        description="works",
    )


def make_plan(world):
    """A plan whose subtasks are calls of tools, without a model."""
    tools, subtasks = make_tools(world), []
    for place in range(world.flip(1, 3)):
        call = world.call("act")
        after = ("s0",) if place and world.flip(True, False) else ()
        subtasks.append(
            Subtask(f"s{place}", "", tool="act", arguments=dict(call.input), after=after)
        )
    plan, rules = Plan("act", subtasks), PermissionManager([PermissionRule.allow_all()])

    async def planned(agent):
        llm = ScriptedProvider(*["done"] * 9)
        await plan_and_execute(agent, llm=llm, tools=tools, planner=plan, permissions=rules)

    return planned


async def attend(world, handle):
    """Answer questions, or let them be."""
    async with handle.subscribe("all", answers=True) as chunks:
        async for chunk in chunks:
            while hasattr(chunk, "chunk"):
                chunk = chunk.chunk  # noqa: PLW2901 (a subagent's)
            if isinstance(chunk, PermissionRequest):
                await trio.sleep(world.flip(0, 1, 20))
                decision, number = world.flip("allow", "allow", "deny"), chunk.input.get("number")
                (world.approved if decision == "allow" else world.refused).add(number)
                await handle.respond_permission(chunk.request_id, decision)


async def disturb(world, handle, scope):
    """End it somehow, or not at all."""
    await trio.sleep(world.dice.random() * world.flip(2, 20))
    match world.flip(None, None, "interrupt", "after_step", "kill", "shutdown", "leave"):
        case "interrupt":
            await handle.interrupt()
        case "after_step":
            await handle.interrupt("after_step")
        case "kill":
            handle.kill()
        case "shutdown":
            await handle.shutdown(grace=1)
        case "leave":
            scope.cancel()


async def live(world):
    gates = [Moody(world) for _ in range(world.flip(1, 2))]
    gates.insert(world.flip(0, len(gates)), Audit(world))
    function = make_plan(world) if world.flip(*[False] * 4, True) else make_agent(world, 2)
    with trio.move_on_after(3_600), trio.CancelScope() as leaving:
        runtime = AgentRuntime(InMemoryStore(), gates=gates)
        async with runtime, trio.open_nursery() as nursery:
            unattended = world.flip("ask", "deny")
            handle = runtime.spawn(AgentSession.new("a"), function, unattended=unattended)
            if unattended == "ask" or world.flip(True, False):
                nursery.start_soon(attend, world, handle)
            nursery.start_soon(disturb, world, handle, leaving)
            with suppress(AgentNotRunningError):
                await handle.ask("Go.")
            nursery.cancel_scope.cancel()


def find_faults(seed, tally):
    world = World(seed)
    trio.run(live, world, clock=MockClock(autojump_threshold=0))
    tally["ran"] += world.ran.total()
    tally["refused"] += len(world.refused)
    tally["asked"] += len(world.asked)
    tally["asked and ran"] += len(world.asked & world.ran.keys())
    faults = {
        "refused and ran": world.refused & world.ran.keys(),
        "ran without a yes": (world.asked & world.ran.keys()) - world.approved,
        "ran without a line": world.ran - world.audited,
        "ran twice": {number for number, count in world.ran.items() if count > 1},
        "ran and was not told": world.ran - world.told,
    }
    return {what: found for what, found in faults.items() if found}


def test_what_is_refused_never_runs_and_what_runs_is_audited():
    print(f"GREENROOM_GATES_SEED={SEED}")
    tally = Counter()
    found = {seed: find_faults(seed, tally) for seed in range(SEED, SEED + PROGRAMS)}
    print(f"{PROGRAMS} programs:", dict(tally))
    assert {seed: faults for seed, faults in found.items() if faults} == {}
    assert all(tally[what] > PROGRAMS / 10 for what in ("ran", "refused", "asked"))
    assert tally["asked and ran"]
