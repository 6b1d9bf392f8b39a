"""A workflow with effects in every kind of node, which kills its process at a given point.

    python -m tests.flow.booking POINT

POINT is "before EFFECT" or "behind EFFECT", in the middle of a node, or "step N", as soon as the
workflow says that the step is taken. The effects are lines of a file.
"""

import operator
import sys
from pathlib import Path
from typing import Annotated, TypedDict

import trio

from greenroom import Agent, AgentSession, Answer, RuleDecision
from greenroom.flow import END, START, Workflow
from greenroom.testing import ScriptedProvider, call
from tests.flow.effects import open_effects

EFFECTS = [
    f"{node}-{n}" for n in range(2) for node in ("pay", "ship[0]", "ship[1]", "fold", "seal")
]
EFFECTS.append("write-0")


class State(TypedDict, total=False):
    round: int
    parcels: list[str]
    shipped: Annotated[list[str], operator.add]
    letter: str
    name: str


class Parcel(TypedDict, total=False):
    name: str
    seal: str


def worker(name, act):
    """Make an agent that has its effect until that is done."""

    def model(request):
        results = [each for message in request.messages for each in message.tool_results]
        if any(not each.is_error for each in results):
            return "done"
        return call("act", effect=f"{name}-{request.messages[0].text.split()[-1]}")

    return Agent(ScriptedProvider(*[model] * 50), tools=[act])


class Booking:
    """The workflow, its effects, and a person who sees which effects happened."""

    def __init__(self, store, effects=(), at=lambda point: None):
        self.session = AgentSession.new("booking", session_id="booking", store=store)
        self.store = store
        self.effects = list(effects)
        self.at = at
        self.asked = []
        self.workflow = self.build()

    async def act(self, effect: str) -> str:
        """Have an effect."""
        self.at(f"before {effect}")
        self.effects.append(effect)
        self.at(f"behind {effect}")
        await trio.lowlevel.checkpoint()
        return "done"

    def build(self):
        async def act(effect: str) -> str:
            """Have an effect."""
            return await self.act(effect)

        async def begin(state: State) -> dict[str, object]:
            return {"letter": "0", "parcels": ["a", "b"], "name": "0"}

        async def pay(state: State) -> None:
            await self.act(f"pay-{state['round']}")

        async def ship(state: State, parcel: str) -> dict[str, object]:
            place = state["parcels"].index(parcel)
            await self.act(f"ship[{place}]-{state['round']}")
            return {"shipped": parcel}

        async def count(state: State) -> dict[str, object]:
            return {"round": state["round"] + 1, "name": str(state["round"] + 1)}

        async def fold(parcel: Parcel) -> None:
            await self.act(f"fold-{parcel['name']}")

        wrap = Workflow(Parcel, input="name", output="seal", name="wrap").node("fold", fold)
        wrap.node("seal", worker("seal", act), input="name", output="seal")
        wrap.edge(START, "fold").edge("fold", "seal").edge("seal", END)
        workflow = Workflow(State).node("begin", begin, repeatable=True).node("pay", pay)
        workflow.node("write", worker("write", act), input="letter", output="letter")
        workflow.node("ship", ship).each("ship", over="parcels")
        workflow.node("wrap", wrap, input="name", output="name")
        workflow.node("count", count, repeatable=True)
        workflow.edge(START, "begin").edge("begin", "pay").edge("begin", "write")
        workflow.edge("pay", "ship").edge("write", "ship").edge("ship", "wrap").edge(
            "wrap", "count"
        )
        return workflow.route("count", lambda state: "pay" if state["round"] < 2 else END)

    async def answer(self, request):
        """Say of each call or function in doubt whether it has run, and with which result."""
        node = request.action.split()[3]
        self.asked.append(node)
        state = self.workflow.load(self.session).state
        if f"{node}-{state['round']}" not in self.effects:
            return True
        result = "done" if request.tool_name == "act" else None
        return Answer(RuleDecision.DENY, input={"result": result})

    async def run(self, is_attended=True):
        """Run it, or resume it."""
        given = {"round": 0}
        if await self.store.exists("booking"):
            given = None
            self.session = await AgentSession.load("booking", store=self.store)
        stream = self.workflow.stream(
            given,
            mode="updates",
            session=self.session,
            approve=self.answer if is_attended else None,
        )
        async with stream as steps:
            async for step in steps:
                self.at(f"step {step.number}")
        return steps.result


def in_folder(folder, death=""):
    """Make it of the files of a folder; its process ends at a point."""
    return Booking(*open_effects(folder, death))


if __name__ == "__main__":
    trio.run(in_folder(Path.cwd(), sys.argv[1]).run)
