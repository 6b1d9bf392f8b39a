"""Random compositions of everything that runs, three deep, and a person who sees what they did.

    python -m tests.flow.compositions SEED MOMENT

runs one in this folder, whose process kills itself at that moment. A moment is a write to the
store, or the time before or behind an effect.
"""

import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import TypedDict

import trio

from greenroom import Agent, AgentSession, Answer, FileStore, RuleDecision
from greenroom.agents._internal import is_answered
from greenroom.core import TurnStatus
from greenroom.flow import (
    END,
    START,
    Pattern,
    Plan,
    Subtask,
    Workflow,
    by_authority,
    committee,
    composite,
    handoff_team,
    loop,
    orchestrator,
    parallel,
    pipeline,
    plan_and_execute,
    react,
)
from greenroom.llm import ModelOverloadedError
from greenroom.testing import Reply, ScriptedProvider, call
from tests.flow.test_workflow_kills import SeenStore

MANY = 99  # model calls, more than any agent makes


class State(TypedDict, total=False):
    text: str
    items: list[str]


def find_results(request):
    """Return the results of calls in a request, also of those that were made in words."""
    found = []
    for message in request.messages:
        if message.text.startswith("Observation: "):
            found.append(message.text)
        found += (each.text for each in message.tool_results if not each.is_error)
    errors = ("has the conversation", "Observation: Error:")
    return [each for each in found if not any(error in each for error in errors)]


class Work:
    """A random composition whose leaves have an effect each, and a person who sees them."""

    def __init__(
        self,
        seed,
        store=None,
        effects=(),
        at=lambda: None,
        depth=3,
        teams=None,
        delay=lambda: 0.0,
        fails=lambda: False,
    ):
        self.chance = random.Random(f"{seed}")
        self.teams = teams or TEAMS
        self.delay = delay
        self.fails = fails
        self.store = store
        self.effects = list(effects)
        self.at = at
        self.expected = set()
        self.asked = []
        self.is_attended = True
        self.session_id = "work"
        self.kinds = Counter()
        self._names = (f"e{number}" for number in range(10_000))
        self.team = self.build(depth)

    def build(self, depth):
        leaves = [self.agent, self.agent, self.react]
        teams = [getattr(self, name) for name in self.teams]
        # The outermost is always a team; below it one in three is an agent.
        is_leaf = depth == 0 or (self.kinds and self.chance.random() < 0.3)
        make = self.chance.choice(leaves if is_leaf else teams)
        self.kinds[make.__name__] += 1
        return make(depth - 1)

    def some(self, depth):
        return [self.build(depth) for _ in range(self.chance.randint(1, 2))]

    @property
    def name(self):
        return next(self._names)

    def expect(self):
        effect = self.name
        self.expected.add(effect)
        return effect

    async def act(self, effect):
        await trio.sleep(self.delay())
        self.at()
        self.effects.append(effect)
        self.at()
        await trio.sleep(self.delay())
        return f"{effect} is done"

    def says(self, model):
        """Make a model of a function of the request, which may fail at times."""

        def answer(request):
            return Reply(error=ModelOverloadedError("busy")) if self.fails() else model(request)

        return ScriptedProvider(*[answer] * MANY)

    def tool(self):
        async def act(effect: str) -> str:
            """Have an effect."""
            return await self.act(effect)

        return act

    def agent(self, depth):
        name = self.expect()

        def model(request):
            return "yes" if find_results(request) else call("act", effect=name)

        return Agent(self.says(model), name=name, tools=[self.tool()], description="Acts.")

    def react(self, depth):
        name = self.expect()

        def model(request):
            action = f'Action: {{"tool": "act", "args": {{"effect": "{name}"}}}}'
            return "Final Answer: yes" if find_results(request) else action

        return react(self.says(model), [self.tool()], name=name, description="Acts.")

    def caller(self, *tools):
        """Make an agent that calls each of its tools once."""

        def model(request):
            done = len(find_results(request))
            return call(tools[done].name, prompt="Go.") if done < len(tools) else "yes"

        return Agent(self.says(model), name=self.name, tools=tools, description="Asks.")

    def delegate(self, depth):
        return self.caller(*(each.as_tool(description="Works.") for each in self.some(depth)))

    def tool_of_calls(self, depth):
        tools = [each.as_tool(description="Works.") for each in self.some(depth)]
        steps = [
            Subtask(f"s{number}", "", tool=each.name, arguments={"prompt": "{input.prompt}"})
            for number, each in enumerate(tools)
        ]
        effect = self.expect()
        steps.append(Subtask("last", "", tool="act", arguments={"effect": effect}))
        made = composite(
            self.name,
            steps,
            "{last}",
            tools=[*tools, self.tool()],
            description="Works.",
            parameters={"prompt": {"type": "string"}},
        )
        return self.caller(made)

    def handoffs(self, depth):
        target = self.build(depth)

        def model(request):
            return call(f"transfer_to_{target.name}")

        desk = Agent(
            self.says(model),
            name=self.name,
            handoffs=[target.name],
            description="Hands over.",
        )
        return handoff_team(desk, target, name=self.name)

    def pipe(self, depth):
        return pipeline(*self.some(depth), name=self.name, description="Works.")

    def side(self, depth):
        return parallel(*self.some(depth), name=self.name, description="Works.")

    def rounds(self, depth):
        member = self.build(depth)
        is_team = member.name not in self.expected  # a second round would be another job
        return loop(
            member, lambda output: is_team, max_rounds=2, name=self.name, description="Works."
        )

    def own(self, depth):
        first, second = self.build(depth), self.build(depth)

        async def work(team):
            async with team.talk_to(first, "first") as talk:
                said = await talk.ask("Go.")
            return await team.ask(second, f"{said}", name="second")

        return Pattern(self.name, work, description="Works.")

    def jury(self, depth):
        agents = [self.build(depth) for _ in range(2)]
        return committee(*agents, tie=by_authority, name=self.name, description="Works.")

    def crew(self, depth):
        agents = self.some(depth)
        subtasks = [
            Subtask(f"s{number}", f"Do {number}", capability=each.name)
            for number, each in enumerate(agents)
        ]
        llm = self.says(lambda request: "All is done.")
        return orchestrator(
            llm, *agents, planner=Plan("", subtasks), name=self.name, description="Works."
        )

    def plan(self, depth):
        tool = self.build(depth).as_tool(description="Works.")
        effect = self.expect()
        subtasks = [
            Subtask("work", "Do it"),
            Subtask("call", "", tool=tool.name, arguments={"prompt": "Go."}),
            Subtask("act", "", tool="act", arguments={"effect": effect}, after=["work"]),
        ]
        return plan_and_execute(
            self.says(lambda request: "All is done."),
            [tool, self.tool()],
            planner=Plan("", subtasks),
            worker=self.build(depth),
            name=self.name,
            description="Works.",
        )

    def graph(self, depth):
        effect = self.expect()

        async def first(state: State) -> dict[str, object]:
            await self.act(effect)
            return {"items": ["one"]}

        name = self.name
        flow = Workflow(State, input="text", output="text", name=name, description="Works.")
        flow.node(effect, first).edge(START, effect)
        for member in self.some(depth):
            name = self.name
            flow.node(name, member, input="text", output="")
            flow.edge(effect, name).edge(name, END)
        if self.chance.random() < 0.5:
            name = self.name
            flow.node(name, self.build(depth), input="text").each(name, "items")
            flow.edge(effect, name).edge(name, END)
        return flow

    async def answer(self, request):
        """Say truthfully of each call or function in doubt whether it has run."""
        self.asked.append(request.action)
        assert request.may_have_run, request
        about = request.input.get("effect") or request.input.get("node")
        assert about in self.expected, request
        if about not in self.effects:
            return True
        result = f"{about} is done" if "effect" in request.input else {"items": ["one"]}
        is_known = self.chance.random() < 0.5 or "node" in request.input
        return Answer(RuleDecision.DENY, input={"result": result if is_known else None})

    async def run(self, budget=None):
        """Run it, or go on with it; return the result."""
        given = None if await self.store.exists(self.session_id) else "Go."
        if given is None:
            session = await AgentSession.load(self.session_id, store=self.store)
            if is_answered(session):  # it was killed behind its end
                return None
        approve = self.answer if self.is_attended else None
        return await self.team.run(
            given, session=self.session_id, store=self.store, approve=approve, budget=budget
        )

    def check(self, result):
        """Check that the goal is reached, and that each effect came once."""
        is_reached = result is None or result.status is TurnStatus.COMPLETED
        assert is_reached, (result.error, self.kinds)
        seen = Counter(self.effects)
        assert seen == dict.fromkeys(self.expected, 1), (seen, self.expected, self.kinds)


