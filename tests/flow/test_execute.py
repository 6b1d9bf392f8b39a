"""Executing plans: in parallel, in order, with failures, revisions and questions."""

import logging
import random

import msgspec
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from greenroom import (
    Agent,
    AgentSession,
    ConfigurationError,
    Done,
    PermissionManager,
    PermissionRule,
    RuntimeLimits,
    ToolRegistry,
    ToolResult,
    tool,
)
from greenroom.flow import Failure, Plan, Planner, PlanRun, ReplanPolicy, Subtask, execute_plan
from greenroom.flow._internal import (
    ErrorClass,
    FailureReason,
    PlanError,
    SubtaskRecovery,
    SubtaskStatus,
)
from greenroom.llm import ModelOverloadedError
from greenroom.resilience import Backoff, Budget, Retry
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import as_tool
from tests.conftest import few
from tests.flow.planned import Planned, worker


def words(run):
    return {id_: str(state.status) for id_, state in run.states.items()}


def diamond():
    return Plan(
        "diamond",
        [
            Subtask("a", "A"),
            Subtask("b", "B", after=["a"]),
            Subtask("c", "C", after=["a"]),
            Subtask("d", "D of {b.done} and {c.done}", after=["b", "c"]),
        ],
    )


@pytest.mark.checkpoint("3.3 side by side")
async def test_what_does_not_wait_runs_side_by_side(autojump_clock):
    planned = Planned(Plan("", [Subtask("a", "A"), Subtask("b", "B")]), worker)
    begun = trio.current_time()
    assert (await planned.carry_out()).error == ""
    assert planned.run.is_completed
    assert trio.current_time() - begun < 0.3


async def test_two_calls_run_side_by_side_though_the_tool_is_not_marked_concurrent(autojump_clock):
    async def wait() -> str:
        """Wait."""
        await trio.sleep(0.2)
        return "waited"

    plan = Plan("", [Subtask("a", "", tool="wait"), Subtask("b", "", tool="wait")])
    planned = Planned(plan, tools=[wait])
    begun = trio.current_time()
    await planned.carry_out()
    assert planned.run.results == {"a": "waited", "b": "waited"}
    assert trio.current_time() - begun < 0.3


async def test_the_graph_and_the_limit_say_what_runs_when(autojump_clock):
    planned = Planned(diamond(), worker)
    begun = trio.current_time()
    await planned.carry_out()
    assert trio.current_time() - begun == pytest.approx(0.6, abs=0.05)
    assert planned.run.results["d"] == {"done": "D of B and C"}
    one_by_one = Planned(diamond(), worker, concurrency=1)
    begun = trio.current_time()
    await one_by_one.carry_out()
    assert trio.current_time() - begun == pytest.approx(0.8, abs=0.05)
    assert one_by_one.steps == [
        "4 subtasks",
        *(f"{id_} {status}" for id_ in "abcd" for status in ("executing", "completed")),
    ]


async def test_no_more_run_at_once_than_the_agent_has_room_for(autojump_clock):
    plan = Plan("", [Subtask(f"s{n}", "S") for n in range(6)])
    planned = Planned(plan, worker, limits=RuntimeLimits(subagents=2))
    begun = trio.current_time()
    assert (await planned.carry_out()).error == ""
    assert planned.run.is_completed
    assert trio.current_time() - begun == pytest.approx(0.6, abs=0.05)


async def test_a_subtask_reaches_its_agent_as_an_input_of_the_plan(autojump_clock):
    seen = []

    async def look(agent, more):
        async for message in agent.inputs():
            async with agent.turn(message):
                seen.append(
                    (message.text, message.sender, message.metadata, more, agent.lineage[-1])
                )

    planned = Planned(Plan("", [Subtask("a", "Do A")]), look, "more")
    await planned.carry_out()
    facts = {"subtask": "a", "correlation_id": "planned/a"}
    assert seen == [("Do A", "plan", facts, "more", "a")]
    assert planned.run.results == {"a": ""}  # no result was set, and nothing was said


async def test_the_text_of_an_agent_is_its_result():
    agent = Agent(ScriptedProvider("It rains."))
    planned = Planned(Plan("", [Subtask("a", "Look out of the window")]), agent)
    await planned.carry_out()
    assert planned.run.results == {"a": "It rains."}


