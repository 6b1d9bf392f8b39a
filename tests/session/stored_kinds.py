"""Runs with effects of every kind, each with a person who sees which effects happened.

They fit all that `stored_runs` has left in `formats/runs`, so none of them is changed in what it
does; there may be more of them.
"""

import json
import operator
from functools import partial
from typing import Annotated, TypedDict

import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Answer,
    Custom,
    Message,
    PermissionManager,
    PermissionRule,
    RuleDecision,
)
from greenroom.core import ImageBlock, TextBlock, ThinkingBlock
from greenroom.flow import (
    END,
    START,
    Plan,
    PlanRun,
    Subtask,
    Workflow,
    committee,
    composite,
    execute_plan,
    handoff_team,
    loop,
    orchestrator,
    parallel,
    pipeline,
    plan_and_execute,
    react,
    request_approval,
)
from greenroom.memory import EpisodicMemory, WorkingMemory
from greenroom.testing import ScriptedProvider, call

PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)


class Run:
    """One run in a store: its effects, and a person who sees which effects happened."""

    id = "run"
    goal = "Do it"
    is_long = False

    def __init__(self, store, effects=(), at=lambda point: None):
        self.store = store
        self.effects = list(effects)
        self.at = at
        self.asked = []

    async def act(self, effect):
        """Have an effect."""
        self.at(f"before {effect}")
        self.effects.append(effect)
        self.at(f"behind {effect}")
        await trio.lowlevel.checkpoint()
        return f"{effect} is done"

    @property
    def tool(self):
        async def act(effect: str) -> str:
            """Have an effect."""
            return await self.act(effect)

        return act

    def agent(self, name, *script, **options):
        """An agent that has the effect which its input names last, unless it has a script."""
        llm = ScriptedProvider(*script or [self.model] * 50)
        return Agent(llm, name=name, **{"tools": [self.tool], **options})

    @staticmethod
    def model(request):
        results = [each for message in request.messages for each in message.tool_results]
        done = [each.text for each in results if not each.is_error]
        asked = [each for each in request.messages if each.role == "user" and each.text]
        return done[-1] if done else call("act", effect=asked[0].text.split()[-1])

    def has_effect(self, request):
        """Whether the effect that a question is about is there."""
        return any(each in f"{request.action} {request.input}" for each in self.effects)

    async def approve(self, request):
        self.asked.append(request.action)
        self.at(f"asked {request.tool_name}")
        if not self.has_effect(request):
            return True
        if not request.may_have_run:
            return Answer(RuleDecision.DENY, message="It is there.")
        result = f"{request.input.get('effect', request.tool_name)} is done"
        return Answer(RuleDecision.DENY, input={"result": result})

    async def open(self):
        """Return the stored session, or a new one, and whether it is stored."""
        if await self.store.exists(self.id):
            return await AgentSession.load(self.id, store=self.store, keep_open=True), True
        return AgentSession.new(self.id, session_id=self.id, store=self.store), False

    async def ask(self, function):
        """Ask an agent function that is not a `Runnable`, and return its result."""
        session, _ = await self.open()
        async with AgentRuntime(self.store) as runtime, trio.open_nursery() as nursery:
            handle = runtime.spawn(session, function, unattended="deny")
            await nursery.start(self.watch, handle)
            result = await handle.ask(self.goal)
            nursery.cancel_scope.cancel()
        return result

    async def watch(self, handle, task_status=trio.TASK_STATUS_IGNORED):
        async with handle.subscribe("all", answers=True) as chunks:
            task_status.started()
            async for chunk in chunks:
                if isinstance(chunk, Custom) and "id" in chunk.data and "status" in chunk.data:
                    self.at(f"{chunk.data['status']} {chunk.data['id']}")
                for request in await handle.pending():
                    answer = await self.approve(request)
                    answer = Answer(RuleDecision.ALLOW) if answer is True else answer
                    await handle.respond_permission(
                        request.request_id,
                        answer.decision,
                        message=answer.message,
                        input=answer.input,
                    )


