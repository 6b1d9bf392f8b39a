"""An orchestrator: who gets which subtask, who takes over, and what it answers with."""

import msgspec
import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    MemoryStore,
    ModelOverloadedError,
    TurnStatus,
)
from greenroom.planning import Plan, Subtask
from greenroom.teams import TeamResult, orchestrator
from greenroom.testing import Reply, ScriptedProvider, call


def says(text):
    """A model that always says the same."""
    return ScriptedProvider(*[text] * 50)


async def ask(team, goal="Go.", *, store=None, session=None):
    """Give a team a goal, with nobody to ask; return the result of its turn."""
    async with AgentRuntime(store or MemoryStore()) as runtime:
        handle = runtime.spawn(session or AgentSession.new("team"), team, unattended="deny")
        result = await handle.ask(goal)
        await handle.shutdown()
    return result


async def run(team, goal="Go.", **options):
    """Give a team a goal, and return what it comes to."""
    result = await ask(team, goal, **options)
    assert result.status is TurnStatus.COMPLETED, result.error
    told = msgspec.convert(result.value, TeamResult)
    assert told.answer == result.text
    return told


async def test_a_subtask_goes_to_the_agent_that_is_good_at_it(autojump_clock):
    plan = Plan(
        "",
        [
            Subtask("facts", "Find facts", capability="research"),
            Subtask("text", "Write about {facts}", after=["facts"], capability="Writer"),
            Subtask("check", "Check the grammar of {text}", after=["text"]),
        ],
    )
    agents = [
        Agent(says("It is warm."), name="researcher", capabilities=["research", "facts"]),
        Agent(says("A warm day."), name="writer", capabilities=["prose"]),
        Agent(says("No errors."), name="editor", capabilities=["grammar"]),
        Agent(says("?"), name="idler", capabilities=["sleep"]),
    ]
    llm = ScriptedProvider("A warm day [text], it says.")
    told = await run(orchestrator(agents, llm, planner=plan))
    assert told.answer == "A warm day [text], it says."
    assert [(each.subtask, each.agent) for each in told.sources] == [
        ("facts", "researcher"),
        ("text", "writer"),
        ("check", "editor"),
    ]
    assert [each.agent for each in told.reports] == ["researcher", "writer", "editor", "idler"]
    assert told.reports[1].completed == ("text",)
    assert told.reports[1].usage.input_tokens == 10
    assert told.reports[3].completed == ()
    asked = llm.requests[0].messages[0].text
    assert "[facts] by researcher, asked to: Find facts\nIt is warm." in asked


async def test_a_model_that_plans_knows_who_there_is_and_one_subtask_needs_no_synthesis(
    autojump_clock,
):
    subtask = {"id": "all", "goal": "Answer", "capability": "law"}
    llm = ScriptedProvider(call("final_answer", subtasks=[subtask]))
    lawyer = Agent(says("No."), name="lawyer", capabilities=["law"], description="Knows contracts.")
    told = await run(orchestrator([lawyer, Agent(says("?"))], llm), "May I?")
    assert told.answer == "No."
    assert told.sources[0].agent == "lawyer"
    assert "- lawyer: law. Knows contracts." in llm.requests[0].system


async def test_another_worker_goes_on_where_one_has_crashed(autojump_clock):
    booked = []

    async def book(what: str) -> str:
        """Book something."""
        booked.append(what)
        return f"booked {what}"

    crashes = ScriptedProvider(
        call("book", what="hotel"), Reply("I have", error=ModelOverloadedError("busy"))
    )
    second = ScriptedProvider("All is booked.")
    agents = [
        Agent(crashes, name="a", tools=[book], capabilities=["travel"]),
        Agent(second, name="b", tools=[book], capabilities=["travel"]),
    ]
    plan = Plan("", [Subtask("trip", "Book a hotel", capability="travel")])
    told = await run(orchestrator(agents, says("?"), planner=plan))
    assert told.answer == "All is booked."
    assert booked == ["hotel"]
    told_next = second.requests[0].messages
    assert told_next[0].text == "Book a hotel"
    assert told_next[2].tool_results[0].text == "booked hotel"
    assert "busy" in told_next[-1].text
    assert [(each.agent, each.failed, each.completed) for each in told.reports] == [
        ("a", 1, ()),
        ("b", 0, ("trip",)),
    ]


async def test_a_silent_worker_is_replaced_and_a_slow_one_is_not(autojump_clock):
    async def slow(request):
        return "?"

    hangs = Agent(ScriptedProvider(Reply("It", hangs=True)), name="hangs")
    after = ScriptedProvider("It is done.")
    plan = Plan("", [Subtask("a", "Do a")])
    begun = trio.current_time()
    team = orchestrator([hangs, Agent(after, name="next")], says("?"), planner=plan, patience=30)
    told = await run(team)
    assert told.answer == "It is done."
    assert trio.current_time() - begun == pytest.approx(30, abs=1)
    assert "silent for 30 seconds" in after.requests[0].messages[-1].text