async def test_results_reach_calls_with_their_types(caplog):
    async def fly(to: str) -> dict[str, object]:
        """Fly."""
        return {"to": to, "price": 120}

    async def pay(price: int, note: str) -> str:
        """Pay."""
        return f"paid {price + 1}: {note}"

    plan = Plan(
        "",
        [
            Subtask("fly", "", tool="fly", arguments={"to": "Oslo"}),
            Subtask(
                "pay",
                "",
                after=["fly"],
                tool="pay",
                arguments={"price": "{fly.price}", "note": "to {fly.to}"},
            ),
        ],
    )
    planned = Planned(plan, tools=[fly, pay])
    with caplog.at_level(logging.WARNING, "greenroom"):
        await planned.carry_out()
    assert planned.run.results == {"fly": {"to": "Oslo", "price": 120}, "pay": "paid 121: to Oslo"}
    assert caplog.records == []
    assert planned.asked == []


async def test_a_failure_blocks_those_that_wait_for_it_alone(autojump_clock):
    plan = Plan(
        "",
        [
            Subtask("a", "fail a"),
            Subtask("b", "B", after=["a"]),
            Subtask("c", "C"),
            Subtask("d", "D", after=["c"]),
        ],
    )
    planned = Planned(plan, worker)
    assert (await planned.carry_out()).error == ""
    assert words(planned.run) == {"a": "failed", "b": "blocked", "c": "completed", "d": "completed"}
    assert planned.run.errors["a"] == "ValueError: fail a"
    assert planned.run.state("a").reason is FailureReason.WORKER
    assert planned.run.is_over


async def test_a_reference_to_nothing_fails_before_anything_starts():
    made = []

    async def make(x: str) -> str:
        """Make."""
        made.append(x)
        return "made"

    plan = Plan(
        "",
        [
            Subtask("a", "", tool="make", arguments={"x": "1"}),
            Subtask("b", "", after=["a"], tool="make", arguments={"x": "{a.field}"}),
        ],
    )
    planned = Planned(plan, tools=[make])
    await planned.carry_out()
    assert made == ["1"]
    assert planned.run.state("b").reason is FailureReason.INPUT
    assert "no field 'field'" in planned.run.errors["b"]
    assert planned.steps[-1].startswith("b failed: {a.field}")


@pytest.mark.parametrize(
    ("plan", "options", "said"),
    [
        (Plan("", [Subtask("a", "", tool="nope")]), {}, "there is no tool 'nope' (tools: none)"),
        (Plan("", [Subtask("a", "A")]), {}, "a has no tool, and no worker was passed"),
        (Plan("", []), {"concurrency": 0}, "concurrency is 0"),
        (Plan("", []), {"concurrency": "2"}, "concurrency is '2'"),
        (Plan("", []), {"patience": 0}, "patience is 0"),
        (Plan("", []), {"patience": float("nan")}, "patience is nan"),
    ],
)
async def test_what_could_never_run_is_refused_before_anything_starts(plan, options, said):
    planned = Planned(plan, **options)
    assert said in (await planned.carry_out()).error
    assert planned.steps == []


def test_policies_that_make_no_sense_are_refused():
    with pytest.raises(ConfigurationError, match="consecutive"):
        ReplanPolicy(consecutive=0)


async def test_the_running_plan_can_be_read_from_outside(autojump_clock):
    planned = Planned(diamond(), worker)
    async with planned.spawn() as handle:
        handle.send_input_nowait("Go.")
        seen = []
        for _ in range(4):
            await trio.sleep(0.19)
            await wait_all_tasks_blocked()
            seen.append(
                "".join(state.status[0] for state in PlanRun.load(planned.session).states.values())
            )
            assert str(handle.state) in ("processing: executing", "idle")
    assert seen == ["eppp", "ceep", "ccce", "cccc"]
    stored = PlanRun.load(planned.session)
    assert stored == planned.run == planned.told
    assert msgspec.json.encode(stored) == msgspec.json.encode(planned.run)


class Written:
    """A planner whose plans were written down."""

    def __init__(self, *plans):
        self.plans = list(plans)
        self.failures = []
        self.seen = []

    async def plan(self, goal, tools, context):
        raise AssertionError("it is asked for revisions alone")

    async def revise(self, run, failure):
        self.failures.append(failure)
        self.seen.append(words(run))
        if not self.plans:
            raise PlanError("there is no other way")
        return self.plans.pop(0)