class Conversation(Run):
    """Calls, a denied one, a question, a picture, long output, a subagent, and a shorter past."""

    async def run(self):
        session, is_stored = await self.open()
        if not is_stored:
            await self.begin(session)
            session, _ = await self.open()
        if self.agent_answered(session):
            return await self.buyer().run("And now?", session=session)
        given = None if is_stored else "Reserve a seat and pay for it."
        return await self.buyer().run(given, session=session, approve=self.approve)

    @staticmethod
    def agent_answered(session):
        return session.history[-1].text == "It is paid."

    async def begin(self, session):
        picture = [TextBlock("What is this? Print it."), ImageBlock("image/png", data=PICTURE)]
        await self.looker().run(picture, session=session)
        session, _ = await self.open()
        await session.open()
        session.set_metadata("title", "a seat")
        WorkingMemory(session, task="trip").update({"seat": "12A", "price": 30})
        EpisodicMemory(session).append("user", "I sit by the window.", confidence=0.9)
        await session.save()
        await session.rewind(to=len(session.history) - 1)
        session.add_message(Message.user("I sit by the aisle."))
        session.add_message(Message.assistant("Noted."))
        await session.save()
        await session.compact("The user showed a picture, and sits by the aisle.", keep=2)
        await session.close()

    def looker(self):
        def print_all(lines: int) -> str:
            """Print lines."""
            return "\n".join(f"line {number}" for number in range(lines))

        def remove(what: str) -> str:
            """Remove something."""
            raise AssertionError(what)

        helper = Agent(ScriptedProvider("It is a dot."), name="helper", description="Looks.")
        script = [
            [
                ThinkingBlock("A picture.", "signed"),
                call("print_all", lines=3_400 if self.is_long else 3),
                call("remove", what="the picture"),
                call("helper", prompt="What is it?"),
            ],
            "A dot.",
        ]
        rules = PermissionManager([PermissionRule.deny_tool("remove")])
        tools = [print_all, remove, helper.as_tool()]
        return Agent(ScriptedProvider(*script), name="buyer", tools=tools, permissions=rules)

    def buyer(self):
        async def reserve(seat: str) -> str:
            """Reserve a seat."""
            return await self.act("reserve")

        async def pay(price: int) -> str:
            """Pay."""
            return await self.act("pay")

        def model(request):
            results = [each for message in request.messages for each in message.tool_results]
            texts = [each.text for each in results]
            if "pay is done" in texts:
                return "It is paid."
            if any("pay" in each for each in texts):
                return "It is not paid."
            return call("pay", price=30) if results else call("reserve", seat="12A")

        rules = PermissionManager([PermissionRule.ask_for_tool("pay")])
        llm = ScriptedProvider(*[model] * 9)
        return Agent(llm, name="buyer", tools=[reserve, pay], permissions=rules)


