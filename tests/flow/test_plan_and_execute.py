"""Plan, execute, synthesise: as an agent, and as a function."""

import json

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Answer,
    BudgetExceededError,
    Custom,
    InMemoryStore,
    RuleDecision,
    StateChange,
)
from greenroom.flow import Plan, PlanRun, Subtask, plan_and_execute, run_task
from greenroom.flow._internal import PlanError
from greenroom.memory._internal import MemoryStorageError
from greenroom.resilience import Budget
from greenroom.testing import Reply, ScriptedApprover, ScriptedProvider, call

WEATHER = [
    {"id": "oslo", "goal": "", "tool": "weather", "arguments": {"city": "Oslo"}},
    {"id": "rome", "goal": "", "tool": "weather", "arguments": {"city": "Rome"}},
    {"id": "best", "goal": "Say which is warmer: {oslo} or {rome}", "after": ["oslo", "rome"]},
]


def draft(subtasks):
    return json.dumps({"subtasks": subtasks})


async def weather(city: str) -> str:
    """Tell the weather."""
    return f"{len(city) * 5} degrees in {city}"


async def chunks_of(
    runtime, session, function, *args, inputs=("Where is it warm?",), approver=None
):
    async with trio.open_nursery() as nursery:
        handle = runtime.spawn(session, function, *args)
        if approver:
            await nursery.start(approver.attend, handle)
        async with handle.subscribe("all") as stream:
            results = [await handle.ask(text) for text in inputs]
            await handle.shutdown()
            chunks = [chunk async for chunk in stream]
        nursery.cancel_scope.cancel()
    return results, chunks


async def test_it_plans_executes_and_answers_in_phases():
    llm = ScriptedProvider(draft(WEATHER), "Both are the same.", "Take your pick.")
    session = AgentSession.new("planner")
    async with AgentRuntime(InMemoryStore()) as runtime:
        (result,), chunks = await chunks_of(runtime, session, plan_and_execute(llm, [weather]))
    assert result.text == "Take your pick."
    states = [str(chunk.state) for chunk in chunks if isinstance(chunk, StateChange)]
    phases = [state.partition(": ")[2] for state in states if ": " in state]
    assert phases == ["planning", "executing", "answering"]
    assert states[-1] in ("idle", "done")
    assert PlanRun.load(session).is_completed
    told = llm.requests[-1].messages[-1].text
    for word in (
        "Where is it warm?",
        "20 degrees in Oslo",
        "20 degrees in Rome",
        "Both are the same",
    ):
        assert word in told
    assert [message.text for message in session.history] == ["Where is it warm?", "Take your pick."]
    assert "which is warmer: 20 degrees in Oslo" in llm.requests[1].messages[-1].text


async def test_what_could_not_be_done_is_told_and_not_left_out():
    async def broken(city: str) -> str:
        """Tell the weather."""
        raise ValueError("no data")

    plan = Plan(
        "",
        [
            Subtask("oslo", "", tool="broken", arguments={"city": "Oslo"}),
            Subtask("b", "B", after=["oslo"]),
        ],
    )
    llm = ScriptedProvider("I could not find out.")
    result = await run_task("How warm?", llm, [broken], planner=plan)
    assert result.output == "I could not find out."
    told = llm.requests[0].messages[-1].text
    assert "no data" in told
    assert "b: it waits for oslo" in told
    assert "a fixed plan can't be revised" in told


