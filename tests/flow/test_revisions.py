"""Revised plans repeat no call, forget no doubt, and end."""

import sys

import pytest
import trio

from greenroom import Agent, ToolError
from greenroom.agents import stream_reply
from greenroom.core import NetworkError
from greenroom.flow import Plan, PlanRun, RecoveryPolicy, ReplanPolicy, Subtask, run_task
from greenroom.flow._internal import (
    Component,
    ErrorClass,
    PlanError,
    RecoveryDecision,
    SubtaskStatus,
)
from greenroom.testing import ScriptedProvider
from tests.flow.planned import Planned
from tests.flow.test_execute import Written
from tests.flow.test_recovery import Answers, repeatable


def book(id_, what, **options):
    return Subtask(id_, "", tool="book", arguments={"what": what}, **options)


def agency(*fails):
    """Make a tool that books, its bookings, and those for which it reports a failure."""
    booked = []

    async def book(what: str) -> str:
        """Book something."""
        booked.append(what)
        if what in fails:
            raise ConnectionError("reset")
        return f"booked {what}"

    return book, booked


FLIGHT, HOTEL = book("flight", "a flight"), book("hotel", "a hotel", after=["flight"])
HOSTEL = book("hostel", "a hostel", after=["flight"])


@pytest.mark.parametrize(("decision", "count"), [("deny", 1), ("allow", 2)])
@pytest.mark.parametrize(
    ("revised", "what"),
    [
        ([book("plane", "a flight"), HOSTEL], "a flight"),  # it is completed, under another id
        ([book("room", "a hotel")], "a hotel"),  # it has failed, and nobody knows how far it came
        ([HOTEL], "a hotel"),
    ],
)
async def test_a_call_that_was_made_is_not_made_again_by_a_revised_plan_without_a_yes(
    revised, what, decision, count, autojump_clock
):
    tool, booked = agency("a hotel")

    @repeatable
    async def find() -> str:
        """Find."""
        return "a flight"

    city = Subtask("city", "", tool="find")
    flight = book("flight", "{city}", after=["city"])
    planned = Planned(
        Plan("a trip", [city, flight, HOTEL]),
        tools=[tool, find],
        planner=Written(Plan("", [city, flight, *revised])),
    )
    answers = Answers(planned, decision)
    await answers.carry_out()
    assert booked.count(what) == count
    assert answers.asked == [f"Run the subtask {revised[0].id}, a call that was made before"]
    assert "It was started once at 20" in answers.details[0]


@pytest.mark.parametrize(
    ("error", "asked"), [(ToolError("no answer"), 0), (ConnectionError("reset"), 1)]
)
async def test_what_a_tool_says_has_failed_may_be_tried_again(error, asked, autojump_clock):
    calls = []

    async def book(what: str) -> str:
        """Book something."""
        calls.append(what)
        if len(calls) < 6:
            raise error
        return "booked"

    policy, plan = ReplanPolicy(revisions=5), Plan("", [FLIGHT])
    planner = Written(*[plan] * 5)
    planned = Planned(plan, tools=[book], planner=planner, policy=policy)
    answers = Answers(planned)
    await answers.carry_out()
    assert planned.run.is_completed == (not asked)
    assert bool(answers.asked) == bool(asked)


async def test_equal_calls_of_one_plan_are_meant_so(autojump_clock):
    tool, booked = agency("a hotel")
    seats = [book("seat1", "a seat"), book("seat2", "a seat", after=["hotel2"])]
    plan = Plan("", [seats[0], book("hotel", "a hotel"), book("seat2", "a seat", after=["hotel"])])
    revised = Plan("", [*seats, book("hotel2", "a hostel")])
    planned = Planned(plan, tools=[tool], planner=Written(revised))
    answers = Answers(planned)
    await answers.carry_out()
    assert (booked.count("a seat"), answers.asked) == (2, [])