class PlanOfFour(Run):
    """A plan whose subtasks are tool calls and agents, one with the result of another in it."""

    id = "plan"
    plan = Plan(
        "A trip",
        [
            Subtask("fly", "", tool="act", arguments={"effect": "fly"}, critical=True),
            Subtask("stay", "Book stay"),
            Subtask("eat", "After {fly} book eat", after=["fly", "stay"]),
            Subtask("drive", "", after=["eat"], tool="act", arguments={"effect": "drive"}),
        ],
    )

    async def run(self):
        return await self.ask(self.carry_out)

    async def carry_out(self, agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                begun = agent.session.records("plan.step")
                run = PlanRun.load(agent.session) if begun else self.plan
                worker = self.agent("worker")
                run = await execute_plan(agent, run, worker, tools=[self.tool], concurrency=1)
                agent.session.add_message(Message.assistant(", ".join(run.results)))


class Reviewed(Run):
    """A plan that a model makes and a person reviews, and an answer."""

    id = "reviewed"
    goal = "A trip"
    draft = json.dumps(
        {"subtasks": [{"id": each, "goal": f"Book {each}"} for each in ("fly", "stay")]}
    )

    async def run(self):
        script = {"plan": self.draft, "answer": "All is booked."}

        def model(request):
            text = request.messages[-1].text
            return script["answer" if "The results:" in text else "plan"]

        llm = ScriptedProvider(*[model] * 9)
        worker = self.agent("worker")
        return await self.ask(plan_and_execute(llm, worker=worker, review=True, concurrency=1))


class Thoughts(Run):
    """A model without native tool calls."""

    id = "thoughts"
    goal = "Look"

    async def run(self):
        def model(request):
            said = "\n".join(message.text for message in request.messages)
            if "look is done" in said or "interrupted" in said:
                return "Thought: It is there. Final Answer: I looked."
            return "I look. Action: {'tool': 'act', 'args': {'effect': 'look'}}"

        return await self.ask(react(ScriptedProvider(*[model] * 9), [self.tool]))


class State(TypedDict, total=False):
    parcels: list[str]
    shipped: Annotated[list[str], operator.add]
    letter: str
    name: str
    is_approved: bool
    round: int


class Parcel(TypedDict, total=False):
    name: str
    seal: str


class Graph(Run):
    """A workflow with branches, a node for each item, a nested one, and a question."""

    id = "workflow"

    def build(self):
        async def begin(state: State):
            return {"parcels": ["a", "b"], "letter": "write", "name": "seal", "round": 0}

        async def pay(state: State):
            await self.act("pay")

        async def ship(state: State, parcel: str):
            await self.act(f"ship[{state['parcels'].index(parcel)}]")
            return {"shipped": parcel}

        async def fold(parcel: Parcel):
            await self.act("fold")

        async def approve(state: State):
            answer = await request_approval("Send it", state["letter"])
            return {"is_approved": answer.allowed, "round": state["round"] + 1}

        seal, write = self.agent("sealer"), self.agent("writer")
        wrap = Workflow(Parcel, input="name", output="seal", name="wrap").node("fold", fold)
        wrap.node("seal", seal, input="name", output="seal")
        wrap.edge(START, "fold").edge("fold", "seal").edge("seal", END)
        flow = Workflow(State).node("begin", begin, repeatable=True).node("pay", pay)
        flow.node("write", write, input="letter", output="letter")
        flow.node("ship", ship).each("ship", over="parcels")
        flow.node("wrap", wrap, input="name", output="name")
        flow.node("approve", approve, repeatable=True)
        flow.edge(START, "begin").edge("begin", "pay").edge("begin", "write")
        flow.edge("pay", "ship").edge("write", "ship").edge("ship", "wrap")
        flow.edge("wrap", "approve")
        return flow.route("approve", lambda state: "approve" if state["round"] < 2 else END)

    async def approve(self, request):
        self.asked.append(request.action)
        if request.action == "Send it":
            self.at("asked approve")
            return True
        node = request.action.split()[3]
        if node not in self.effects:
            return True
        results = {"ship[0]": {"shipped": "a"}, "ship[1]": {"shipped": "b"}}
        result = results.get(node, {} if node in ("pay", "fold") else f"{node} is done")
        return Answer(RuleDecision.DENY, input={"result": result})

    async def run(self):
        session, is_stored = await self.open()
        if not is_stored:
            session = self.id
        stream = self.build().stream(
            None if is_stored else {"round": 0},
            mode="updates",
            session=session,
            store=None if is_stored else self.store,
            approve=self.approve,
        )
        async with stream as steps:
            async for step in steps:
                self.at(f"step {step.number}")
        return steps.result


class Team(Run):
    """An orchestrator with a planned trip."""

    id = "team"
    goal = "Book a trip"
    plan = Plan(
        "Book a trip",
        [
            Subtask("flight", "Book flight", capability="air"),
            Subtask("hotel", "Book hotel", capability="land", after=["flight"]),
            Subtask("car", "For {flight} book car", after=["flight"], capability="land"),
        ],
    )

    async def run(self):
        def answer(request):
            self.at("answer")
            return "All is booked."

        workers = [
            self.agent("pilot", capabilities=["air"]),
            self.agent("host", capabilities=["land"]),
        ]
        team = orchestrator(ScriptedProvider(*[answer] * 9), *workers, planner=self.plan)
        session, _ = await self.open()
        return await team.run(self.goal, session=session, approve=self.approve)


class Pattern(Run):
    """A pattern of two agents, each with an effect."""

    def __init__(self, make, *args):
        super().__init__(*args)
        self.make = make

    def says(self, effect):
        """An agent that has this effect, whatever its input is."""

        def model(request):
            uses = [each.name for message in request.messages for each in message.tool_uses]
            return "done" if "act" in uses else call("act", effect=effect)

        return self.agent(effect, *[model] * 9)

    async def run(self):
        session, _ = await self.open()
        return await self.make(self).run(self.goal, session=session, approve=self.approve)


class Rounds(Pattern):
    """An agent in a loop, whose second round has an effect."""

    def agent_of_rounds(self):
        def model(request):
            results = [each for message in request.messages for each in message.tool_results]
            if results:
                return "good"
            answered = any(message.role == "assistant" for message in request.messages)
            return call("act", effect="again") if answered else "not yet"

        return self.agent("poet", *[model] * 9)


def _until(output):
    return output == "good" or "Again."


class Resumed(Pattern):
    """An agent that goes on in its turn."""

    async def run(self):
        session, is_stored = await self.open()
        answered = is_stored and session.history[-1].text == "done"
        given = "And now?" if answered else None if is_stored else self.goal
        return await self.make(self).run(given, session=session, approve=self.approve)

    def with_tool(self):
        steps = [
            Subtask("one", "", tool="act", arguments={"effect": "{input.what}"}),
            Subtask("two", "", tool="act", arguments={"effect": "second"}, after=["one"]),
        ]
        parameters = {"what": {"type": "string"}}
        tools, text = [self.tool], "Does both."
        both = composite(
            "both", steps, "{two}", tools=tools, description=text, parameters=parameters
        )

        def model(request):
            results = [each for message in request.messages for each in message.tool_results]
            return "done" if results else call("both", what="first")

        return self.agent("boss", *[model] * 9, tools=[both])

    def with_handoff(self):
        refunds = self.says("refund")
        desk = Agent(
            ScriptedProvider(call("transfer_to_refund"), "desk"), name="desk", handoffs=["refund"]
        )
        return handoff_team(desk, refunds)


def pair(run):
    return [run.says("first"), run.says("second")]


KINDS = {
    "conversation": Conversation,
    "plan": PlanOfFour,
    "reviewed": Reviewed,
    "thoughts": Thoughts,
    "workflow": Graph,
    "team": Team,
    "sequence": partial(Pattern, lambda run: pipeline(*pair(run))),
    "parallel": partial(Pattern, lambda run: parallel(*pair(run))),
    "loop": partial(Rounds, lambda run: loop(run.agent_of_rounds(), _until)),
    "committee": partial(Pattern, lambda run: committee(*pair(run))),
    "combined": partial(Resumed, Resumed.with_tool),
    "handoff": partial(Resumed, Resumed.with_handoff),
}
