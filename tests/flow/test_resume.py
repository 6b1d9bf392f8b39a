"""A person says of work in doubt that it did not run, that it ran, or with which result."""

import operator
from typing import Annotated, TypedDict

import pytest
import trio

from greenroom import Agent, Answer, InMemoryStore, RuleDecision
from greenroom.core import TurnStatus
from greenroom.flow import END, START, Plan, PlanRun, Subtask, Workflow
from greenroom.flow._internal import SubtaskStatus
from greenroom.testing import Reply, ScriptedProvider, call
from tests.flow.planned import Planned

RAN = Answer(RuleDecision.DENY, input={"result": {"price": 7}})
RAN_SOMEHOW = Answer(RuleDecision.DENY, input={"result": None})
DID_NOT_RUN = Answer(RuleDecision.ALLOW)
LEAVE_OUT = Answer(RuleDecision.DENY)


class World:
    """Tools that hang until they are cut off, and then work."""

    def __init__(self):
        self.hangs = True
        self.made = []
        self.asked = []

    async def pay(self, what: str) -> dict[str, int]:
        """Pay."""
        self.made.append(what)
        if self.hangs:
            await trio.sleep_forever()
        return {"price": len(what)}

    def tool(self):
        async def pay(what: str) -> dict[str, int]:
            """Pay."""
            return await self.pay(what)

        return pay

    def model(self, *whats):
        """Make a model that pays for these at once, and then says what the results were."""

        def answer(request):
            results = [each for message in request.messages for each in message.tool_results]
            if results:
                return " and ".join(each.text for each in results)
            return Reply([call("pay", what=what) for what in whats])

        return ScriptedProvider(*[answer] * 9)


async def cut_off(planned):
    async with planned.spawn() as handle:
        handle.send_input_nowait("Go.")
        await trio.sleep(0.5)
        await handle.interrupt()


async def go_on(world, planned, *answers):
    """Continue a plan with these answers; return its run."""
    world.hangs = False
    world.made.clear()
    left = list(answers)
    again = Planned(
        planned.plan,
        planned.worker,
        store=planned.store,
        session=planned.session,
        **planned.options,
    )
    async with again.spawn() as handle, trio.open_nursery() as nursery:
        await nursery.start(answer_all, handle, world, left)
        await handle.ask("Go.")
        nursery.cancel_scope.cancel()
    return again.run


async def answer_all(handle, world, left, task_status=trio.TASK_STATUS_IGNORED):
    async with handle.subscribe(answers=True) as chunks:
        task_status.started()
        async for _ in chunks:
            for request in await handle.pending():
                world.asked.append(request)
                given = left.pop(0)
                await handle.respond_permission(
                    request.request_id, given.decision, input=given.input
                )


def plan_of_calls():
    first = Subtask("flight", "Fly", tool="pay", arguments={"what": "a flight"})
    then = Subtask(
        "hotel", "", tool="pay", arguments={"what": "for {flight.price}"}, after=["flight"]
    )
    return Plan("", [first, then])


@pytest.mark.parametrize(
    ("answer", "made", "results"),
    [
        (DID_NOT_RUN, ["a flight", "for 8"], {"flight": {"price": 8}, "hotel": {"price": 5}}),
        (RAN, ["for 7"], {"flight": {"price": 7}, "hotel": {"price": 5}}),
        (LEAVE_OUT, [], {}),
    ],
)
async def test_a_call_of_a_plan(answer, made, results, autojump_clock):
    world = World()
    planned = Planned(plan_of_calls(), tools=[world.tool()])
    await cut_off(planned)
    run = await go_on(world, planned, answer)
    assert (world.made, run.results) == (made, results)
    [request] = world.asked
    assert (request.tool_name, request.input) == ("pay", {"what": "a flight"})
    assert request.may_have_run
    for part in ("Fly", "the call of pay had started", "It was started once at 20"):
        assert part in request.details


async def test_dependents_go_on_where_a_result_is_not_known(autojump_clock):
    world = World()
    first = plan_of_calls().subtasks[0]
    then = Subtask("tell", "Tell {flight} and {flight.price}", after=["flight"])
    planned = Planned(
        Plan("", [first, then]),
        Agent(ScriptedProvider(lambda r: r.messages[0].text)),
        tools=[world.tool()],
    )
    await cut_off(planned)
    run = await go_on(world, planned, RAN_SOMEHOW)
    assert run.results == {"flight": None, "tell": "Tell (not known) and (not known)"}
    assert PlanRun.load(planned.session) == run