def test_a_revision_keeps_what_is_in_doubt():
    run = PlanRun(Plan("", [FLIGHT, book("train", "a train")])).start("flight", "s-1")
    run = (
        run.reset("flight", "s-1", "it may have been booked")
        .start("train", "s-2")
        .fail("train", "?")
    )
    revised = run.revise(Plan("", [book("bus", "a bus")]))
    assert [*revised.states] == ["flight", "bus"]
    assert revised.state("flight") == run.state("flight")
    other = run.revise(Plan("", [book("flight", "another flight")]))
    assert other.plan["flight"] == FLIGHT  # what it has left behind is that of this call


async def test_an_agent_that_has_failed_behind_its_last_word_is_not_done(autojump_clock):
    llm, posted = ScriptedProvider("A text.", "The same text."), []

    async def worker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                reply = await stream_reply(agent, llm)
                if not posted:
                    posted.append("tried")
                    raise NetworkError("no route")
                posted.append(reply.text)

    planned = Planned(Plan("", [Subtask("a", "Write and post")]), worker, recovery=RecoveryPolicy())
    await planned.carry_out()
    assert posted == ["tried", "The same text."]
    assert planned.run.results == {"a": "The same text."}


async def test_behind_the_last_answer_of_a_row_it_is_given_up(autojump_clock):
    calls = []

    @repeatable
    async def find() -> str:
        """Find."""
        calls.append(1)
        raise ToolError("later")

    rows = {(Component.TOOL, ErrorClass.FAILED): [RecoveryDecision.RETRY] * 3}
    planned = Planned(
        Plan("", [Subtask("a", "", tool="find")]), tools=[find], recovery=RecoveryPolicy(rows=rows)
    )
    await planned.carry_out()
    assert len(calls) == 4


async def test_a_revised_plan_that_nobody_could_carry_out_is_none(autojump_clock):
    tool, _ = agency("a flight")
    for other in (Subtask("b", "Walk"), Subtask("b", "", tool="walk")):
        planned = Planned(Plan("", [FLIGHT]), tools=[tool], planner=Written(Plan("", [other])))
        assert (await planned.carry_out()).error == ""
        assert planned.run.error.startswith("b")


async def test_a_tool_of_what_is_completed_need_not_be_there_any_more(autojump_clock):
    tool, _ = agency()
    run = PlanRun(Plan("", [Subtask("a", "", tool="gone"), FLIGHT]))
    planned = Planned(run.start("a", "s-1").complete("a", 1), tools=[tool])
    await planned.carry_out()
    assert planned.run.is_completed


async def test_what_was_given_up_may_be_planned_anew_under_its_id(autojump_clock):
    class Once:
        """Gives up once, and leaves the rest to the policy."""

        given_up = False

        async def recover(self, run, failure):
            if failure.subtask.id == "hotel" and not self.given_up:
                self.given_up = True
                return "give_up"
            return "replan"

    tool, booked = agency("a hotel", "a car", "a tent")
    plan = Plan("", [book("hotel", "a hotel"), book("car", "a car", after=["flight"]), FLIGHT])
    planner = Written(Plan("", [book("hotel", "a tent")]), Plan("", [book("hotel", "a hostel")]))
    planned = Planned(plan, tools=[tool], planner=planner, recovery=Once(), concurrency=1)
    await planned.carry_out()
    assert planned.run.revisions == 2
    assert booked[-1] == "a hostel"


async def test_a_person_s_no_holds_whatever_a_recovery_says(autojump_clock):
    class Stubborn:
        async def recover(self, run, failure):
            return "ask_person" if RecoveryDecision.ASK_PERSON in failure.possible else "retry"

    tool, booked = agency("a flight")
    answers = Answers(Planned(Plan("", [FLIGHT]), tools=[tool], recovery=Stubborn()), "deny")
    await answers.carry_out()
    assert booked == ["a flight"]