def trip(chance):
    """Make two plans, a slow tool, and the list of its bookings; the hotel is full."""
    booked = []

    async def book(what: str) -> dict[str, object] | ToolResult:
        """Book something."""
        await trio.sleep(chance.random())
        if what == "hotel":
            return ToolResult.error("no rooms left")
        booked.append(what)
        return {"booked": what}

    def step(id_, after=(), **options):
        return Subtask(id_, "", after=after, tool="book", arguments={"what": id_}, **options)

    plan = Plan(
        "a trip",
        [
            step("flight"),
            step("train"),
            step("hotel", ["flight"], critical=True),
            step("dinner", ["hotel"]),
            step("museum", ["train"]),
        ],
    )
    other = Plan(
        "",
        [
            *plan.subtasks[:2],
            step("hostel", ["flight"]),
            step("dinner", ["hostel"]),
            step("museum", ["train"]),
        ],
    )
    return plan, other, book, booked


@pytest.mark.checkpoint("3.4 a failure leads to another plan")
async def test_the_hotel_fails_and_something_else_is_booked(autojump_clock):
    plan, other, book, booked = trip(random.Random(0))
    planner = Written(other)
    planned = Planned(plan, tools=[book], planner=planner)
    await planned.carry_out()
    assert planned.run.is_completed
    assert planned.run.revisions == 1
    assert sorted(booked) == ["dinner", "flight", "hostel", "museum", "train"]
    assert planned.asked == []
    (failure,) = planner.failures
    assert failure.subtask.id == "hotel"
    assert "no rooms left" in failure.error
    assert failure.reason is FailureReason.TOOL
    assert failure.tools.get("book") is not None
    assert isinstance(planner, Planner)


async def test_the_same_script_comes_to_the_same_in_whatever_order_things_happen(
    autojump_clock, stopped_clock
):
    ends, orders, chance = set(), set(), random.Random()
    plan, other, book, booked = trip(chance)
    tools = ToolRegistry([as_tool(book)])
    for seed in range(few(100)):
        chance.seed(seed)
        booked.clear()
        planned = Planned(plan, tools=tools, planner=Written(other), concurrency=3)
        await planned.carry_out()
        ends.add(msgspec.json.encode(planned.run))
        orders.add(tuple(booked))
        assert len(booked) == len(set(booked)) == 5
    assert len(ends) == 1, ends
    assert len(orders) > 3


async def test_a_failure_that_is_not_critical_waits_for_the_rest(autojump_clock):
    plan = Plan("", [Subtask("a", "fail"), Subtask("b", "B"), Subtask("c", "C", after=["b"])])
    planner = Written(Plan("", [Subtask("a", "A")]))
    planned = Planned(plan, worker, planner=planner)
    await planned.carry_out()
    assert planner.seen == [{"a": "failed", "b": "completed", "c": "completed"}]
    assert words(planned.run) == {"b": "completed", "c": "completed", "a": "completed"}


async def test_a_critical_failure_stops_what_has_not_started(autojump_clock):
    plan = Plan(
        "",
        [
            Subtask("a", "fail", critical=True),
            Subtask("b", "B"),
            Subtask("c", "C", after=["b"]),
        ],
    )
    delays = {"a": 0.1, "b": 0.5}
    planner = Written(Plan("", [Subtask("c", "C")]))
    planned = Planned(plan, worker, delays, planner=planner)
    await planned.carry_out()
    assert planner.seen == [{"a": "failed", "b": "completed", "c": "pending"}]
    alone = Planned(plan, worker, delays)
    await alone.carry_out()
    assert words(alone.run) == {"a": "failed", "b": "completed", "c": "completed"}


async def test_failures_in_a_row_stop_what_has_not_started(autojump_clock):
    plan = Plan("", [Subtask(f"s{n}", "fail") for n in range(6)])
    for consecutive, tried in ((2, 2), (4, 4), (9, 6)):
        planner = Written()
        planned = Planned(
            plan,
            worker,
            concurrency=1,
            planner=planner,
            policy=ReplanPolicy(consecutive=consecutive),
        )
        await planned.carry_out()
        assert [*planner.seen[0].values()].count("failed") == tried
        assert planned.run.error == "there is no other way"
        assert planned.steps[-1] == "no longer revised: there is no other way"


