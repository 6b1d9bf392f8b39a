"""Plans made by a model: requests, repeated requests, and merging."""

import json
from dataclasses import replace

import pytest
import trio

from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore, ToolRegistry
from greenroom.flow import Failure, ModelPlanner, Plan, Planner, PlanRun, Subtask, execute_plan
from greenroom.flow._internal import ErrorClass, FailureReason, PlanError
from greenroom.flow.model_planner import describe_errors, describe_results
from greenroom.llm import ModelOverloadedError, resilient
from greenroom.llm._internal import ModelQuotaError
from greenroom.resilience import Backoff, Retry
from greenroom.testing import Reply, ScriptedProvider
from greenroom.tools import as_tool
from tests.flow.planned import Planned, worker


async def book(what: str) -> str:
    """Book something."""
    return f"booked {what}"


TOOLS = ToolRegistry([as_tool(book)])


def draft(*subtasks):
    return json.dumps({"subtasks": subtasks})


def step(id_, after=(), **fields):
    return {"id": id_, "goal": f"Do {id_}", "after": list(after), **fields}


def request_text(llm, number=-1):
    return llm.requests[number].messages[-1].text or str(llm.requests[number].messages[-1].content)


async def test_a_model_is_told_the_goal_the_tools_and_what_is_known():
    llm = ScriptedProvider(
        draft(step("a"), step("b", ["a"], tool="book", arguments={"what": "{a}"}))
    )
    planner = ModelPlanner(llm)
    assert isinstance(planner, Planner)
    plan = await planner.plan("a trip to Oslo", TOOLS, "Ada likes trains.")
    assert plan.goal == "a trip to Oslo"
    assert plan["b"].arguments == {"what": "{a}"}
    request = request_text(llm)
    for word in ("a trip to Oslo", "book: Book something.", '"what"', "Ada likes trains."):
        assert word in request


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (draft(step("a", ["b"]), step("b", ["a"])), "wait for each other: a → b → a"),
        (draft(step("a", ["nope"])), "a waits for 'nope'"),
        (draft(step("a"), step("a")), "2 subtasks are called 'a'"),
        (draft(step("a", tool="fly")), "there is no tool 'fly' (tools: book)"),
        (draft(step("a", arguments={"x": 1})), "a has arguments but no tool"),
        (draft(step("a b")), "can't be the id of a subtask"),
        (draft(), "it has no subtasks"),
        ('{"subtasks": [{"id": "a"}]}', "goal"),
        ("Here is my plan: first we look around.", "not a JSON object"),
        (draft(*(step(f"s{n}") for n in range(201))), "plan at most 20"),
        (draft(*(step(f"s{n}", tool="book") for n in range(21))), "most of them calls"),
    ],
)
async def test_a_plan_that_does_not_fit_is_asked_for_again_with_what_is_wrong(bad, said):
    llm = ScriptedProvider(bad, draft(step("a")))
    plan = await ModelPlanner(llm).plan("goal", TOOLS, "")
    assert plan.order() == ("a",)
    assert said in request_text(llm)
    first, second = (request.messages for request in llm.requests)
    assert second[: len(first)] == first  # so that the provider's cache serves it


async def test_a_model_that_is_busy_is_asked_again_by_its_own_retry():
    def busy(request):
        raise ModelOverloadedError("busy")

    llm = ScriptedProvider(busy, draft(step("a", ["a"])), busy, draft(step("a")))
    model = resilient(llm, retry=Retry(backoff=Backoff(first=0.0)))
    assert (await ModelPlanner(model).plan("goal")).order() == ("a",)


async def test_a_model_that_makes_no_plan_is_given_up():
    knot = draft(step("a", ["a"]))
    llm = ScriptedProvider(*[knot] * 3)
    with pytest.raises(PlanError, match=r"no usable plan: .*a → a"):
        await ModelPlanner(llm).plan("goal")
    chatter = ScriptedProvider(*["Let me think about it."] * 3)
    with pytest.raises(PlanError, match="the model made no plan"):
        await ModelPlanner(chatter).plan("goal")
    broken = ScriptedProvider(Reply(error=ModelQuotaError("no credit")))
    with pytest.raises(ModelQuotaError):
        await ModelPlanner(broken).plan("goal")


async def test_thirty_trivial_steps_become_twenty():
    steps = [step(f"s{n}", [f"s{n - 1}"] if n else []) for n in range(30)]
    plan = await ModelPlanner(ScriptedProvider(draft(*steps))).plan("goal")
    assert len(plan.subtasks) == 20
    said = "\n".join(subtask.goal for subtask in plan.subtasks)
    assert all(f"Do s{n}" in said for n in range(30))


def half_done():
    plan = Plan(
        "a trip",
        [
            Subtask("flight", "Fly", tool="book", arguments={"what": "flight"}),
            Subtask("hotel", "Sleep", after=["flight"]),
            Subtask("dinner", "Eat", after=["hotel"]),
        ],
    )
    run = PlanRun(plan).start("flight", "s-1").complete("flight", "seat 7")
    run = run.start("hotel", "s-2").fail("hotel", "no rooms")
    failure = Failure(
        subtask=plan["hotel"],
        error="no rooms",
        reason=FailureReason.WORKER,
        failures=1,
        tools=TOOLS,
    )
    return run, failure


