"""Plans that are interrupted at every checkpoint, and continue."""

import pytest
import trio

from greenroom import Agent, tool
from greenroom.flow import Plan, PlanRun, RecoveryPolicy, Subtask, execute_plan, plan_and_execute
from greenroom.flow._internal import Component, ErrorClass, RecoveryDecision, SubtaskStatus
from greenroom.llm import ModelOverloadedError
from greenroom.testing import (
    Reply,
    Scenario,
    ScriptedApprover,
    ScriptedProvider,
    call,
    cancel_at_every_checkpoint,
)
from tests.conftest import few
from tests.flow.planned import Planned, worker


def scenario(seen):
    async def look(at: str) -> str:
        """Look."""
        await trio.sleep(1)
        return f"saw {at}"

    def model(request):
        results = request.messages[-1].tool_results
        return "It is there." if results else call("look", at="it")

    looker = Agent(ScriptedProvider(*[model] * 50), tools=[look])
    plan = Plan(
        "look",
        [
            Subtask("a", "", tool="look", arguments={"at": "a"}),
            Subtask("b", "Look at b"),
            Subtask("c", "", tool="look", arguments={"at": "{a}"}, after=["a", "b"]),
        ],
    )

    async def planner(agent):
        async for message in agent.inputs():
            check(agent.session)
            async with agent.turn(message):
                run = PlanRun.load(agent.session) if agent.session.records("plan.step") else plan
                await execute_plan(agent, run, looker, tools=[look])
            check(agent.session)

    def check(session):
        if session.records("plan.step"):
            run = PlanRun.load(session)
            seen.append(run)
            assert not run.ids(SubtaskStatus.EXECUTING)  # nothing runs outside of a turn

    return Scenario(planner, inputs="Look!")


def test_a_cancel_at_any_checkpoint_leaves_a_valid_plan_and_nothing_that_runs():
    seen = []
    report = cancel_at_every_checkpoint(lambda: scenario(seen), at_most=few(24))
    assert report.violations == ()
    assert any(run.is_completed for run in seen)
    assert any(not run.is_over for run in seen)


def planning_agent():
    async def book(what: str) -> str:
        """Book."""
        if what == "hotel":
            raise ValueError("no rooms")
        await trio.sleep(1)
        return f"booked {what}"

    def step(id_, **fields):
        return {"id": id_, "goal": f"Do {id_}", **fields}

    def model(request):
        asked = request.messages[-1].text
        if "Tools that a subtask may name" in asked:
            if "has failed" in asked:
                return call("final_answer", subtasks=[step("rest")])
            return call("final_answer", subtasks=[step("a", after=["a"])])
        if "can't be used" in asked:
            hotel = step("hotel", tool="book", arguments={"what": "hotel"})
            return call("final_answer", subtasks=[step("look"), hotel])
        return "It is done."

    return Scenario(plan_and_execute(ScriptedProvider(*[model] * 50), [book]), inputs="A trip.")


def test_planning_and_answering_may_be_cancelled_at_any_checkpoint():
    report = cancel_at_every_checkpoint(planning_agent, at_most=few(16))
    assert report.violations == ()


def recovering_agent():
    fails = {"tool": 2, "model": 2}

    def may_fail(what):
        fails[what] -= 1
        if fails[what] >= 0:
            raise ModelOverloadedError("busy") if what == "model" else ValueError("not yet")

    @tool(read_only=True)
    async def look(at: str) -> str:
        """Look."""
        may_fail("tool")
        return f"saw {at}"

    def model(request):
        may_fail("model")
        return "It is there."

    subtasks = [Subtask("a", "", tool="look", arguments={"at": "a"}), Subtask("b", "Look at b")]
    row = Component.MODEL, ErrorClass.TRANSIENT
    policy = RecoveryPolicy(rows={row: [RecoveryDecision.GIVE_UP]})
    llm, plan = ScriptedProvider(*[model] * 50), Plan("", subtasks)
    agent = plan_and_execute(llm, [look], planner=plan, recovery=policy)
    return Scenario(agent, inputs="Look!")


def test_a_recovery_may_be_cancelled_at_any_checkpoint():
    report = cancel_at_every_checkpoint(recovering_agent, at_most=few(15))
    assert report.violations == ()