async def test_it_says_how_often_it_was_started(autojump_clock):
    world = World()
    planned = Planned(plan_of_calls(), tools=[world.tool()])
    await cut_off(planned)
    again = Planned(planned.plan, store=planned.store, session=planned.session, **planned.options)
    async with again.spawn() as handle, trio.open_nursery() as nursery:
        await nursery.start(answer_all, handle, world, [DID_NOT_RUN])
        handle.send_input_nowait("Go.")
        await trio.sleep(1)
        await handle.interrupt()
        nursery.cancel_scope.cancel()
    run = await go_on(world, again, RAN)
    assert run.is_completed
    assert "It was started 2 times, the last time at 20" in world.asked[-1].details


@pytest.mark.parametrize(
    ("answers", "made", "result"),
    [
        ([DID_NOT_RUN, DID_NOT_RUN], ["a", "bc"], '{"price":1} and {"price":2}'),
        ([RAN, DID_NOT_RUN], ["bc"], '{"price":7} and {"price":2}'),
        ([RAN, RAN], [], '{"price":7} and {"price":7}'),
        ([DID_NOT_RUN, RAN_SOMEHOW], ["a"], None),
        ([RAN, LEAVE_OUT], [], None),
    ],
)
async def test_each_call_of_an_agent(answers, made, result, autojump_clock):
    world = World()
    worker = Agent(world.model("a", "bc"), tools=[world.tool()])
    planned = Planned(Plan("", [Subtask("buy", "Buy both")]), worker)
    await cut_off(planned)
    run = await go_on(world, planned, *answers)
    assert sorted(world.made) == made
    assert [request.input for request in world.asked] == [{"what": "a"}, {"what": "bc"}]
    if answers[-1] is LEAVE_OUT:
        assert run.state("buy").status is SubtaskStatus.FAILED
    else:
        assert result in (None, run.results["buy"])
        assert ("not known" in run.results["buy"]) == (RAN_SOMEHOW in answers)


class State(TypedDict, total=False):
    goal: str
    items: list[str]
    log: Annotated[list[str], operator.add]


@pytest.mark.parametrize(
    ("answer", "log"),
    [
        (DID_NOT_RUN, ["paid a", "paid b"]),
        (Answer(RuleDecision.DENY, input={"result": {"log": ["paid before"]}}), None),
        (RAN_SOMEHOW, ["paid b"]),
        (LEAVE_OUT, ["paid b"]),
    ],
)
async def test_a_function_of_a_workflow(answer, log, autojump_clock):
    world, asked, store = World(), [], InMemoryStore()

    async def pay(state: State, item: str) -> dict[str, object]:
        if item == "a":
            await world.pay(item)
        return {"log": [f"paid {item}"]}

    workflow = Workflow(State).node("pay", pay).each("pay", over="items")
    workflow.edge(START, "pay").edge("pay", END)
    with trio.move_on_after(0.5):
        await workflow.run({"items": ["a", "b"], "log": []}, session="s", store=store)
    world.hangs = False

    async def approve(request):
        asked.append(request)
        return answer

    run = await workflow.run(session="s", store=store, approve=approve)
    assert run.status is TurnStatus.COMPLETED
    assert run.state["log"] == (log or ["paid before", "paid b"])
    [request] = asked
    assert request.input == {"node": "pay[0]", "item": "a"}
    assert "The item: a" in request.details
    assert "It was started once at 20" in request.details


async def test_an_agent_of_a_workflow_goes_on_with_the_result_of_its_call(autojump_clock):
    world, store = World(), InMemoryStore()
    agent = Agent(world.model("a"), tools=[world.tool()])
    workflow = Workflow(State).node("buy", agent, input="goal", output="goal")
    workflow.edge(START, "buy").edge("buy", END)
    with trio.move_on_after(0.5):
        await workflow.run({"goal": "Buy it."}, session="s", store=store)
    world.made.clear()

    async def approve(request):
        assert (request.tool_name, request.input) == ("pay", {"what": "a"})
        return RAN

    run = await workflow.run(session="s", store=store, approve=approve)
    assert run.state["goal"] == '{"price":7}'
    assert world.made == []
