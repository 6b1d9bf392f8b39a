"""Whatever runs: a table of all kinds, each made around one worker.

    python -m tests.flow.kinds KIND POINT [tool]

runs one of them, or an agent with it as a tool, whose process kills itself at a point: "before pay"
or "behind pay", in the middle of the worker's call, or "told pay", when its model is told the
result.
"""

import sys
from pathlib import Path
from typing import TypedDict

import trio

from greenroom import Agent, Answer, RuleDecision
from greenroom.flow import (
    END,
    START,
    Pattern,
    Plan,
    Subtask,
    Workflow,
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
from greenroom.testing import ScriptedProvider, call
from tests.flow.effects import open_effects


class State(TypedDict, total=False):
    text: str


def agent(*script, **options):
    return Agent(ScriptedProvider(*script or ["done"] * 9), name="worker", **options)


def workflow(member):
    flow = Workflow(State, input="text", output="text", description="Works.")
    return flow.node("a", member, input="text", output="text").edge(START, "a").edge("a", END)


def handed_over(member):
    def model(request):
        return call("transfer_to_pipeline")

    desk = Agent(ScriptedProvider(*[model] * 9), name="desk", handoffs=["pipeline"])
    return handoff_team(desk, pipeline(member, **WORDS), **WORDS)


def own(member):
    async def work(team):
        return await team.ask(member, team.message.content, name="worker")

    return Pattern("own", work, description="Works.")


def call_once(tool, **given):
    """Make an agent that calls a tool until it has its result."""

    def model(request):
        return "done" if any(find_results(request)) else call(tool.name, **given)

    return Agent(ScriptedProvider(*[model] * 9), tools=[tool], **WORDS)


def caller(member):
    """Make an agent with a composite tool, a step of which is the member."""
    step = Subtask("ask", "", tool="worker", arguments={"prompt": "{input.what}"})
    tools = [member.as_tool("worker", description="Works.")]
    what = {"what": {"type": "string"}}
    both = composite("both", [step], "{ask}", tools=tools, description="Asks.", parameters=what)
    return call_once(both, what="Go.")


def planner(member, plan):
    """Make a plan, the work of which the member does, by itself or as a tool."""
    tools = [member.as_tool("worker", **WORDS)]
    llm = ScriptedProvider(*["done"] * 9)
    return plan_and_execute(llm, tools, planner=plan, worker=member, **WORDS)


WORDS = {"description": "Works."}
CALL = Plan("", [Subtask("a", "", tool="worker", arguments={"prompt": "Go."})])
PLAN = Plan("", [Subtask("a", "Do it")])
KINDS = {
    "agent": lambda member: Agent(member.llm, tools=member.tools, **WORDS),
    "react": lambda member: react(member.llm, member.tools, **WORDS),
    "planner": lambda member: planner(member, PLAN),
    "plan of calls": lambda member: planner(member, CALL),
    "workflow": workflow,
    "pipeline": lambda member: pipeline(member, **WORDS),
    "parallel": lambda member: parallel(member, join=lambda found: found["worker"], **WORDS),
    "loop": lambda member: loop(member, lambda output: True, **WORDS),
    "committee": lambda member: committee(member, **WORDS),
    "orchestrator": lambda member: orchestrator("offline:", member, planner=PLAN, **WORDS),
    "handoffs": lambda member: handoff_team(member, **WORDS),
    "handoff to a team": handed_over,
    "own": own,
    "composite": caller,
}


def find_results(request):
    """Yield the texts of the results in a request, those for a model without tool calls too."""
    for message in request.messages:
        yield from (each.text for each in message.tool_results if not each.is_error)
        if message.text.startswith("Observation: "):
            yield message.text.removeprefix("Observation: ")


class Payment:
    """A run of one kind whose worker pays, and a person who sees what was paid."""

    def __init__(self, folder, kind, death="", *, hangs=False, is_tool=False):
        self.kind = kind
        self.is_tool = is_tool
        self.hangs = hangs
        self.paid = trio.Event()
        self.store, self.effects, self._at = open_effects(folder, death)
        self.asked = []

    async def answer(self, request):
        """Say truthfully whether a call has run."""
        self.asked.append(request.tool_name)
        if "pay" in self.effects:
            return Answer(RuleDecision.DENY, input={"result": "paid"})
        return True

    def _model(self, request):
        """Pay, and be told so."""
        if "paid" not in find_results(request):
            return call("pay")
        self._at("told pay")
        return "Final Answer: done" if self.kind == "react" else "done"

    def make(self):
        async def pay() -> str:
            """Pay."""
            self._at("before pay")
            self._at("behind pay")
            self.effects.append("pay")
            self.paid.set()
            await (trio.sleep_forever if self.hangs else trio.lowlevel.checkpoint)()
            return "paid"

        made = KINDS[self.kind](agent(*[self._model] * 9, tools=[pay]))
        return call_once(made.as_tool("helper"), prompt="Go.") if self.is_tool else made

    async def run(self, budget=None):
        """Run it, or go on where it ended."""
        goal = None if await self.store.exists("s") else "Go."
        return await self.make().run(
            goal, session="s", store=self.store, approve=self.answer, budget=budget
        )


if __name__ == "__main__":
    trio.run(Payment(Path.cwd(), *sys.argv[1:3], is_tool="tool" in sys.argv[3:]).run)