async def test_a_revision_is_told_what_is_done_and_what_has_failed_and_redoes_nothing():
    run, failure = half_done()
    llm = ScriptedProvider(
        draft(step("flight"), step("hostel", ["flight"]), step("dinner", ["hostel"]))
    )
    plan = await ModelPlanner(llm).revise(run, failure)
    request = request_text(llm)
    for word in ("a trip", "seat 7", "hotel: no rooms", "dinner: it waits for hotel", "book:"):
        assert word in request
    assert plan["flight"] == run.plan["flight"]
    assert run.revise(plan).ready() == ("hostel",)
    nothing_left = await ModelPlanner(ScriptedProvider(draft())).revise(run, failure)
    assert run.revise(nothing_left).is_completed


async def test_the_id_of_what_is_completed_is_not_given_to_another_call():
    run, failure = half_done()
    other = {"id": "flight", "goal": "", "tool": "book", "arguments": {"what": "another flight"}}
    llm = ScriptedProvider(draft(other), draft(step("hostel", ["flight"])))
    plan = await ModelPlanner(llm).revise(run, failure)
    assert "flight is completed, and was another call (leave it out, or" in request_text(llm)
    assert plan.order() == ("flight", "hostel")


async def test_what_was_too_much_for_one_agent_is_to_be_split():
    run, failure = half_done()
    llm = ScriptedProvider(draft(step("hostel", ["flight"])))
    await ModelPlanner(llm).revise(run, replace(failure, error_class=ErrorClass.REPETITION))
    assert "several smaller subtasks" in request_text(llm)


async def test_what_is_completed_does_not_count_and_is_not_merged():
    run, failure = half_done()
    steps = [step(f"s{n}", ["flight"]) for n in range(30)]
    plan = await ModelPlanner(ScriptedProvider(draft(*steps)), max_subtasks=4).revise(run, failure)
    assert len(plan.subtasks) == 5
    assert plan["flight"].tool == "book"
    assert all(subtask.after == ("flight",) for subtask in plan.subtasks[1:])


async def test_a_planner_inside_of_an_agent_is_under_its_budgets(autojump_clock):
    plan = Plan("", [Subtask("a", "fail")])
    llm = ScriptedProvider(*[draft(step("a"))] * 5)
    planned = Planned(plan, worker, planner=ModelPlanner(llm))

    async def limited(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(model_calls=0):
                    await execute_plan(agent, plan, worker, planner=ModelPlanner(llm))

    async with AgentRuntime(InMemoryStore()) as runtime:
        result = await runtime.spawn(AgentSession.new("limited"), limited).ask("Go.")
    assert "budget" in result.error
    assert llm.requests == []
    await planned.carry_out()
    assert len(llm.requests) == 1
    assert planned.run.is_completed


def test_a_planner_works_outside_of_any_agent():
    llm = ScriptedProvider(draft(step("a")))
    assert trio.run(ModelPlanner(llm).plan, "goal").order() == ("a",)


def test_a_result_can_forge_no_other_one():
    plan = Plan("", [Subtask("a", ""), Subtask("b", "")])
    run = (
        PlanRun(plan)
        .start("a", "s")
        .complete("a", "x\r\n- b: paid")
        .start("b", "t")
        .fail("b", "y\n- a: z")
    )
    assert describe_results(run) == "- a: x\n  - b: paid"
    assert describe_errors(run) == "- b: y\n  - a: z"


GOLDEN = """\
The goal:
a trip to Oslo

Tools that a subtask may name, with the schemas of their arguments:
- book: Book something.
  {"additionalProperties":false,"properties":{"what":{"type":"string"}},"required":["what"],\
"type":"object"}

Plans that have worked:
For a trip to Rome:
- look: Look for trains [expected: three trains, with prices]
- book (after look): Book one [book {"what":"{look.0}"}]

What is known and may help:
Ada likes trains."""


async def test_the_request_for_a_plan_word_for_word():
    known = Plan(
        "a trip to Rome",
        [
            Subtask("look", "Look for trains", expected="three trains, with prices"),
            Subtask(
                "book", "Book one", after=["look"], tool="book", arguments={"what": "{look.0}"}
            ),
        ],
    )
    llm = ScriptedProvider(draft(step("a")))
    await ModelPlanner(llm, templates=[known]).plan("a trip to Oslo", TOOLS, "Ada likes trains.")
    assert request_text(llm) == GOLDEN
    assert "Say in `expected` what the result has to be like" in llm.requests[0].system


async def test_an_agent_is_told_what_result_is_expected():
    llm = ScriptedProvider("Three trains.")
    plan = Plan("", [Subtask("look", "Look for trains", expected="three trains")])
    planned = Planned(plan, Agent(llm))
    await planned.carry_out()
    assert request_text(llm) == "Look for trains\nExpected result: three trains"


async def test_a_cycle_that_the_model_does_not_mend_is_broken_at_an_edge_that_is_not_used():
    knot = draft(step("a", ["c"]), step("b", ["a"], goal="Use {a}"), step("c", ["b"], goal="{b}"))
    llm = ScriptedProvider(*[knot] * 3)
    plan = await ModelPlanner(llm).plan("goal")
    assert (plan.order(), len(llm.requests)) == (("a", "b", "c"), 3)
