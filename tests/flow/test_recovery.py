"""`RecoveryPolicy`: decisions about errors within its budget, and reports of them."""

import logging
import random
import re
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from hypothesis import settings
from trio.testing import MockClock

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Answer,
    Custom,
    Error,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    RuleDecision,
    SubAgentOutput,
)
from greenroom.agents import stream_reply
from greenroom.core import ConfigurationError, StopReason, ToolError, TurnStatus
from greenroom.flow import Plan, PlanRun, RecoveryPolicy, Subtask, plan_and_execute, react
from greenroom.flow._internal import RECOVERY_TABLE, Component, ErrorClass, RecoveryDecision
from greenroom.llm import (
    ModelAuthenticationError,
    ModelContextTooLongError,
    ModelOverloadedError,
    ModelStreamError,
)
from greenroom.resilience import Backoff
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.testing._internal import run_agent_async
from greenroom.testing.fuzz import sweep
from greenroom.tools import calculator, tool
from tests.flow.planned import Planned

repeatable = tool(idempotent=True)
"""Makes a tool that may be called twice."""


class Chunks:
    """The chunks of an agent and of all below it."""

    def __init__(self):
        self.all = []

    async def read(self, handle, task_status=trio.TASK_STATUS_IGNORED):
        async with handle.subscribe("all", answers=False) as chunks:
            task_status.started()
            async for chunk in chunks:
                found = chunk
                while isinstance(found, SubAgentOutput):
                    found = found.chunk
                self.all.append(found)

    @property
    def recoveries(self):
        return told(self.all)


def told(chunks):
    """The reports of errors: row, attempt and decision."""
    found = [each for each in chunks if isinstance(each, Custom) and each.kind == "recovery"]
    return [
        (each.data["component"], each.data["error"], each.data["attempt"], each.data["decision"])
        for each in found
    ]


class Flaky:
    """A model that fails in a tenth of its requests, at once or in the middle of the reply."""

    def __init__(self, llm, chance):
        self.llm, self.chance, self.failed = llm, chance, 0
        self.name, self.model = llm.name, llm.model

    @asynccontextmanager
    async def stream(self, request):
        fails = self.chance.random() < 0.1
        self.failed += fails
        if fails and self.chance.random() < 0.5:
            raise ModelOverloadedError("overloaded")
        async with self.llm.stream(request) as stream:
            if fails:
                await anext(stream)
                raise ModelStreamError("the stream broke off")
            yield stream

    async def generate(self, request):
        raise NotImplementedError

    async def aclose(self):
        await trio.lowlevel.checkpoint()


def clerk(request):
    """Reply as the model: as a worker add until there is a result, at the end tell the total."""
    said = request.messages[0].text
    if "The results:" in said:
        total = next(line for line in said.splitlines() if line.startswith("- total: "))
        return f"The total is {total.removeprefix('- total: ')}."
    results = [each for message in request.messages for each in message.tool_results]
    if results and not results[-1].is_error:
        return results[-1].text
    a, b = said.removeprefix("Add ").split(" and ")
    return call("add", a=int(a), b=int(b))