async def test_a_person_sees_the_call_that_would_be_made_again(autojump_clock):
    class Ask:
        async def recover(self, run, failure):
            return "ask_person" if RecoveryDecision.ASK_PERSON in failure.possible else "give_up"

    tool, _ = agency("booked a flight")
    plan = Plan("", [FLIGHT, book("meal", "{flight}", after=["flight"])])
    planned = Planned(plan, tools=[tool], recovery=Ask())
    await planned.carry_out()
    assert [each.input for each in planned.asked] == [{"what": "booked a flight"}]


@pytest.mark.parametrize(
    "plan",
    [
        Plan("x" * 300_000, [Subtask("a", "A")]),
        Plan("", [Subtask("a", "x" * 300_000)]),
    ],
)
async def test_a_plan_that_is_too_long_is_refused_and_nothing_starts(plan, autojump_clock):
    with pytest.raises(PlanError, match="too long"):
        _ = (await run_task(plan.goal, ScriptedProvider(), planner=plan)).output
    tool, _ = agency("a flight")
    planned = Planned(
        Plan("", [FLIGHT]), Agent(ScriptedProvider()), tools=[tool], planner=Written(plan)
    )
    if not plan.goal:
        await planned.carry_out()
        assert "too long" in planned.run.error
        assert PlanRun.load(planned.session) == planned.run


async def test_the_answer_to_a_long_plan_is_asked_for_in_a_bounded_request(autojump_clock):
    async def find() -> str:
        """Find."""
        return "x" * 3000

    asked = []

    def answer(request):
        asked.append(sum(len(message.text) for message in request.messages))
        return "Done."

    plan = Plan("", [Subtask(f"s{n}", "", tool="find") for n in range(120)])
    await run_task("Find it", ScriptedProvider(answer), [find], planner=plan)
    assert asked[0] < 80_000


async def test_an_index_of_any_length_is_a_missing_field(autojump_clock):
    async def find() -> list[int]:
        """Find."""
        return [1]

    plan = Plan("", [Subtask("a", "", tool="find"), Subtask("b", "{a." + "9" * 5000 + "}", ["a"])])
    planned = Planned(plan, Agent(ScriptedProvider()), tools=[find])
    assert (await planned.carry_out()).error == ""
    assert planned.run.state("b").status is SubtaskStatus.FAILED


def test_a_move_costs_no_walk_over_the_plan():
    run, steps = PlanRun(Plan("", [Subtask(f"s{n}", "") for n in range(1000)])), []
    sys.setprofile(lambda *event: steps.append(event[1]))
    moved = run.start("s7", "s-1")
    sys.setprofile(None)
    assert moved.ids(SubtaskStatus.EXECUTING) == ("s7",)
    assert len(steps) < 200  # calls and returns


async def test_a_question_about_a_failure_outlives_an_interrupt(autojump_clock):
    class Ask:
        async def recover(self, run, failure):
            assert run.state("flight").status is SubtaskStatus.FAILED
            return "ask_person" if RecoveryDecision.ASK_PERSON in failure.possible else "give_up"

    tool, booked = agency("a flight")
    planned = Planned(Plan("", [FLIGHT]), tools=[tool], recovery=Ask())
    with trio.fail_after(60):
        await ask_twice(planned)
    assert [each.action for each in planned.asked] == ["Run the subtask flight again"] * 2
    assert booked == ["a flight"]


async def ask_twice(planned):
    async with (
        planned.spawn() as handle,
        handle.subscribe(answers=True) as chunks,
        trio.open_nursery() as nursery,
    ):
        for ends in (True, False):
            nursery.start_soon(handle.ask, "Go.")
            async for _ in chunks:
                if requests := await handle.pending():
                    break
            if ends:
                await handle.interrupt()
                assert not PlanRun.load(planned.session).ids(SubtaskStatus.EXECUTING)
            else:
                await handle.respond_permission(requests[0].request_id, "deny")