async def interrupt_after(planned, seconds):
    async with planned.spawn() as handle:
        handle.send_input_nowait("Go.")
        await trio.sleep(seconds)
        report = await handle.interrupt()
    assert report.abandoned == ()


async def test_an_interrupted_call_is_asked_about_and_one_that_ended_is_kept(autojump_clock):
    made = []

    async def make(what: str) -> str:
        """Make."""
        made.append(what)
        await trio.sleep(1 if what == "slow" else 0.1)
        return f"made {what}"

    plan = Plan(
        "",
        [
            Subtask("quick", "", tool="make", arguments={"what": "quick"}),
            Subtask("slow", "", tool="make", arguments={"what": "slow"}),
            Subtask("last", "", tool="make", arguments={"what": "last"}, after=["slow"]),
        ],
    )
    planned = Planned(plan, tools=[make])
    await interrupt_after(planned, 0.5)
    run = PlanRun.load(planned.session)
    assert run.results == {"quick": "made quick"}
    assert run.state("slow").status is SubtaskStatus.PENDING
    again = Planned(plan, tools=[make], store=planned.store, session=planned.session)
    await again.carry_out()  # nobody is there to be asked
    assert sorted(made) == ["quick", "slow"]
    assert "the call of make had started" in again.run.state("slow").error
    assert [request.action for request in again.asked] == ["Run the subtask slow again"]


async def test_an_agent_that_asked_only_its_model_goes_on_in_its_conversation(autojump_clock):
    llm = ScriptedProvider(Reply("It is", hangs=True), "It is there.")
    planned = Planned(Plan("", [Subtask("a", "Look")]), Agent(llm))
    await interrupt_after(planned, 0.5)
    again = Planned(planned.plan, planned.worker, store=planned.store, session=planned.session)
    await again.carry_out()
    assert again.run.results == {"a": "It is there."}
    assert again.asked == []
    assert llm.requests[1].messages[0].text == "Look"


async def test_an_agent_that_asks_no_model_is_asked_about(autojump_clock):
    planned = Planned(Plan("", [Subtask("a", "A")]), worker)
    await interrupt_after(planned, 0.1)
    again = Planned(planned.plan, worker, store=planned.store, session=planned.session)
    await again.carry_out()
    assert again.run.state("a").status is SubtaskStatus.PENDING
    assert "its agent had begun" in again.run.state("a").error


async def test_an_agent_that_asks_no_model_gets_its_goal_again(autojump_clock):
    planned = Planned(Plan("", [Subtask("a", "A")]), worker)
    await interrupt_after(planned, 0.1)
    again = Planned(planned.plan, worker, store=planned.store, session=planned.session)
    async with again.spawn() as handle, trio.open_nursery() as nursery:
        await nursery.start(ScriptedApprover("allow").attend, handle)
        await handle.ask("Go.")
        await handle.shutdown()
    assert again.run.results == {"a": {"done": "A"}}


@pytest.mark.parametrize("says", [{"category": "read"}, {"read_only": True}, {"idempotent": True}])
async def test_a_call_that_may_be_repeated_is_made_again_without_a_question(says, autojump_clock):
    seen = []

    @tool(**says)
    async def look() -> str:
        """Look."""
        seen.append(1)
        await trio.sleep(1)
        return "seen"

    planned = Planned(Plan("", [Subtask("a", "", tool="look")]), tools=[look])
    await interrupt_after(planned, 0.5)
    again = Planned(planned.plan, tools=[look], store=planned.store, session=planned.session)
    await again.carry_out()
    assert again.run.results == {"a": "seen"}
    assert again.asked == []
    assert len(seen) == 2


async def test_a_fork_of_a_plan_in_the_middle_is_asked_about(autojump_clock):
    async def make() -> str:
        """Make."""
        await trio.sleep(1)
        return "made"

    planned = Planned(Plan("", [Subtask("a", "", tool="make")]), tools=[make])
    await interrupt_after(planned, 0.5)
    fork = Planned(
        planned.plan, tools=[make], store=planned.store, session=await planned.session.fork()
    )
    await fork.carry_out()
    assert "of which this is a fork" in fork.run.state("a").error