async def test_a_plan_is_revised_three_times_and_no_more(autojump_clock):
    plan = Plan("", [Subtask("a", "fail")])
    planner = Written(*[plan] * 10)
    planned = Planned(plan, worker, planner=planner)
    assert (await planned.carry_out()).error == ""
    assert len(planner.failures) == planned.run.revisions == 3
    assert [failure.failures for failure in planner.failures] == [1, 2, 3]
    assert "revised 3 times, and a has failed" in planned.run.error
    assert PlanRun.load(planned.session).error == planned.run.error


async def test_a_run_that_has_failed_is_revised_where_it_goes_on_with_a_planner(autojump_clock):
    plan = Plan("", [Subtask("a", "A"), Subtask("b", "fail", after=["a"])])
    failed = Planned(plan, worker)
    await failed.carry_out()
    planner = Written(Plan("", [Subtask("c", "C of {a.done}", after=["a"]), Subtask("a", "A")]))
    again = Planned(plan, worker, planner=planner, store=failed.store, session=failed.session)
    await again.carry_out()
    assert again.steps == [
        "goes on, 1 of 2 subtasks done",
        "revised, 2 subtasks",
        "c executing",
        "c completed",
    ]
    assert again.run.results["c"] == {"done": "C of A"}
    assert again.told.results == {"a": None, "c": {"done": "C of A"}}  # old ones may be long


async def test_a_plan_that_was_written_down_is_not_revised(autojump_clock):
    plan = Plan("", [Subtask("a", "fail"), Subtask("b", "B")])
    planned = Planned(plan, worker, planner=plan)
    await planned.carry_out()
    assert "a fixed plan can't be revised" in planned.run.error
    assert words(planned.run) == {"a": "failed", "b": "completed"}


class Decided:
    def __init__(self, *decisions):
        self.decisions = list(decisions)
        self.failures = []

    async def recover(self, run, failure):
        assert isinstance(failure, Failure)
        self.failures.append(failure.failures)
        await trio.sleep(5)
        return self.decisions.pop(0)