async def test_memories_reach_the_planner():
    async def recall(goal):
        return f"last time for {goal!r}: Rome"

    llm = ScriptedProvider(draft(WEATHER[:1]), "Oslo.")
    planner = plan_and_execute(llm, [weather], recall=recall)
    async with AgentRuntime(InMemoryStore()) as runtime:
        await chunks_of(runtime, AgentSession.new("x"), planner)
    assert "last time for 'Where is it warm?': Rome" in llm.requests[0].messages[-1].text


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (MemoryStorageError("the file is gone"), "nothing was recalled: the file is gone"),
        (KeyError("goal"), "nothing was recalled: KeyError: 'goal'"),
        (ExceptionGroup("two", [OSError("no net")]), "nothing was recalled: OSError: no net"),
    ],
)
async def test_a_memory_that_fails_is_told_and_the_plan_is_made_without_it(error, told, caplog):
    async def recall(goal):
        raise error

    llm = ScriptedProvider(draft(WEATHER[:1]), "Oslo.")
    planner = plan_and_execute(llm, [weather], recall=recall)
    async with AgentRuntime(InMemoryStore()) as runtime:
        session = AgentSession.new("x")
        (result,), chunks = await chunks_of(runtime, session, planner)
    found = [each for each in chunks if isinstance(each, Custom) and each.kind == "memory.failed"]
    assert (result.text, found[0].text) == ("Oslo.", told)
    is_bug = not isinstance(error, MemoryStorageError)
    assert ("nothing was recalled" in caplog.text) == is_bug
    assert "What is known" not in llm.requests[0].messages[-1].text


async def test_a_recall_that_returns_no_text_fails_no_plan():
    async def recall(goal):
        return [goal]

    llm = ScriptedProvider(draft(WEATHER[:1]), "Oslo.")
    result = await plan_and_execute(llm, [weather], recall=recall).run("Where is it warm?")
    assert result.text == "Oslo."
    assert "What is known" not in llm.requests[0].messages[-1].text


async def test_an_interrupt_ends_a_memory_that_hangs():
    begun = trio.Event()

    async def recall(goal):
        begun.set()
        await trio.sleep_forever()

    planner = plan_and_execute(ScriptedProvider(), [weather], recall=recall)
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("x"), planner)
        await handle.send_input("Where is it warm?")
        await begun.wait()
        assert (await handle.interrupt()).stopped
        assert handle.state.kind == "idle"


async def test_tasks_are_worked_on_one_after_the_other():
    llm = ScriptedProvider(draft(WEATHER[:1]), "First.", draft(WEATHER[1:2]), "Second.")
    session = AgentSession.new("planner")
    async with AgentRuntime(InMemoryStore()) as runtime:
        results, _ = await chunks_of(
            runtime, session, plan_and_execute(llm, [weather]), inputs=("One?", "Two?")
        )
    assert [result.text for result in results] == ["First.", "Second."]
    assert PlanRun.load(session).plan.goal == "Two?"


async def review(*answers, script):
    llm = ScriptedProvider(*script)
    approver = ScriptedApprover(*answers)
    planner = plan_and_execute(llm, [weather], review=True)
    async with AgentRuntime(InMemoryStore()) as runtime:
        (result,), _ = await chunks_of(runtime, AgentSession.new("x"), planner, approver=approver)
    return result, llm, approver


def no(message=""):
    return Answer(RuleDecision.DENY, message=message)


async def test_a_person_may_look_at_the_plan_before_it_starts():
    result, _, approver = await review("allow", script=[draft(WEATHER[:1]), "Warm."])
    assert result.text == "Warm."
    (request,) = approver.requests
    assert request.action == "Start this plan"
    assert 'oslo:  [weather {"city":"Oslo"}]' in request.details


async def test_what_a_person_wants_changed_goes_to_the_planner():
    result, llm, approver = await review(
        no("Ask for Rome, too."),
        "allow",
        script=[draft(WEATHER[:1]), draft(WEATHER[:2]), "Warm."],
    )
    assert result.text == "Warm."
    assert "Ask for Rome, too." in llm.requests[1].messages[-1].text
    assert "rome" in approver.requests[1].details


@pytest.mark.parametrize(
    ("answers", "said"),
    [([no()], "a person declined it"), ([no(f"No {n}") for n in range(3)], "none of 3 plans")],
)
async def test_a_plan_that_nobody_agrees_to_does_not_start(answers, said):
    result, llm, _ = await review(*answers, script=[draft(WEATHER)] * 3)
    assert said in result.error
    assert len(llm.requests) == len(answers)


