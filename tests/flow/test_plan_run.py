"""Runs of plans: legal moves, blocked subtasks, and loading."""

import json

import msgspec
import pytest
from hypothesis import given, strategies as st

from greenroom import AgentSession
from greenroom.core._internal import InvalidJSONError
from greenroom.flow import Plan, PlanRun, Subtask
from greenroom.flow._internal import FailureReason, PlanError, SubtaskStatus
from greenroom.flow.plan_run import PLAN_STEP, TRANSITIONS, SubtaskReview, SubtaskUndo
from tests.flow.planned import Planned, worker

PLAN = Plan(
    "trip",
    [
        Subtask("flight", "Fly"),
        Subtask("hotel", "Sleep", after=["flight"]),
        Subtask("pack", "Pack", after=["hotel"]),
        Subtask("visa", "Ask"),
    ],
)


def statuses(run):
    return {id_: str(state.status) for id_, state in run.states.items()}


def test_each_change_makes_a_new_run():
    run = PlanRun(PLAN)
    later = run.start("flight", "s-1")
    assert run.state("flight").status == "pending"
    assert later.state("flight").session_id == "s-1"
    done = later.complete("flight", {"price": 7})
    assert done.results == {"flight": {"price": 7}}
    assert done.state("flight").session_id == ""
    assert done.ready() == ("hotel", "visa")
    assert not done.is_over


def test_the_status_is_its_word_in_json():
    assert json.loads(msgspec.json.encode(SubtaskStatus.PENDING)) == "pending"
    run = PlanRun(PLAN).start("visa", "s")
    assert json.loads(msgspec.json.encode(run))["states"]["visa"]["status"] == "executing"
    assert msgspec.json.decode(msgspec.json.encode(run), type=PlanRun) == run


def test_a_failure_blocks_those_that_wait_for_it_and_no_others():
    run = PlanRun(PLAN).start("flight", "s-1").fail("flight", "no seats")
    assert statuses(run) == {
        "flight": "failed",
        "hotel": "blocked",
        "pack": "blocked",
        "visa": "pending",
    }
    assert run.errors == {
        "flight": "no seats",
        "hotel": "it waits for flight",
        "pack": "it waits for hotel",
    }
    again = run.reset("flight")
    assert statuses(again) == dict.fromkeys(PLAN.order(), "pending")
    assert again.state("flight").failures == 1


def at(status):
    """A run in which hotel has this status."""
    run = PlanRun(PLAN).start("flight", "s-1")
    if status is SubtaskStatus.BLOCKED:
        return run.fail("flight", "no")
    run = run.complete("flight")
    if status is SubtaskStatus.PENDING:
        return run
    run = run.start("hotel", "s-2")
    if status is SubtaskStatus.COMPLETED:
        return run.complete("hotel")
    return run.fail("hotel", "no") if status is SubtaskStatus.FAILED else run


@pytest.mark.parametrize("before", list(SubtaskStatus))
def test_illegal_moves_raise(before):
    run = at(before)
    assert run.state("hotel").status is before
    moves = {
        SubtaskStatus.EXECUTING: lambda: run.start("hotel", "s-3"),
        SubtaskStatus.COMPLETED: lambda: run.complete("hotel"),
        SubtaskStatus.FAILED: lambda: run.fail("hotel", "no"),
    }
    for after, move in moves.items():
        if after in TRANSITIONS[before]:
            assert move().state("hotel").status is after
        else:
            with pytest.raises(PlanError, match=f"hotel is {before}, and can't become"):
                move()


def test_what_waits_cannot_start_and_what_is_not_there_raises():
    with pytest.raises(PlanError, match="its dependencies are not completed"):
        PlanRun(PLAN).start("hotel", "s-1")
    with pytest.raises(PlanError, match="'car'"):
        PlanRun(PLAN).state("car")


def test_results_are_json_and_bounded():
    run = PlanRun(PLAN).start("flight", "s-1")
    with pytest.raises(InvalidJSONError):
        run.complete("flight", {1, 2})
    long = run.complete("flight", {"text": "x" * 100_000}).results["flight"]
    assert isinstance(long, str)
    assert 15_900 < len(long) <= 16_000
    assert "characters left out" in long
    control = run.complete("flight", "\x00" * 100_000).results["flight"]
    assert len(json.dumps(control)) < 200_000


def test_a_revision_keeps_what_is_completed_whatever_the_new_plan_says():
    run = at(SubtaskStatus.FAILED)
    new = Plan(
        "another goal",
        [
            Subtask("flight", "Fly elsewhere"),
            Subtask("hostel", "Sleep", after=["flight"]),
            Subtask("hotel", "Sleep cheaply", after=["hostel"]),
        ],
    )
    revised = run.revise(new)
    assert revised.plan.goal == "trip"
    assert revised.plan["flight"].goal == "Fly"
    assert statuses(revised) == {"flight": "completed", "hostel": "pending", "hotel": "pending"}
    assert revised.state("hotel").failures == 1
    assert revised.revisions == 1
    alone = run.revise(Plan("", [Subtask("visa", "Ask")]))
    assert statuses(alone) == {"flight": "completed", "visa": "pending"}