async def test_recovery_may_try_again_as_often_as_the_policy_lets_it(autojump_clock):
    tries = []

    async def flaky(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                tries.append(agent.session.session_id)
                if len(tries) < 3:
                    raise ValueError("not yet")
                turn.set_result(len(tries))

    plan = Plan("", [Subtask("a", "A"), Subtask("b", "B", after=["a"])])
    recovery = Decided("retry", "retry")
    assert isinstance(recovery, SubtaskRecovery)
    planned = Planned(plan, flaky, recovery=recovery)
    await planned.carry_out()
    assert planned.run.results == {"a": 3, "b": 4}
    assert recovery.failures == [1, 2]
    assert len(set(tries)) == 4
    tries.clear()
    policy = ReplanPolicy(retry=Retry(attempts=2, backoff=Backoff(first=20.0, jitter=0.0)))
    bounded = Planned(plan, flaky, recovery=Decided("retry", "retry"), policy=policy)
    begun = trio.current_time()
    await bounded.carry_out()
    assert trio.current_time() - begun == 30  # each decision takes 5 seconds
    assert words(bounded.run) == {"a": "failed", "b": "blocked"}


async def test_a_retry_around_a_plan_does_not_keep_its_subtasks_from_being_tried_again(
    autojump_clock,
):
    tries = []

    async def flaky(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                tries.append(agent.session.session_id)
                if len(tries) == 1:
                    raise ValueError("not yet")
                turn.set_result("done")

    planned = Planned(Plan("", [Subtask("a", "A")]), flaky, recovery=Decided("retry"))
    await Retry().call(planned.carry_out)
    assert planned.run.results == {"a": "done"}


async def test_recovery_may_give_up_or_have_the_plan_revised_at_once(autojump_clock):
    plan = Plan("", [Subtask("a", "fail"), Subtask("b", "B")])
    given_up = Written()
    planned = Planned(plan, worker, planner=given_up, recovery=Decided("give_up"))
    await planned.carry_out()
    assert given_up.failures == []
    at_once = Written(Plan("", [Subtask("b", "B")]))
    planned = Planned(plan, worker, planner=at_once, recovery=Decided("replan"), concurrency=1)
    await planned.carry_out()
    assert at_once.seen == [{"a": "failed", "b": "pending"}]
    assert words(planned.run) == {"b": "completed"}


async def test_a_denied_call_is_a_failure_and_other_tools_than_functions_are_asked_about():
    class Deploy:
        name, description, category = "deploy", "Deploy.", "execute"
        parameters = {"type": "object", "properties": {}}

        def info(self, input):
            from greenroom.core import ToolInfo

            return ToolInfo("Deploy")

        async def execute(self, input, context):
            raise AssertionError("it was not allowed")

    plan = Plan("", [Subtask("a", "", tool="deploy")])
    planned = Planned(plan, tools=[Deploy()])
    await planned.carry_out()
    assert planned.run.state("a").reason is FailureReason.TOOL
    assert [request.tool_name for request in planned.asked] == ["deploy"]


async def test_what_a_spent_budget_keeps_from_running_waits_for_another_one():
    class Spent(Planned):
        async def __call__(self, agent):
            with agent.budget(tool_calls=0):
                await super().__call__(agent)

    def look() -> str:
        """Look."""
        looked.append(1)
        return "seen"

    looked = []
    plan = Plan("", [Subtask("a", "", tool="look"), Subtask("b", "B", after=["a"])])
    planned = Spent(plan, worker, tools=[look])
    assert "tool calls" in (await planned.carry_out()).error
    assert words(PlanRun.load(planned.session)) == {"a": "pending", "b": "pending"}
    again = Planned(plan, worker, tools=[look], session=planned.session, store=planned.store)
    await again.carry_out()
    assert (again.run.is_completed, looked) == (True, [1])


async def test_what_a_spent_budget_stopped_goes_on_from_a_record_that_names_a_reason():
    def look() -> str:
        """Look."""
        return "seen"

    plan = Plan("", [Subtask("a", "", tool="look")])
    session = AgentSession.new("planned", session_id="planned")
    session.add_record(
        "plan.step", {"type": "begin", "plan": msgspec.json.decode(msgspec.json.encode(plan))}
    )
    for status, more in (("executing", {"session_id": "s-1"}), ("pending", {"reason": "tool"})):
        step = {"type": "move", "id": "a", "status": status, **more}  # as was stored before
        session.add_record("plan.step", step)
    planned = Planned(plan, tools=[look], session=session)
    await planned.carry_out()
    assert planned.run.results == {"a": "seen"}


async def test_what_spends_a_budget_of_its_own_is_planned_anew():
    class Split:
        async def revise(self, run, failure):
            assert failure.error_class is ErrorClass.SPENT
            return Plan("", [Subtask("b", "B", tool="look")])

    def look() -> str:
        """Look."""
        return "seen"

    lazy = Agent(ScriptedProvider(), budget=Budget(model_calls=0))
    planned = Planned(Plan("", [Subtask("a", "A")]), lazy, tools=[look], planner=Split())
    await planned.carry_out()
    assert words(planned.run) == {"b": "completed"}


async def test_a_planner_is_told_the_kind_of_a_failure_in_another_process_too():
    seen = []

    class Down:
        async def revise(self, run, failure):
            seen.append(failure.error_class)
            raise ModelOverloadedError("busy")

    class Split(Down):
        async def revise(self, run, failure):
            seen.append(failure.error_class)
            return Plan("", [Subtask("b", "B", tool="look")])

    def look() -> str:
        """Look."""
        return "seen"

    lazy = Agent(ScriptedProvider(), budget=Budget(model_calls=0))
    plan = Plan("", [Subtask("a", "A")])
    planned = Planned(plan, lazy, tools=[look], planner=Down())
    assert "busy" in (await planned.carry_out()).error
    session = await AgentSession.load("planned", store=planned.store)
    again = Planned(plan, lazy, tools=[look], planner=Split(), session=session, store=planned.store)
    await again.carry_out()
    assert words(again.run) == {"b": "completed"}
    assert seen == [ErrorClass.SPENT] * 2


async def test_what_was_given_up_is_not_planned_anew_by_another_process(autojump_clock):
    asked = []

    class GiveUp:
        async def recover(self, run, failure):
            return "give_up"

    class Other:
        async def revise(self, run, failure):
            asked.append(failure.subtask.id)
            raise PlanError("no other plan")

    plan = Plan("", [Subtask("a", "fail"), Subtask("b", "B")])
    options = {"recovery": GiveUp(), "planner": Other()}
    planned = Planned(plan, worker, {"b": 10}, **options)
    async with planned.spawn() as handle:
        await handle.send_input("Go.")
        await trio.sleep(5)
        await handle.interrupt()
    assert words(PlanRun.load(planned.session)) == {"a": "failed", "b": "pending"}
    again = Planned(plan, worker, session=planned.session, store=planned.store, **options)
    again.options["recovery"] = None
    await again.carry_out()
    assert asked == []
    assert again.run.state("a").is_given_up


async def test_a_failure_that_was_none_after_all_does_not_count_to_a_revision():
    class Asking:
        async def recover(self, run, failure):
            return "ask_person" if failure.subtask.id == "a" else "retry"

    async def book() -> str:
        """Book."""
        raise ConnectionError("reset")

    class NoOther:
        async def revise(self, run, failure):
            raise PlanError("no other plan")

    plan = Plan(
        "",
        [
            Subtask("a", "", tool="book"),
            Subtask("b", "fail", after=["a"]),
            Subtask("c", "C", after=["a"]),
        ],
    )
    once = ReplanPolicy(consecutive=2, retry=Retry(attempts=1))
    options = {"recovery": Asking(), "planner": NoOther(), "policy": once}
    planned = Planned(plan, worker, tools=[book], concurrency=1, **options)
    async with planned.spawn() as handle, handle.subscribe("all", answers=True) as chunks:
        handle.send_input_nowait("Go.")
        async for chunk in chunks:
            for request in await handle.pending():
                await handle.respond_permission(request.request_id, "deny", input={"result": "7"})
            if isinstance(chunk, Done):
                break
    assert planned.run.state("a").result == "7"
    assert words(planned.run) == {"a": "completed", "b": "failed", "c": "completed"}


async def test_the_rules_of_a_plan_hold_for_the_agents_that_do_its_work():
    done = []

    async def write(text: str) -> str:
        """Write."""
        done.append(text)
        return "written"

    llm = ScriptedProvider(call("write", text="x"), "It did not work.")
    rules = PermissionManager([PermissionRule.deny_tool("write")])
    plan = Plan(
        "", [Subtask("a", "Write"), Subtask("b", "", tool="write", arguments={"text": "y"})]
    )
    planned = Planned(
        plan, Agent(llm, tools=[write]), tools=[write], permissions=rules, concurrency=1
    )
    await planned.carry_out()
    assert done == []
    assert planned.run.results == {"a": "It did not work."}
    assert words(planned.run)["b"] == "failed"


async def test_an_agent_that_ends_without_a_turn_has_failed():
    async def absent(agent):
        return

    async def takes(agent):
        await agent.receive()

    for function in (absent, takes):
        planned = Planned(Plan("", [Subtask("a", "A")]), function)
        await planned.carry_out()
        assert words(planned.run) == {"a": "failed"}
        assert planned.run.errors["a"]


async def test_what_is_no_agent_is_a_type_error():
    planned = Planned(Plan("", [Subtask("a", "A")]), lambda agent: None)
    async with planned.spawn() as handle:
        handle.send_input_nowait("Go.")
        outcome = await handle.wait()
    assert "an agent is an async function" in str(outcome.error)
    assert PlanRun.load(planned.session).state("a").status is SubtaskStatus.PENDING


async def test_registries_and_tools_of_every_kind_are_taken():
    @tool
    async def ping() -> str:
        """Ping."""
        return "pong"

    plan = Plan("", [Subtask("a", "", tool="ping")])
    for tools in ([ping], ToolRegistry([ping]), (ping,)):
        planned = Planned(plan, tools=tools)
        await planned.carry_out()
        assert planned.run.results == {"a": "pong"}
        assert planned.asked == []


async def test_a_run_from_elsewhere_is_written_down_whole(autojump_clock):
    run = PlanRun(diamond()).start("a", "s-1").complete("a", {"done": "A"})
    planned = Planned(run, worker)
    await planned.carry_out()
    assert planned.run.is_completed
    assert planned.steps[:3] == ["4 subtasks", "a executing", "a completed"]
    assert sorted(planned.steps[3:5]) == ["b executing", "c executing"]
    assert PlanRun.load(planned.session) == planned.run


def test_execute_plan_is_documented_with_each_of_its_arguments():
    import inspect

    for name in inspect.signature(execute_plan).parameters:
        assert f"{name}:" in execute_plan.__doc__