async def test_an_answer_that_broke_off_goes_on_from_what_is_done():
    booked = []

    async def book(what: str) -> str:
        """Book."""
        booked.append(what)
        return f"booked {what}"

    plan = Plan("", [Subtask("a", "", tool="book", arguments={"what": "a"})])
    llm = ScriptedProvider(Reply(error=BudgetExceededError("spent")), "Booked.", "Booked again.")
    session, store = AgentSession.new("x"), InMemoryStore()
    planner = plan_and_execute(llm, [book], planner=plan)
    for text, expected, count in (
        ("Book a.", "", 1),
        ("Book a.", "Booked.", 1),
        ("Book a.", "Booked again.", 2),  # it was answered, so this is a new task
    ):
        async with AgentRuntime(store) as runtime:
            (result,), _ = await chunks_of(runtime, session, planner, inputs=[text])
        assert result.text == expected
        assert len(booked) == count
        session = await AgentSession.load(session.session_id, store=store)


async def test_a_plan_that_names_its_goal_in_other_words_goes_on_and_books_nothing_twice():
    booked = []

    async def book() -> str:
        """Book."""
        booked.append("a room")
        return "booked"

    class Rules:
        async def plan(self, goal, tools, context):
            return Plan("A trip", [Subtask("a", "", tool="book")])

        async def revise(self, run, failure):
            raise NotImplementedError

    llm, store = (
        ScriptedProvider(Reply(error=BudgetExceededError("spent")), "Booked."),
        InMemoryStore(),
    )
    planner = plan_and_execute(llm, [book], planner=Rules())
    stopped = await planner.run("Book a room.", session="trip", store=store)
    assert PlanRun.load(stopped.session).plan.goal == "Book a room."
    assert (await planner.run(None, session="trip", store=store)).output == "Booked."
    assert booked == ["a room"]


async def test_the_result_of_a_task_says_what_ended_it():
    result = await run_task("x", ScriptedProvider(*["No."] * 3))
    assert result.status == "failed"
    with pytest.raises(PlanError, match="no plan"):
        _ = result.output
    llm = ScriptedProvider(draft(WEATHER[:1]), "Warm.")
    result = await run_task("x", llm, [weather], budget=Budget(model_calls=1))
    assert isinstance(result.error, BudgetExceededError)


async def test_a_task_in_a_tool_is_a_subagent():
    inner = ScriptedProvider(draft(WEATHER[:1]), "20 degrees.")

    async def research(question: str) -> str:
        """Find out."""
        return (await run_task(question, inner, [weather])).output

    outer = ScriptedProvider(call("research", question="How warm?"), "It has 20 degrees.")
    result = await Agent(outer, tools=[research]).run("How warm is Oslo?")
    assert result.output == "It has 20 degrees."
    assert result.usage.total == 4 * 15


async def test_a_plan_that_can_not_be_read_ends_the_turn_and_not_the_agent():
    session = AgentSession.new("damaged")
    session.add_record("plan.step", {"type": "begin"})
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(session, plan_and_execute(ScriptedProvider()))
        for _ in range(2):
            result = await handle.ask("Go.")
            assert result.kind == "PlanError"
            assert "can't be read" in result.error


async def test_half_a_character_in_a_plan_becomes_a_sign_for_it():
    def look(at: str) -> str:
        """Look."""
        return '["name\udc80"]'

    steps = [
        Subtask("a", "Look\ud800", tool="look", arguments={"at": "\ud800"}),
        Subtask("b", "Use {a}", after=["a"]),
    ]
    planner = plan_and_execute(ScriptedProvider("b", "Done."), [look], planner=Plan("", steps))
    result = await planner.run("Go\ud800.")
    assert result.output == "Done."
    run = PlanRun.load(result.session)
    assert run.plan["a"].goal == "Look\ufffd"
    assert run.results == {"a": ["name\ufffd"], "b": "b"}


def test_a_worker_that_is_not_an_agent_function_is_refused_at_once():
    with pytest.raises(TypeError, match="an agent is an async function, not 3"):
        plan_and_execute(ScriptedProvider("Done."), worker=3)
