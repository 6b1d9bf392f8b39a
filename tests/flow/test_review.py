"""A person sees every plan that would start, and each result, where a review is wanted."""

import msgspec
import pytest

from greenroom import AgentSession, Answer, ConfigurationError, InMemoryStore, RuleDecision
from greenroom.core import TurnStatus
from greenroom.flow import Plan, PlanRun, Subtask, plan_and_execute, run_task
from greenroom.memory import SQLiteMemory
from greenroom.testing import ScriptedProvider, call

BOAT = [{"id": "boat", "goal": "", "tool": "book", "arguments": {"what": "a boat"}}]
YACHT = [{"id": "yacht", "goal": "", "tool": "book", "arguments": {"what": "a yacht"}}]
CANOE = [{"id": "canoe", "goal": "", "tool": "book", "arguments": {"what": "a canoe"}}]
NO = Answer(RuleDecision.DENY)


class Person:
    """Somebody who answers questions in turn, and a tool that has boats no more."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        self.booked = []

    async def book(self, what: str) -> str:
        """Book."""
        if "boat" in what:
            raise ValueError("no boats")
        self.booked.append(what)
        return f"booked {what}"

    async def approve(self, request):
        self.asked.append(request)
        return self.answers.pop(0)

    async def run(self, *plans, review=True):
        async def book(what: str) -> str:
            """Book."""
            return await self.book(what)

        script = [call("final_answer", subtasks=each) for each in plans]
        planner = plan_and_execute(ScriptedProvider(*script, "Done."), [book], review=review)
        return await planner.run("A trip", approve=self.approve)


async def test_a_revised_plan_is_shown_before_it_goes_on():
    person = Person(True, True)
    result = await person.run(BOAT, YACHT)
    assert result.status is TurnStatus.COMPLETED
    assert [request.action for request in person.asked] == [
        "Start this plan",
        "Go on with this plan",
    ]
    assert '[book {"what":"a yacht"}]' in person.asked[1].details
    assert person.booked == ["a yacht"]


async def test_a_revised_plan_that_is_declined_does_not_start():
    person = Person(True, NO)
    await person.run(BOAT, YACHT)
    assert person.booked == []


async def test_what_is_to_be_changed_in_a_revised_plan_goes_to_the_planner():
    person = Person(True, Answer(RuleDecision.DENY, message="Too dear: a canoe."), True)
    await person.run(BOAT, YACHT, CANOE)
    assert person.booked == ["a canoe"]


@pytest.mark.checkpoint("6.3 the work pauses where a person wants to look")
async def test_each_subtask_may_be_looked_at_before_others_start():
    person = Person(True, NO)
    then = {"id": "then", "goal": "", "tool": "book", "arguments": {"what": "a car"}}
    plan = [*YACHT, {**then, "after": ["yacht"]}]
    result = await person.run(plan, review=["plan", "subtask"])
    assert "the work was stopped" in str(result.error)
    assert person.booked == ["a yacht"]
    assert "completed: booked a yacht" in person.asked[1].details
    assert PlanRun.load(result.session).state("then").status == "pending"


@pytest.mark.parametrize(("answer", "booked"), [(NO, ["a yacht"]), (True, ["a yacht", "a car"])])
async def test_a_subtask_that_was_not_looked_at_before_a_kill_is_looked_at_then(answer, booked):
    person, store = Person(answer, True), InMemoryStore()

    async def book(what: str) -> str:
        """Book."""
        return await person.book(what)

    car = Subtask("then", "", tool="book", arguments={"what": "a car"}, after=["yacht"])
    plan = Plan("", [Subtask("yacht", "", tool="book", arguments={"what": "a yacht"}), car])
    planner = plan_and_execute(ScriptedProvider("Done."), [book], planner=plan, review=["subtask"])
    first = await planner.run("A trip", session="trip", store=store, approve="later")
    assert (first.status, person.booked) == (TurnStatus.WAITING, ["a yacht"])
    again = await planner.run(None, session="trip", store=store, approve=person.approve)
    assert person.booked == booked
    assert ("the work was stopped" in str(again.error)) == (answer is NO)
    asked = [request.action.removeprefix("Go on after the subtask ") for request in person.asked]
    assert asked == ["yacht", "then"][: len(booked)]
    told = PlanRun.load(again.session)
    assert told.state("yacht").awaits_review == (answer is NO)


async def test_what_ended_before_reviews_were_on_record_is_not_reviewed_again():
    person = Person(True)

    async def book(what: str) -> str:
        """Book."""
        return await person.book(what)

    car = Subtask("then", "", tool="book", arguments={"what": "a car"}, after=["yacht"])
    plan = Plan("A trip", [Subtask("yacht", "", tool="book", arguments={"what": "a yacht"}), car])
    session = AgentSession.new("planner")
    session.add_record(
        "plan.step", {"type": "begin", "plan": msgspec.json.decode(msgspec.json.encode(plan))}
    )
    for status in ("executing", "completed"):
        session.add_record("plan.step", {"type": "move", "id": "yacht", "status": status})
    planner = plan_and_execute(ScriptedProvider("Done."), [book], planner=plan, review=["subtask"])
    await planner.run("A trip", session=session, approve=person.approve)
    assert person.booked == ["a car"]
    assert [request.action for request in person.asked] == ["Go on after the subtask then"]


@pytest.mark.parametrize("word", ["plan", "subtask"])
@pytest.mark.parametrize("answer", ["allow", "deny"])
async def test_a_review_may_be_answered_later_in_another_process(word, answer):
    person, store = Person(), InMemoryStore()

    async def book(what: str) -> str:
        """Book."""
        return await person.book(what)

    plan = Plan("", [Subtask("yacht", "", tool="book", arguments={"what": "a yacht"})])
    planner = plan_and_execute(ScriptedProvider("Done."), [book], planner=plan, review=[word])
    first = await planner.run("A trip", session="trip", store=store, approve="later")
    (question,) = first.pending
    answers = {question.request_id: answer}
    then = await planner.run(None, session="trip", store=store, answers=answers, approve="later")
    if answer == "allow":
        assert (then.status, then.output) == (TurnStatus.COMPLETED, "Done.")
    else:
        assert "a person declined it" in str(then.error)
    assert person.booked == ([] if (word, answer) == ("plan", "deny") else ["a yacht"])
    assert then.session.history[0].text == "A trip"


async def test_the_plan_that_a_person_approves_later_is_the_one_that_they_have_seen():
    person, store = Person(), InMemoryStore()

    async def book(what: str) -> str:
        """Book."""
        return await person.book(what)

    script = [call("final_answer", subtasks=each) for each in (BOAT, YACHT)]
    llm = ScriptedProvider(*script, "Done.")
    planner = plan_and_execute(llm, [book], review=True)
    run = await planner.run("A trip", session="trip", store=store, approve="later")
    asked = []
    while run.pending:
        (question,) = run.pending
        asked.append(question.action)
        again = {"session": "trip", "store": store, "approve": "later"}
        run = await planner.run(None, answers={question.request_id: "allow"}, **again)
    assert (run.output, person.booked) == ("Done.", ["a yacht"])
    assert asked == ["Start this plan", "Go on with this plan"]
    assert len(llm.requests) == 3


async def test_a_plan_that_was_declined_is_not_proposed_again():
    person, store = Person(True), InMemoryStore()

    async def book(what: str) -> str:
        """Book."""
        return await person.book(what)

    script = [call("final_answer", subtasks=each) for each in (YACHT, CANOE)]
    planner = plan_and_execute(ScriptedProvider(*script, "Done."), [book], review=True)
    run = await planner.run("A trip", session="trip", store=store, approve="later")
    again = {"session": "trip", "store": store}
    run = await planner.run(None, answers={run.pending[0].request_id: "deny"}, **again)
    assert run.status is TurnStatus.FAILED
    run = await planner.run(None, approve=person.approve, **again)
    assert (run.output, person.booked) == ("Done.", ["a canoe"])


async def test_a_revision_that_nobody_has_decided_about_is_not_one_of_another_goal():
    person, store = Person(True), InMemoryStore()

    async def book(what: str) -> str:
        """Book."""
        return await person.book(what)

    script = [call("final_answer", subtasks=each) for each in (BOAT, YACHT, BOAT, CANOE)]
    llm = ScriptedProvider(*script, "Done.")
    planner = plan_and_execute(llm, [book], review=["revision"])
    again = {"session": "trip", "store": store}
    assert (await planner.run("A trip", approve="later", **again)).status is TurnStatus.WAITING
    await planner.run("Another trip", approve=person.approve, **again)
    assert person.asked[0].details.startswith("Another trip")
    assert person.booked == ["a canoe"]


@pytest.mark.parametrize(("length", "status"), [(150_000, "completed"), (300_000, "failed")])
async def test_a_plan_that_may_start_is_asked_about_however_long_its_goal_is(length, status):
    person = Person(True)
    plan = Plan("", [Subtask("car", "", tool="book", arguments={"what": "a car"})])

    async def book(what: str) -> str:
        """Book."""
        return await person.book(what)

    planner = plan_and_execute(ScriptedProvider("Done."), [book], planner=plan, review=["plan"])
    result = await planner.run("g" * length, approve=person.approve)
    assert (result.status, len(person.asked)) == (status, len(person.booked))
    assert ("the plan is too long" in str(result.error)) == (status == "failed")


@pytest.mark.parametrize(("confidence", "asked"), [(0.2, 1), (0.9, 0), (None, 0)])
async def test_a_result_that_is_unsure_may_be_looked_at(confidence, asked):
    person, answer = Person(True), {"answer": "7", "reason": "", "confidence": confidence}

    async def guess() -> dict[str, object]:
        """Guess."""
        return answer

    plan = call("final_answer", subtasks=[{"id": "guess", "goal": "", "tool": "guess"}])
    llm = ScriptedProvider(plan, "Seven.")
    planner = plan_and_execute(llm, [guess], review=["unsure"])
    assert (await planner.run("Guess", approve=person.approve)).output == "Seven."
    assert len(person.asked) == asked


def test_a_point_that_does_not_exist_is_refused():
    with pytest.raises(ConfigurationError, match="plan, revision, subtask, unsure"):
        plan_and_execute("offline:", review=["often"])
    for what in ({"concurrency": 0}, {"max_subtasks": 0}):
        with pytest.raises(ConfigurationError):
            plan_and_execute("offline:", **what)


async def test_one_call_recalls_plans_acts_and_remembers():
    memory = SQLiteMemory()
    plan = [{"id": "cook", "goal": "Cook"}]
    for answer in ("Risotto for Ada.", "Soup for Ada."):
        llm = ScriptedProvider(call("final_answer", subtasks=plan), "Cooked.", answer)
        result = await run_task("Dinner for Ada", llm, memory=memory)
        assert result.output == answer
    asked = llm.requests[0].messages[-1].text
    assert "What is known and may help" in asked
    assert "Risotto for Ada." in asked
    assert "noted by an agent" in asked


async def test_a_plan_has_at_most_so_many_subtasks():
    steps = [{"id": f"s{n}", "goal": f"Step {n}"} for n in range(6)]
    llm = ScriptedProvider(call("final_answer", subtasks=steps), *["ok"] * 3)
    result = await plan_and_execute(llm, max_subtasks=2).run("Steps")
    assert len(PlanRun.load(result.session).plan.subtasks) == 2
    assert all(isinstance(each, Subtask) for each in PlanRun.load(result.session).plan.subtasks)


async def test_a_planner_is_told_of_every_change_that_a_person_wants_in_a_revision():
    told = []

    class Planner:
        async def plan(self, goal, tools, context):
            return Plan(goal, [Subtask("boat", "", tool="book", arguments={"what": "a boat"})])

        async def revise(self, run, failure):
            told.append(failure.error)
            return Plan("", [Subtask("canoe", "", tool="book", arguments={"what": "a canoe"})])

    person = Person(NO, NO, True)
    person.answers[:2] = [Answer(RuleDecision.DENY, message=each) for each in ("Cheap.", "Red.")]
    planner = plan_and_execute(
        ScriptedProvider("Done."), [person.book], planner=Planner(), review=["revision"]
    )
    await planner.run("A trip", approve=person.approve)
    assert [("Cheap." in each, "Red." in each) for each in told] == [
        (False, False),
        (True, False),
        (True, True),
    ]