def test_a_revision_does_not_run_again_what_a_person_has_refused():
    run = PlanRun(PLAN).start("flight", "s").fail("flight", "no", FailureReason.CUT_OFF)
    revised = run.revise(PLAN)
    assert statuses(revised)["flight"] == "failed"
    assert statuses(revised)["hotel"] == "blocked"


def test_a_session_without_a_plan_says_so():
    with pytest.raises(PlanError, match="holds no plan"):
        PlanRun.load(AgentSession.new("x"))
    session = AgentSession.new("x")
    session.add_record(PLAN_STEP, {"type": "teleport"})
    with pytest.raises(PlanError, match="can't be read"):
        PlanRun.load(session)


def test_who_reads_the_steps_alone_has_the_run_once_one_begins():
    assert PlanRun.follow(None, {"type": "end", "error": "x"}) is None
    run = PlanRun.follow(None, {"type": "begin", "plan": msgspec.to_builtins(PLAN)})
    assert run == PlanRun(PLAN)
    with pytest.raises(PlanError, match="can't start"):
        PlanRun.follow(run, {"type": "move", "id": "hotel", "status": "executing"})


def test_a_drawing_tells_where_each_subtask_is():
    plan = Plan("", [Subtask("a", "A"), Subtask("2", "B", after=["a"]), Subtask("c", "C")])
    drawn = PlanRun(plan).start("c", "s").start("a", "s").fail("a", "no").to_mermaid().splitlines()
    assert drawn[: len(plan.to_mermaid().splitlines())] == plan.to_mermaid().splitlines()
    assert [line.strip() for line in drawn if "class " in line] == [
        "class c executing",
        "class a failed",
        "class subtask2 blocked",
    ]


moves = st.lists(
    st.tuples(
        st.sampled_from(["start", "complete", "fail", "reset", "revise"]),
        st.sampled_from(PLAN.order()),
    ),
    max_size=25,
)


@given(moves)
def test_a_run_is_read_back_as_it_was_from_its_steps(done):
    run = PlanRun(PLAN)
    for move, id_ in done:
        try:
            run = {
                "start": lambda r, i: r.start(i, f"s-{i}"),
                "complete": lambda r, i: r.complete(i, {"of": i}),
                "fail": lambda r, i: r.fail(i, "no", FailureReason.TOOL),
                "reset": lambda r, i: r.reset(i, f"s-{i}"),
                "revise": lambda r, i: r.revise(PLAN),
            }[move](run, id_)
        except PlanError:
            continue
        blocked = {i for i, s in run.states.items() if s.status is SubtaskStatus.BLOCKED}
        failed = set(run.ids(SubtaskStatus.FAILED))
        for subtask in PLAN.subtasks:
            is_behind = bool((failed | blocked) & set(subtask.after))
            if run.state(subtask.id).status in ("pending", "blocked"):
                assert (subtask.id in blocked) == is_behind
    for id_ in run.ids(SubtaskStatus.COMPLETED)[::2]:
        run = run.apply(SubtaskReview(id_)).apply(SubtaskUndo(id_))
    session = AgentSession.new("x")
    for step in run.steps():
        session.add_record(PLAN_STEP, json.loads(msgspec.json.encode(step)))
    assert PlanRun.load(session) == run


async def test_each_record_of_a_plan_has_its_time_and_the_run_its_start(
    autojump_clock, stopped_clock
):
    planned = Planned(Plan("", [Subtask("a", "A")]), worker)
    await planned.carry_out()
    records = planned.session.records("plan.step")
    assert {each["type"] for each in records} >= {"begin", "move"}
    assert {each["at"] for each in records} == {"2026-01-14T10:30:00Z"}
    run = PlanRun.load(planned.session)
    assert run.started_at == stopped_clock
    assert run == PlanRun(run.plan, run.states, run.revisions, run.error)


def test_a_run_from_before_times_were_kept_has_no_start():
    begin = {"type": "begin", "plan": {"goal": "", "subtasks": [{"id": "a", "goal": "Look"}]}}
    run = PlanRun.follow(None, begin)
    assert run.started_at is None
    assert b"started_at" not in msgspec.json.encode(run)


def test_what_a_run_holds_can_t_be_changed():
    run = PlanRun(Plan("", [Subtask("a", "A")])).start("a", "s").complete("a", {"n": [1]})
    for each in (run.states, run.results, run.results["a"], run.results["a"]["n"]):
        with pytest.raises(TypeError, match="frozen"):
            each.clear()