TEAMS = (
    "delegate",
    "tool_of_calls",
    "handoffs",
    "pipe",
    "side",
    "rounds",
    "own",
    "jury",
    "crew",
    "plan",
    "graph",
)
"""The kinds of teams, by the methods that make them."""


class Life:
    """One life of a composition, until it ends by itself or is killed at a moment."""

    def __init__(self, seed, sessions=None, effects=(), kill_at=0, **options):
        self.moments = 0
        self.kill_at = kill_at
        self.left = None
        self.store = SeenStore(sessions)
        self.store.seen = lambda what: self.note()
        self._scope = trio.CancelScope()
        self.work = Work(seed, self.store, effects, at=self.note, **options)

    def note(self):
        """Count a moment; at the last one, keep what a kill would leave."""
        self.moments += 1
        if self.moments == self.kill_at:
            self.left = self.store.copy(), tuple(self.work.effects)
            self._scope.cancel()

    async def run(self, budget=None):
        """Return the result, or None if it was killed."""
        result = None
        with self._scope:
            result = await self.work.run(budget)
        return None if self.left else result


class MomentStore(FileStore):
    """A store in files that calls a function after each write."""

    def __init__(self, folder, seen):
        super().__init__(folder)
        self._seen = seen

    async def acquire(self, session_id):
        writer = await super().acquire(session_id)
        write = writer.append

        async def append(line, at, *, flush=True):
            await write(line, at, flush=flush)
            self._seen()

        writer.append = append
        return writer


def in_folder(folder, seed, death=0):
    """Make a composition of the files of a folder; its process ends at a moment."""
    file, moments = folder / "effects", 0
    file.touch()

    def note():
        nonlocal moments
        moments += 1
        file.write_text(" ".join(work.effects))
        if moments == death:
            os.kill(os.getpid(), signal.SIGKILL)

    store = MomentStore(folder / "sessions", note)
    work = Work(seed, store, file.read_text().split(), at=note)
    return work


if __name__ == "__main__":
    trio.run(in_folder(Path.cwd(), *map(int, sys.argv[1:3])).run)