SIX_STEPS = Plan(
    "the total",
    [
        Subtask("a", "", tool="add", arguments={"a": 1, "b": 2}),
        Subtask("b", "Add 3 and 4"),
        Subtask("c", "Add {a} and {b}", after=["a", "b"]),
        Subtask("d", "", tool="add", arguments={"a": "{a}", "b": "{c}"}, after=["a", "c"]),
        Subtask("e", "Add {c} and {d}", after=["c", "d"]),
        Subtask("total", "", tool="add", arguments={"a": "{d}", "b": "{e}"}, after=["d", "e"]),
    ],
)
SEEDS = min(200, settings.default.max_examples // 10)
ERRORS = 50


async def run_six_steps(seed):
    """Execute the plan while many calls fail at random; return the results."""
    chance = random.Random(seed)

    @repeatable
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        await trio.lowlevel.checkpoint()
        if chance.random() < 0.3:
            raise chance.choice([ToolError("try later"), ConnectionError("reset")])
        return a + b

    model = Flaky(ScriptedProvider(*[clerk] * 1000), chance)
    backoff = Backoff(first=0.5, max_delay=30.0, jitter=1.0, random=chance.random)
    policy, chunks = RecoveryPolicy(errors=ERRORS, backoff=backoff), Chunks()
    agent = plan_and_execute(model, [add], planner=SIX_STEPS, recovery=policy)
    session = AgentSession.new("six")
    with trio.fail_after(3600):
        async with AgentRuntime(InMemoryStore()) as runtime, trio.open_nursery() as nursery:
            handle = runtime.spawn(session, agent, unattended="deny")
            await nursery.start(chunks.read, handle)
            result = await handle.ask("the total")
            await handle.shutdown()
    assert policy.errors_left >= 0
    return result, PlanRun.load(session), chunks.recoveries, model.failed


def test_where_much_fails_by_chance_the_answer_is_right(caplog):
    caplog.set_level(logging.INFO, "greenroom.flow")
    right = 0
    for seed in range(SEEDS):
        caplog.clear()
        with sweep.repeatable(seed):  # which task goes first decides what fails
            clock = MockClock(autojump_threshold=0)
            result, run, recoveries, failed = trio.run(run_six_steps, seed, clock=clock)
        assert result.status in (TurnStatus.COMPLETED, TurnStatus.FAILED)
        assert run.is_over
        assert result.error or run.is_completed or run.errors
        handled = [each for each in recoveries if each[3] != "give_up"]
        assert len(handled) <= ERRORS
        # Every failure of the model is told, and every retry is a line of the log.
        assert sum(each[0] == "model" for each in recoveries) >= failed
        lines = [r.getMessage() for r in caplog.records if r.name == "greenroom.flow"]
        retries = [each for each in recoveries if each[3] in ("retry", "go_on")]
        assert sum(": retry in" in line or ": go_on in" in line for line in lines) == len(retries)
        right += result.text == "The total is 36."
    assert right >= 0.95 * SEEDS


async def look(place: str) -> str:
    """Look somewhere."""
    return "nothing new"


NO_TOOL = call("find", place="here")
MISFITS = {
    # What the model says over and over, native and in words; the rows that answer, and the end.
    "repeats itself": (
        lambda n: call("look", place="here"),
        lambda n: 'Action: {"tool": "look", "arguments": {"place": "here"}}',
        [
            ("repetition", 1, "ask_again"),
            ("repetition", 2, "ask_again"),
            ("repetition", 3, "give_up"),
        ],
        "NoProgressError",
        4,
    ),
    "invents tools": (
        lambda n: call(f"find{n}", place="here"),
        lambda n: f'Action: {{"tool": "find{n}", "arguments": {{"place": "here"}}}}',
        [("unknown_tool", 1, "ask_again"), ("unknown_tool", 2, "ask_again")],
        "NoProgressError",
        3,
    ),
    "gives inputs that do not fit": (
        lambda n: call("look", place=n),
        lambda n: f'Action: {{"tool": "look", "arguments": {{"place": {n}}}}}',
        [("invalid_input", 1, "ask_again"), ("invalid_input", 2, "ask_again")],
        "NoProgressError",
        3,
    ),
    "refuses": (
        lambda n: Reply("I can't do that.", stop_reason=StopReason.REFUSAL),
        lambda n: Reply("I can't do that.", stop_reason=StopReason.REFUSAL),
        [("refusal", 1, "give_up")],
        "ModelContentFilterError",
        1,
    ),
    "never ends": (
        lambda n: call("look", place=f"room {n}"),
        lambda n: f'Action: {{"tool": "look", "arguments": {{"place": "room {n}"}}}}',
        [("endless", 1, "ask_again")],
        "",
        10,
    ),
}


@pytest.mark.parametrize("how", ["native", "in words"])
@pytest.mark.parametrize("what", MISFITS)
async def test_a_model_that_misbehaves_stops_and_its_row_is_told(what, how, autojump_clock):
    native, in_words, rows, error, requests = MISFITS[what]
    llm = ScriptedProvider(*[(native if how == "native" else in_words)(n) for n in range(20)])
    policy = RecoveryPolicy()
    if how == "native":
        agent = Agent(policy.model(llm), tools=[look])
    else:
        agent = react(llm, [look], recovery=policy)
    run = await run_agent_async(agent, inputs="Go.", check=False)
    assert [each[1:] for each in told(run.chunks)] == rows
    assert [each.kind for each in run.of(Error)] == ([error] if error else [])
    assert len(llm.requests) == requests


async def test_a_model_that_breaks_the_format_in_words_is_asked_three_times_more(autojump_clock):
    llm = ScriptedProvider(*["I need to think."] * 9)
    run = await run_agent_async(
        react(llm, [look], recovery=RecoveryPolicy()), inputs="Go.", check=False
    )
    asked = [("model", "format", attempt, "ask_again") for attempt in (1, 2, 3)]
    assert told(run.chunks) == [*asked, ("model", "format", 1, "give_up")]
    assert [each.kind for each in run.of(Error)] == ["ModelOutputError"]
    assert len(llm.requests) == 4


async def test_a_model_that_breaks_the_format_of_an_answer_is_asked_twice_more(autojump_clock):
    llm = ScriptedProvider(*[call("final_answer", value="many"), "many", "many", "many"])
    agent = Agent(RecoveryPolicy().model(llm), output_type=int)
    run = await run_agent_async(agent, inputs="How many?", check=False)
    assert [each[1:] for each in told(run.chunks)] == [("format", 1, "ask_again")] * 2
    assert [each.kind for each in run.of(Error)] == ["ModelOutputError"]
    assert len(llm.requests) == 3


async def test_a_row_may_end_it_earlier_or_ask_another_model(autojump_clock):
    row = (Component.MODEL, ErrorClass.FORMAT)
    strict = RecoveryPolicy(rows={row: [RecoveryDecision.ASK_AGAIN, RecoveryDecision.GIVE_UP]})
    llm = ScriptedProvider(*["I need to think."] * 9)
    run = await run_agent_async(react(llm, [look], recovery=strict), inputs="Go.", check=False)
    assert [each[2:] for each in told(run.chunks)] == [(1, "ask_again"), (2, "give_up")]
    assert len(llm.requests) == 2
    able = ScriptedProvider("There is no such tool.", name="able")
    policy = RecoveryPolicy(fallback=[able])
    agent = Agent(policy.model(ScriptedProvider(*[NO_TOOL] * 9)), tools=[look])
    run = await run_agent_async(agent, inputs="Go.")
    assert [each[2:] for each in told(run.chunks)] == [(1, "ask_again"), (2, "other_model")]
    assert run.text == "There is no such tool."


async def test_a_model_that_fails_is_retried_then_replaced_then_given_up(autojump_clock):
    def busy(request):
        raise ModelOverloadedError("busy")

    able = ScriptedProvider("Hello.", name="able")
    policy = RecoveryPolicy(fallback=[able], errors=7)
    agent = Agent(policy.model(ScriptedProvider(*[busy] * 99)))
    run = await run_agent_async(agent, inputs=["Hi.", "Hi."], check=False)
    retries = [("model", "transient", n, "retry") for n in (1, 2, 3)]
    other = ("model", "transient", 4, "other_model")
    # Then the other one has nothing left to say.
    assert told(run.chunks)[:7] == [*retries, other, *retries]
    assert told(run.chunks)[7][3] == "other_model"
    policy = RecoveryPolicy(errors=1)
    run = await run_agent_async(
        Agent(policy.model(ScriptedProvider(busy, busy, busy))), inputs="Hi.", check=False
    )
    assert [each[2:] for each in told(run.chunks)] == [(1, "retry"), (2, "give_up")]
    assert run.of(Custom)[-1].data["cause"] == "budget"
    assert [each.kind for each in run.of(Error)] == ["ModelOverloadedError"]

    def no_key(request):
        raise ModelAuthenticationError("the key is refused")

    agent = Agent(RecoveryPolicy().model(ScriptedProvider(no_key)))
    run = await run_agent_async(agent, inputs="Hi.", check=False)
    assert told(run.chunks) == [("model", "unusable", 1, "give_up")]


async def test_a_conversation_that_is_too_long_is_made_shorter_once(autojump_clock):
    def too_long(request):
        raise ModelContextTooLongError("too long")

    said = [f"Reply {n}. " + "word " * 200 for n in range(8)]
    llm = ScriptedProvider(*said, too_long, "A summary of what was said.", "Done.")
    agent = Agent(RecoveryPolicy().model(llm))
    run = await run_agent_async(agent, inputs=["Go on."] * 9, check=False)
    assert told(run.chunks) == [("model", "overflow", 1, "compact")]
    assert run.text == "Done."
    agent = Agent(RecoveryPolicy().model(ScriptedProvider(*said, *[too_long] * 3)))
    run = await run_agent_async(agent, inputs=["Go on."] * 9, check=False)
    assert [each[3] for each in told(run.chunks)][-1] == "give_up"


class Answers:
    """The reports of an execution, and an answer to its questions."""

    def __init__(self, planned, decision="deny"):
        self.planned, self.decision, self.asked, self.chunks = planned, decision, [], Chunks()
        self.details = []

    async def carry_out(self):
        async with self.planned.spawn() as handle, trio.open_nursery() as nursery:
            await nursery.start(self.chunks.read, handle)
            await nursery.start(self.answer, handle)
            result = await handle.ask("Go.")
            nursery.cancel_scope.cancel()
        return result

    async def answer(self, handle, task_status=trio.TASK_STATUS_IGNORED):
        async with handle.subscribe("all", answers=True) as chunks:
            task_status.started()
            async for _ in chunks:
                for request in await handle.pending():
                    self.asked.append(request.action)
                    self.details.append(request.details)
                    await handle.respond_permission(request.request_id, self.decision)


def booking(error, times=1):
    """Make a tool that fails after its effect, and the list of its effects."""
    booked = []

    async def book() -> str:
        """Book."""
        booked.append("a room")
        if len(booked) <= times:
            raise error
        return "booked"

    return book, booked


@pytest.mark.parametrize(
    ("decision", "effects", "ends"), [("deny", 1, "failed"), ("allow", 2, "completed")]
)
async def test_an_effect_is_not_repeated_without_a_person_s_yes(
    decision, effects, ends, autojump_clock
):
    book, booked = booking(ConnectionError("reset"))
    planned = Planned(
        Plan("", [Subtask("a", "", tool="book")]), tools=[book], recovery=RecoveryPolicy()
    )
    answers = Answers(planned, decision)
    await answers.carry_out()
    assert answers.asked == ["Run the subtask a again"]
    assert (len(booked), str(planned.run.state("a").status)) == (effects, ends)
    assert answers.chunks.recoveries[0] == ("effect", "crash", 1, "ask_person")
    assert [each[3] for each in answers.chunks.recoveries[1:]] == (
        ["give_up"] if decision == "deny" else []
    )


RAN = Answer(RuleDecision.DENY, input={"result": "room 7"})


@pytest.mark.parametrize(
    ("answer", "effects", "told"), [("allow", 2, "booked"), (RAN, 1, "room 7"), ("deny", 1, "")]
)
async def test_a_question_about_an_effect_may_be_answered_later(answer, effects, told):
    """Asked again it is the same question, for the call was started only once."""
    book, booked = booking(ConnectionError("reset"))
    plan = Plan("", [Subtask("a", "", tool="book")])
    policy = RecoveryPolicy()
    llm, options = ScriptedProvider("Done."), {"session": "trip", "store": InMemoryStore()}
    agent = plan_and_execute(llm, [book], planner=plan, recovery=policy)
    run = await agent.run("Book.", approve="later", **options)
    (question,) = run.pending
    assert "It was started once at 20" in question.details
    run = await agent.run(None, approve="later", **options)
    assert [each.request_id for each in run.pending] == [question.request_id]
    run = await agent.run(None, answers={question.request_id: answer}, **options)
    assert (run.output, len(booked)) == ("Done.", effects)
    assert PlanRun.load(run.session).results.get("a", "") == told


@pytest.mark.parametrize("uses_model", [True, False])
@pytest.mark.parametrize(
    ("answer", "times", "told"), [("allow", 2, "done"), (RAN, 1, "room 7"), ("deny", 1, "")]
)
async def test_a_failure_of_an_agent_is_decided_later_as_it_was_asked(
    answer, times, told, uses_model
):
    worked = []

    async def work(agent):
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                worked.append(message.text)
                if uses_model:
                    await stream_reply(agent, ScriptedProvider("Hm."))
                if len(worked) == 1:
                    raise ValueError("no paper")
                turn.set_result("done")

    policy = RecoveryPolicy(rows={("agent", "crash"): ["ask_person", "give_up"]})
    planner, options = Plan("", [Subtask("a", "A")]), {"session": "s", "store": InMemoryStore()}
    llm = ScriptedProvider("Done.")
    agent = plan_and_execute(llm, worker=work, planner=planner, recovery=policy)
    run = await agent.run("Go.", approve="later", **options)
    (question,) = run.pending
    assert "no paper" in question.details
    run = await agent.run(None, answers={question.request_id: answer}, **options)
    assert (run.output, len(worked)) == ("Done.", times)
    assert PlanRun.load(run.session).results.get("a", "") == told


async def test_where_the_tool_says_why_another_plan_is_made_and_nobody_asked(autojump_clock):
    book, booked = booking(ToolError("fully booked"), times=9)

    class Other(Plan, frozen=True):
        async def revise(self, run, failure):
            return Plan("", [Subtask("b", "", tool="calculator", arguments={"expression": "1"})])

    plan = Plan("", [Subtask("a", "", tool="book")])
    planned = Planned(
        plan, tools=[book, calculator], recovery=RecoveryPolicy(), planner=Other("", ())
    )
    answers = Answers(planned)
    await answers.carry_out()
    assert (len(booked), answers.asked) == (1, [])
    assert answers.chunks.recoveries == [("effect", "failed", 1, "replan")]
    assert planned.run.results == {"b": "1"}


@pytest.mark.parametrize(
    ("fails", "rows"),
    [
        (ToolError("later"), [("tool", "failed", n, "retry") for n in (1, 2, 3, 4)]),
        (ValueError("?"), [("tool", "crash", n, "retry") for n in (1, 2, 3, 4)]),
        (None, [("tool", "timeout", 1, "retry")]),
    ],
)
async def test_a_tool_that_may_be_called_twice_is(fails, rows, autojump_clock):
    @repeatable
    async def find() -> str:
        """Find."""
        if fails is not None:
            raise fails
        await trio.sleep_forever()

    plan = Plan("", [Subtask("a", "", tool="find")])
    planned = Planned(plan, tools=[find], recovery=RecoveryPolicy())
    answers = Answers(planned)
    await answers.carry_out()
    *told_first, last = answers.chunks.recoveries
    assert (told_first, last[3]) == (rows, "give_up")
    # Such tries do not count for the plan.
    assert planned.run.state("a").failures == 1


async def test_calls_that_can_not_run_are_not_tried_again(autojump_clock):
    @repeatable
    async def find(place: str) -> str:
        """Find."""
        return place

    subtasks = [
        Subtask("a", "", tool="find"),
        Subtask("b", "", tool="calculator", arguments={"expression": "1"}),
        Subtask("c", "{b.no}", tool="find", arguments={"place": "x"}, after=["b"]),
    ]
    planned = Planned(
        Plan("", subtasks), tools=[find, calculator], recovery=RecoveryPolicy(), concurrency=1
    )
    answers = Answers(planned)
    await answers.carry_out()
    assert answers.chunks.recoveries == [
        ("tool", "invalid_input", 1, "give_up"),
        ("plan", "missing", 1, "give_up"),
    ]


async def test_an_agent_that_is_tried_again_goes_on_in_its_conversation(autojump_clock):
    def busy(request):
        raise ModelOverloadedError("busy")

    done = []

    async def pay() -> str:
        """Pay."""
        done.append("paid")
        return "paid"

    llm = ScriptedProvider(busy, call("pay"), busy, busy, "It is paid.")
    planned = Planned(
        Plan("", [Subtask("a", "Pay")]), Agent(llm, tools=[pay]), recovery=RecoveryPolicy()
    )
    answers = Answers(planned)
    await answers.carry_out()
    assert planned.run.results == {"a": "It is paid."}
    assert done == ["paid"]
    assert answers.chunks.recoveries == [("agent", "transient", n, "go_on") for n in (1, 2, 3)]
    last = llm.requests[-1].messages
    assert last[0].text.endswith("Pay")
    assert [each.text for message in last for each in message.tool_results] == ["paid"]


async def test_a_refusal_fails_the_subtask_and_then_a_person_is_asked(autojump_clock):
    refusal = Reply("I can't do that.", stop_reason=StopReason.REFUSAL)
    policy = RecoveryPolicy()
    worker = Agent(policy.model(ScriptedProvider(refusal, "Done.")))
    planned = Planned(Plan("", [Subtask("a", "Do it")]), worker, recovery=policy)
    answers = Answers(planned, "allow")
    await answers.carry_out()
    assert answers.chunks.recoveries == [
        ("model", "refusal", 1, "give_up"),
        ("agent", "refusal", 1, "ask_person"),
    ]
    assert planned.run.results == {"a": "Done."}


async def test_what_is_denied_interrupted_or_beyond_a_budget_is_not_tried_again(autojump_clock):
    @repeatable
    async def wait() -> str:
        """Wait."""
        started.set()
        await trio.sleep_forever()

    started = trio.Event()
    rules = PermissionManager([PermissionRule.deny_tool("wait")])
    plan = Plan("", [Subtask("a", "", tool="wait")])
    denied = Planned(plan, tools=[wait], permissions=rules, recovery=RecoveryPolicy())
    answers = Answers(denied)
    await answers.carry_out()
    assert answers.chunks.recoveries == [("tool", "denied", 1, "give_up")]

    class Spent(Planned):
        async def __call__(self, agent):
            with agent.budget(tool_calls=0):
                await super().__call__(agent)

    answers = Answers(Spent(plan, tools=[wait], recovery=RecoveryPolicy()))
    await answers.carry_out()
    assert answers.chunks.recoveries == [("tool", "spent", 1, "give_up")]

    planned = Planned(plan, tools=[wait], recovery=RecoveryPolicy())
    answers = Answers(planned)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(answers.carry_out)
        await started.wait()
        session_id = PlanRun.load(planned.session).state("a").session_id
        await planned.runtime.get(session_id).interrupt()
    assert answers.chunks.recoveries == [("tool", "denied", 1, "give_up")]


async def test_an_interrupt_while_it_waits_leaves_the_subtask_to_be_tried(autojump_clock):
    calls = []

    @repeatable
    async def find() -> str:
        """Find."""
        calls.append(trio.current_time())
        if len(calls) == 1:
            raise ValueError("not yet")
        return "found"

    planned = Planned(
        Plan("", [Subtask("a", "", tool="find")]), tools=[find], recovery=RecoveryPolicy()
    )
    async with planned.spawn() as handle, trio.open_nursery() as nursery:
        nursery.start_soon(handle.ask, "Go.")
        async with handle.subscribe("all") as chunks:
            async for chunk in chunks:
                if isinstance(chunk, Custom) and chunk.kind == "recovery":
                    break
        await handle.interrupt()
        run = PlanRun.load(planned.session)
        assert str(run.state("a").status) == "pending"
        await handle.ask("Go.")
    assert planned.run.results == {"a": "found"}


async def test_beyond_the_error_budget_errors_are_given_up_until_old_ones_are_forgotten(
    autojump_clock,
):
    policy = RecoveryPolicy(errors=2, period=60)
    row = (Component.TOOL, ErrorClass.FAILED, 1)
    found = [policy.decide(*row) for _ in range(3)]
    assert [each.decision.value for each in found] == ["retry", "retry", "give_up"]
    assert [each.cause for each in found] == ["row", "row", "budget"]
    assert "the error budget is spent" in found[2].chunk().text
    assert policy.errors_left == 0
    await trio.sleep(61)
    assert policy.decide(*row).decision is RecoveryDecision.RETRY


def test_the_error_budget_counts_over_many_runs():
    policy, row = RecoveryPolicy(errors=2, period=60), (Component.TOOL, ErrorClass.FAILED, 1)

    async def fail(count, pause):
        await trio.sleep(pause)
        return [policy.decide(*row).cause for _ in range(count)]

    def run(*args):
        return trio.run(fail, *args, clock=MockClock(autojump_threshold=0))

    assert run(2, 1000) == ["row", "row"]
    assert run(1, 0) == ["budget"]
    assert run(1, 61) == ["row"]


def test_each_row_ends_and_asks_only_what_its_component_can():
    for row, answers in RECOVERY_TABLE.items():
        assert answers, row
    for row, answers in (
        ((Component.EFFECT, ErrorClass.CRASH), [RecoveryDecision.RETRY]),
        ((Component.AGENT, ErrorClass.CRASH), [RecoveryDecision.ASK_AGAIN]),
        ((Component.TOOL, ErrorClass.CRASH), []),
    ):
        with pytest.raises(ConfigurationError, match="not an answer to"):
            RecoveryPolicy(rows={row: answers})
    with pytest.raises(ConfigurationError):
        RecoveryPolicy(errors=-1)
    with pytest.raises(ConfigurationError):
        RecoveryPolicy(period=0)


@pytest.mark.parametrize(
    ("row", "hint"),
    [
        (("tool", "timout"), "did you mean 'tool timeout'"),
        ((Component.PLAN, ErrorClass.MISSING, 1), "did you mean 'plan missing'"),
        ((ErrorClass.DENIED, Component.MODEL), "write a pair such as ..model"),
        ("tool timeout", "did you mean 'tool timeout'"),
        ((), "write a pair such as ..model"),
        (None, "write a pair such as"),
    ],
)
def test_what_is_not_a_component_and_a_class_is_refused(row, hint):
    with pytest.raises(ConfigurationError, match="is not a row") as caught:
        RecoveryPolicy(rows={row: [RecoveryDecision.GIVE_UP]})
    assert re.search(hint, caught.value.hint)
    RecoveryPolicy(rows={("agent", "timeout"): ["go_on"]})


async def test_an_agent_that_goes_in_circles_goes_on_once_and_then_its_subtask_is_planned_anew(
    autojump_clock,
):
    class Other(Plan, frozen=True):
        async def revise(self, run, failure):
            assert failure.error_class is ErrorClass.REPETITION
            return Plan("", [Subtask("b", "Do less")])

    policy = RecoveryPolicy()
    llm = ScriptedProvider(*[call("look", place="here")] * 8, "Done.")
    planned = Planned(
        Plan("", [Subtask("a", "Do it")]),
        Agent(policy.model(llm), tools=[look]),
        recovery=policy,
        planner=Other("", ()),
    )
    answers = Answers(planned)
    await answers.carry_out()
    found = [each for each in answers.chunks.recoveries if each[0] == "agent"]
    assert found == [("agent", "repetition", 1, "go_on"), ("agent", "repetition", 2, "replan")]
    assert planned.run.results == {"b": "Done."}


ROOT = Path(__file__).parents[2]


def cells():
    page = (ROOT / "docs" / "concepts" / "recovery.md").read_text()
    return [
        [each.strip() for each in line.split("|")[1:-1]]
        for line in page.splitlines()
        if "|" in line
    ]


def test_the_page_has_each_row_of_the_table_with_its_answers():
    found = {}
    for component, error, answers in (each for each in cells() if len(each) == 3):
        if component.strip("`") in set(Component):
            words = []
            for answer in answers.split(", "):
                word, _, times = answer.partition(" ×")
                words += [word.strip("`")] * int(times or 1)
            found[component.strip("`"), error.strip("`")] = tuple(words)
    assert found == RECOVERY_TABLE


def test_each_of_the_34_failures_names_rows_that_there_are_and_a_test_that_there_is():
    modes = [each for each in cells() if each[-1].startswith("`tests/")]
    assert len(modes) == 34
    for _, answer, place in modes:
        path, _, name = place.strip("`").partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), place
        rows = re.findall(rf"`({'|'.join(Component)}) (\w+)`", answer)
        assert set(rows) <= set(RECOVERY_TABLE), answer
        assert rows or "the kernel: " in answer or "refused: " in answer, answer
