"""What a plan has done is undone if it fails: the last first, each once, also after a kill."""

import pytest
import trio

from greenroom import Agent, AgentSession, Custom
from greenroom.flow import Plan, PlanRun, Subtask, orchestrator, plan_and_execute
from greenroom.testing import Scenario, ScriptedProvider, cancel_at_every_checkpoint
from greenroom.testing._internal import run_agent_async
from tests.conftest import few
from tests.flow.planned import Planned, worker

TRIP = Plan(
    "a trip",
    [
        Subtask("flight", "Fly"),
        Subtask("hotel", "Sleep", after=["flight"]),
        Subtask("museum", "fail", after=["hotel"]),
        Subtask("dinner", "Eat", after=["museum"]),
    ],
)


def undoing(undone, *, fails=()):
    """A function that undoes all but what fails once."""
    left = list(fails)

    async def undo(subtask, result):
        if subtask.id in left:
            left.remove(subtask.id)
            raise OSError(f"{subtask.id} is busy")
        undone.append((subtask.id, result["done"]))

    return undo


async def test_a_failed_plan_undoes_what_was_done_the_last_first(autojump_clock):
    undone = []
    planned = Planned(TRIP, worker, undo=undoing(undone))
    await planned.carry_out()
    assert undone == [("hotel", "Sleep"), ("flight", "Fly")]
    assert planned.steps[-2:] == ["hotel undone", "flight undone"]
    assert [id_ for id_, state in planned.run.states.items() if state.is_undone] == [
        "flight",
        "hotel",
    ]
    assert PlanRun.load(planned.session) == planned.run == planned.told


async def test_a_plan_that_succeeds_undoes_nothing(autojump_clock):
    undone = []
    planned = Planned(Plan("", TRIP.subtasks[:2]), worker, undo=undoing(undone))
    await planned.carry_out()
    assert planned.run.is_completed
    assert undone == []


async def test_what_could_not_be_undone_is_next_and_nothing_is_undone_twice(autojump_clock):
    undone = []
    undo = undoing(undone, fails=["flight"])
    first = Planned(TRIP, worker, undo=undo)
    async with first.spawn() as handle:
        await handle.send_input("Go.")
        assert "flight is busy" in str((await handle.wait()).error)
    session = await AgentSession.load("planned", store=first.store)
    again = Planned(TRIP, worker, undo=undo, store=first.store, session=session)
    await again.carry_out()
    assert [id_ for id_, _ in undone] == ["hotel", "flight"]
    assert again.run.state("flight").is_undone


@pytest.mark.parametrize("is_stored", [True, False])
async def test_a_plan_that_was_given_up_can_be_undone_at_any_time(is_stored):
    run, undone = PlanRun(TRIP).start("flight", "s").complete("flight", {"done": "Fly"}), []

    async def stop(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                if is_stored:
                    await run.undo(agent, undoing([]))
                    assert await PlanRun.load(agent.session).undo(agent, undoing(undone))
                else:
                    await run.undo(agent, undoing(undone))

    ended = await run_agent_async(stop, inputs="Stop.")
    assert undone == ([] if is_stored else [("flight", "Fly")])
    assert "plan: flight undone" in [chunk.text for chunk in ended.of(Custom)]


def test_undoing_may_be_cancelled_at_any_checkpoint_and_loses_nothing():
    def scenario():
        undone = []

        async def undo(subtask, result):
            await trio.lowlevel.checkpoint()
            undone.append(subtask.id)

        async def agent_fn(agent):
            run = PlanRun(Plan("", TRIP.subtasks[:2]))
            for id_ in run.plan.ids:
                run = run.start(id_, f"s-{id_}").complete(id_)
            async for message in agent.inputs():
                async with agent.turn(message):
                    begun = agent.session.records("plan.step")
                    given = PlanRun.load(agent.session) if begun else run
                    await given.undo(agent, undo)
            states = PlanRun.load(agent.session).states if undone else {}
            marked = [id_ for id_ in reversed(states) if states[id_].is_undone]
            assert marked == undone

        return Scenario(agent_fn, inputs="Stop.")

    assert cancel_at_every_checkpoint(scenario, at_most=few(15)).violations == ()


@pytest.mark.parametrize("make", [plan_and_execute, orchestrator])
async def test_whoever_answers_knows_what_was_undone(make, autojump_clock):
    undone = []

    async def undo(subtask, result):
        undone.append((subtask.id, result))

    def answer(request):
        asked.append(request.messages[-1].text)
        return "There is no trip."

    asked = []
    plan = Plan("", [Subtask("flight", "Fly"), Subtask("stay", "Sleep", after=["flight"])])
    traveller = Agent(ScriptedProvider("a seat"), name="traveller")  # and then it fails
    llm = ScriptedProvider(*[answer] * 9)
    if make is plan_and_execute:
        team = make(llm, planner=plan, worker=traveller, undo=undo)
    else:
        team = make(llm, traveller, planner=plan, undo=undo)
    result = await team.run("A trip")
    assert result.text == "There is no trip."
    assert undone == [("flight", "a seat")]
    assert "- flight: done, and undone again" in asked[-1]
