"""An orchestrator whose workers have effects, which kills its process at a given point.

    python -m tests.flow.trip POINT

POINT is "before EFFECT" or "behind EFFECT", in the middle of a call, or "answer", as soon as the
model is to make one answer of all. The effects are lines of a file.
"""

import sys
from pathlib import Path

import trio

from greenroom import Agent, AgentSession, Answer, RuleDecision
from greenroom.flow import Plan, Subtask, orchestrator
from greenroom.testing import ScriptedProvider, call
from tests.flow.effects import open_effects

EFFECTS = ("flight", "hotel", "car")
PLAN = Plan(
    "Book a trip",
    [
        Subtask("flight", "Book flight", capability="air"),
        Subtask("hotel", "Book hotel", capability="land"),
        Subtask("car", "Book car for {flight}", after=["flight"], capability="land"),
    ],
)


class Trip:
    """The team, its effects, and a person who sees which effects happened."""

    def __init__(self, store, effects=(), at=lambda point: None):
        self.store = store
        self.effects = list(effects)
        self.at = at
        self.asked = []
        workers = [self.worker("pilot", "air"), self.worker("host", "land")]
        self.team = orchestrator(ScriptedProvider(*[self.answer] * 9), *workers, planner=PLAN)

    def worker(self, name, capability):
        async def book(what: str) -> str:
            """Book something."""
            self.at(f"before {what}")
            self.effects.append(what)
            self.at(f"behind {what}")
            await trio.lowlevel.checkpoint()
            return f"{what} is booked"

        def model(request):
            results = [each for message in request.messages for each in message.tool_results]
            done = [each.text for each in results if not each.is_error]
            return done[0] if done else call("book", what=request.messages[0].text.split()[1])

        llm = ScriptedProvider(*[model] * 20)
        return Agent(llm, name=name, tools=[book], capabilities=[capability])

    def answer(self, request):
        """Make one answer."""
        self.at("answer")
        return "All is booked."

    async def approve(self, request):
        """Say whether a call in doubt has had its effect."""
        self.asked.append(request.action)
        what = request.input["what"]
        if what not in self.effects:
            return Answer(RuleDecision.ALLOW)
        return Answer(RuleDecision.DENY, input={"result": f"{what} is booked"})

    async def run(self):
        """Ask the team, or ask it once more."""
        session = AgentSession.new("trip", session_id="trip", store=self.store)
        if await self.store.exists("trip"):
            session = await AgentSession.load("trip", store=self.store)
        return await self.team.run("Book a trip", session=session, approve=self.approve)


def in_folder(folder, death=""):
    """Make it of the files of a folder; its process ends at a point."""
    return Trip(*open_effects(folder, death))


if __name__ == "__main__":
    trio.run(in_folder(Path.cwd(), sys.argv[1]).run)
