"""Pipelines, parallel agents and loops: inputs, failures, and nesting."""

import re
import shutil
from functools import partial
from typing import TypedDict

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    BudgetExceededError,
    ConfigurationError,
    Custom,
    Done,
    FileStore,
    InMemoryStore,
    RunContext,
    SubAgentSpawned,
    TextComplete,
)
from greenroom.flow import (
    END,
    START,
    Pattern,
    Plan,
    Subtask,
    Workflow,
    loop,
    orchestrator,
    parallel,
    pipeline,
)
from greenroom.flow._internal import TeamError, WorkflowError
from greenroom.resilience import Budget
from greenroom.testing import ScriptedProvider, call


def agent(name, *script, **options):
    return Agent(ScriptedProvider(*script), name=name, **options)


def echo(name, **options):
    """An agent that repeats its input and names the sender."""

    def model(request):
        said = request.messages[-1]
        return f"{name}({said.sender and said.sender + ': '}{said.text})"

    return agent(name, *[model] * 20, **options)


async def slow(internals):
    async for message in internals.inputs():
        async with internals.turn(message) as turn:
            await trio.sleep(int(message.text))
            turn.set_result(int(message.text))


async def broken(internals):
    async for message in internals.inputs():
        async with internals.turn(message):
            raise ValueError("a bug")


async def test_a_pipeline_passes_outputs_on_and_says_from_whom():
    result = await pipeline(echo("a"), echo("b"), echo("c")).run("x")
    assert result.output == "c(b: b(a: a(x)))"
    assert result.text == result.output
    assert [message.role for message in result.messages] == ["user", "assistant"]


async def test_values_are_passed_on_as_json_and_come_out_as_values():
    numbers = agent("numbers", '{"value": [1, 2]}', output_type=list[int])
    result = await pipeline(echo("a"), numbers).run("x")
    assert (result.output, result.text) == ([1, 2], "[1,2]")
    result = await pipeline(
        agent("numbers", '{"value": [1, 2]}', output_type=list[int]), echo("b")
    ).run("x")
    assert result.output == "b(numbers: [1,2])"


async def test_usage_steps_and_chunks_are_those_of_all():
    async with pipeline(echo("a"), echo("b")).stream("x") as run:
        chunks = [chunk async for chunk in run]
    assert [chunk.name for chunk in chunks if isinstance(chunk, SubAgentSpawned)] == ["a", "b"]
    assert [chunk.text for chunk in chunks if isinstance(chunk, TextComplete)] == [run.result.text]
    assert run.result.usage.total == 30


async def test_parallel_takes_as_long_as_the_slowest(autojump_clock):
    start = trio.current_time()
    result = await parallel(slow, slow, slow, join=lambda found: sum(found.values())).run("5")
    assert result.output == 15
    assert trio.current_time() - start == 5


async def test_the_outputs_stand_in_the_order_of_the_agents():
    result = await parallel(echo("b"), echo("a"), echo("b")).run("x")
    assert list(result.output.items()) == [("b", "b(x)"), ("a", "a(x)"), ("b 2", "b(x)")]


async def test_no_two_members_have_one_name():
    result = await parallel(echo("a"), echo("a 2"), echo("a"), echo("a")).run("x")
    assert list(result.output) == ["a", "a 2", "a 3", "a 4"]


async def test_what_join_returns_is_the_output():
    async def join(outputs):
        return (await agent("judge", "The first.").run(str(outputs))).output

    assert (await parallel(echo("a"), echo("b"), join=join).run("x")).output == "The first."


@pytest.mark.parametrize("pattern", [pipeline, parallel, loop])
async def test_a_failure_ends_the_turn_and_names_the_member(pattern):
    result = await pattern(broken).run("x")
    assert result.status == "failed"
    assert isinstance(result.error, TeamError)
    assert "broken did not answer: its turn failed: ValueError: a bug" in str(result.error)
    with pytest.raises(TeamError):
        _ = result.output


async def test_a_failure_ends_the_others(autojump_clock):
    start = trio.current_time()
    result = await parallel(slow, broken).run("60")
    assert (result.status, trio.current_time() - start) == ("failed", 0)


async def test_a_failed_member_among_several_is_a_team_error():
    """It was an ExceptionGroup, which reads as a crash."""
    async with AgentRuntime(InMemoryStore()) as runtime:
        for members in ((broken,), (broken, broken), (slow, broken)):
            handle = runtime.spawn(AgentSession.new("team"), parallel(*members))
            assert (await handle.ask("60")).kind == "TeamError"


async def test_a_failure_can_be_left_out():
    result = await parallel(echo("a"), broken, on_failure="leave_out").run("x")
    assert result.output == {"a": "a(x)"}
    assert "broken did not answer" in result.warnings[0]
    result = await parallel(broken, broken, on_failure="leave_out").run("x")
    assert isinstance(result.error, TeamError)


async def test_a_pattern_takes_the_next_input_after_a_failure():
    flaky = agent("flaky", lambda request: 1 / 0, "Done.")
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("team"), parallel(flaky))
        assert (await handle.ask("x")).status == "failed"
        assert (await handle.ask("x")).value == {"flaky": "Done."}


async def test_a_loop_ends_when_it_is_good_and_goes_on_in_one_conversation():
    writer = agent("writer", "one", "two", "three")
    async with loop(writer, lambda text: text == "three" or f"not {text}").stream("count") as run:
        rounds = [chunk.data async for chunk in run if isinstance(chunk, Custom)]
    assert run.result.output == "three"
    assert rounds == [
        {"round": 1, "reason": "again"},
        {"round": 2, "reason": "again"},
        {"round": 3, "reason": "done"},
    ]
    said = [(message.sender, message.text) for message in writer.llm.requests[-1].messages]
    assert said[:3] == [("", "count"), ("", "one"), ("loop", "not one")]
    assert (run.result.is_truncated, run.result.warnings) == (False, ())


async def test_a_loop_ends_by_itself_when_two_outputs_agree():
    writer = agent("writer", "a", "b", "b", "c")
    assert (await loop(writer).run("x")).output == "b"
    assert len(writer.llm.requests) == 3


async def test_at_its_limit_a_loop_gives_what_it_has_and_says_so():
    result = await loop(agent("writer", "a", "b", "c"), lambda text: False, max_rounds=2).run("x")
    assert (result.output, result.is_truncated) == ("b", True)
    assert result.warnings == ("round 2: the limit, whether it is good or not",)


@pytest.mark.parametrize(
    ("until", "inputs"),
    [
        (re.compile("b").search, ["x", "a"]),  # a match, which is true without being True
        (lambda text: "" if text == "a" else 1, ["x", "a"]),  # no feedback is as False
        (lambda text: "more" if text == "a" else [text], ["x", "more"]),
    ],
)
async def test_until_may_return_anything_that_is_true(until, inputs):
    writer = agent("writer", "a", "b", "c")
    result = await loop(writer, until).run("x")
    assert (result.output, result.warnings) == ("b", ())
    asked = [each.text for each in writer.llm.requests[-1].messages if each.role == "user"]
    assert asked == inputs


async def test_until_may_ask_an_agent():
    critic = agent("critic", "Longer.", "OK")

    async def until(text):
        verdict = (await critic.run(text)).output
        return verdict == "OK" or verdict

    result = await loop(agent("writer", "short", "longer"), until).run("x")
    assert (result.output, result.usage.total) == ("longer", 60)


async def test_patterns_nest_and_are_tools():
    both = parallel(echo("a"), echo("b"), join=lambda found: " ".join(found.values()))
    whole = pipeline(both, loop(echo("c"), lambda text: True), description="Does all of it.")
    assert (await whole.run("x")).output == "c(parallel: a(x) b(x))"
    boss = agent("boss", call("pipeline", prompt="x"), "Done.", tools=[whole.as_tool()])
    result = await boss.run("Go.")
    assert result.messages[2].tool_results[0].text == "c(parallel: a(x) b(x))"
    assert result.usage.total == 75


async def test_an_agent_that_waits_for_the_result_is_refused_with_the_chain():
    def asked(name):
        return lambda request: (
            "Done." if request.messages[-1].tool_results else call(name, prompt="?")
        )

    first = agent("first", *[asked("team")] * 4, tools=lambda context: [team.as_tool()])
    team = pipeline(echo("a"), first, name="team", description="Asks back.")
    result = await first.run("Go.")
    text = result.messages[2].tool_results[0].text
    assert "first can't be asked: it waits for this very answer (first → team → first)" in text


async def test_patterns_inside_of_each_other_have_an_end():
    said = []

    def deeper(request):
        said.extend(block.text for block in request.messages[-1].tool_results)
        return "Done." if request.messages[-1].tool_results else call("down", prompt="?")

    async def down(prompt: str) -> str:
        """Go down."""
        return str((await pipeline(agent("a", *[deeper] * 2, tools=[down])).run(prompt)).output)

    result = await pipeline(agent("a", *[deeper] * 2, tools=[down])).run("x")
    assert result.status == "completed"
    assert "8 agents run inside each other: pipeline → a → pipeline → a" in said[0]


async def test_deps_reach_the_agents_and_no_function():
    def who(context: RunContext[str]) -> str:
        """Answer with the name."""
        return context.deps

    def model(request):
        results = request.messages[-1].tool_results
        return results[0].text if results else call("who")

    asker = agent("asker", *[model] * 4, tools=[who], deps_type=str)
    result = await pipeline(parallel(asker, slow, join=lambda found: found["asker"])).run(
        "1", deps="ada"
    )
    assert result.output == "ada"


async def test_dependencies_that_a_member_was_given_are_its_own():
    def who(context: RunContext[str]) -> str:
        """Answer with the name."""
        return context.deps

    def model(request):
        results = request.messages[-1].tool_results
        return results[0].text if results else call("who")

    asker = agent("asker", *[model] * 8, tools=[who], deps_type=str)
    bound, kept = partial(asker, deps="bob"), partial(asker)
    plan = Plan("", [Subtask("ask", "Who?")])
    workflow = Workflow(TypedDict("State", {"who": str}), input="who", output="who")
    workflow = workflow.node("ask", bound, input="who", output="who")
    workflow = workflow.edge(START, "ask").edge("ask", END)
    for runnable in (pipeline(bound), orchestrator("offline:", bound, planner=plan), workflow):
        assert (await runnable.run("Who?", deps="ada")).text == "bob"
    assert (await pipeline(kept).run("Who?", deps="ada")).text == "ada"


async def test_a_budget_holds_for_all_members():
    team = pipeline(echo("a"), echo("b"), echo("c"))
    async with AgentRuntime(InMemoryStore()) as runtime:
        session = AgentSession.new("team")
        handle = runtime.spawn(session, team, budget=Budget(model_calls=2))
        result = await handle.ask("x")
    assert result.status == "failed"
    assert "model calls" in result.error


async def test_in_a_tool_the_budget_of_the_caller_holds():
    team = pipeline(echo("a"), echo("b"), echo("c"), description="Works.")
    script = call("pipeline", prompt="x"), "Done."
    result = await agent("boss", *script, tools=[team.as_tool()], budget=Budget(model_calls=3)).run(
        "Go."
    )
    assert isinstance(result.error, BudgetExceededError)


def test_a_pattern_of_ones_own():
    async def relay(team):
        facts = await team.ask(echo("a"), "x", name="a")
        return await team.ask(echo("b"), facts, name="b")

    assert Pattern("relay", relay).run_sync("go").output == "b(a(x))"


@pytest.mark.parametrize("pattern", [pipeline, parallel])
def test_a_team_has_members_with_names(pattern):
    with pytest.raises(ConfigurationError, match="at least one"):
        pattern()
    with pytest.raises(ConfigurationError, match=r"'a\[b\]' can't be the name"):
        pattern(echo("a[b]"))
    with pytest.raises(TypeError, match="async function"):
        pattern(echo)


def rounds(*members):
    return loop(pipeline(*members), lambda output: True)


@pytest.mark.parametrize("pattern", [pipeline, rounds])
async def test_a_pattern_goes_on_without_asking_again_who_has_answered(pattern):
    """After a failure, an interrupt or a kill; an input begins anew, whatever its text."""
    store, first = InMemoryStore(), echo("a")
    flaky = agent("b", lambda request: 1 / 0, *["Done."] * 9)
    team = pattern(first, flaky)
    assert (await team.run("x", session="s", store=store)).status == "failed"
    result = await team.run(None, session="s", store=store)
    assert result.output == "Done."
    assert len(first.llm.requests) == 1
    with pytest.raises(ConfigurationError, match="nothing to go on with"):
        await team.run(None, session="s", store=store)
    assert (await team.run("x", session="s", store=store)).status == "completed"
    assert len(first.llm.requests) == 2


def test_arguments_that_make_no_sense():
    with pytest.raises(ConfigurationError, match="max_rounds is 0"):
        loop(echo("a"), max_rounds=0)
    with pytest.raises(ConfigurationError, match="on_failure"):
        parallel(echo("a"), on_failure="ignore")


@pytest.mark.parametrize("pattern", [pipeline, parallel])
async def test_a_run_has_a_budget_for_all_of_it(pattern):
    members = [echo(name) for name in "abc"]
    result = await pattern(*members).run("x", budget=Budget(model_calls=2))
    assert sum(len(member.llm.requests) for member in members) == 2
    assert (result.status, type(result.error)) == ("failed", BudgetExceededError)
    assert "model calls" in str(result.error)
    purse = Budget(model_calls=1)
    ends = [(await echo("a").run("x", budget=purse)).status for _ in range(2)]
    assert ends == ["completed", "failed"]


async def test_a_session_may_have_had_a_workflow_before():
    class State(TypedDict):
        text: str

    flow = Workflow(State, input="text", output="text")
    flow.node("a", echo("a"), input="text", output="text").edge(START, "a").edge("a", END)
    store, team = InMemoryStore(), pipeline(echo("b"))
    for _ in range(2):
        said = await flow.run("Go.", session="s", store=store)
        assert said.output == "a(workflow: Go.)"
        assert (await team.run("Come.", session="s", store=store)).output == "b(Come.)"


async def test_a_record_that_can_not_be_read_is_an_error_of_ours():
    session = AgentSession.new("team")
    session.add_record("workflow.step", {"type": "begin", "run": "one"})
    with pytest.raises(WorkflowError, match="can't be read"):
        _ = (await pipeline(echo("b")).run("Go.", session=session, store=InMemoryStore())).output


async def test_half_a_character_in_an_output_becomes_a_sign_for_it():
    async def work(team):
        return {"name": "\udc80"}

    result = await pipeline(Pattern("inner", work), echo("b")).run("Go.")
    assert result.output == 'b(inner: {"name":"\ufffd"})'


async def test_a_turn_does_not_read_the_turns_before_it(monkeypatch):
    read, records = [], AgentSession.records

    def note(session, kind):
        read.append(kind)
        return records(session, kind)

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("team"), parallel(echo("a"), echo("b")))
        await handle.ask("one")
        with monkeypatch.context() as patch:
            patch.setattr(AgentSession, "records", note)
            assert (await handle.ask("two")).value == {"a": "a(two)", "b": "b(two)"}
    assert not [kind for kind in read if kind.startswith("workflow.")]


async def test_a_turn_that_a_loaded_session_continues_goes_on_with_its_members(tmp_path):
    asked, left = [], tmp_path / "left"

    def say(name):
        async def member(agent):
            async for message in agent.inputs():
                async with agent.turn(message) as turn:
                    asked.append((name, message.text))
                    if len(asked) == 2:
                        shutil.copytree(tmp_path / "run", left)  # what a kill would leave
                    turn.set_result(f"{message.text} {name}")

        member.__name__ = name
        return member

    team = pipeline(say("one"), say("two"))
    await team.run("Go.", session="team", store=FileStore(tmp_path / "run"))
    session = await AgentSession.load("team", store=FileStore(left), on_cut_off="continue")
    async with AgentRuntime(FileStore(left)) as runtime:
        handle = runtime.spawn(session, team)
        async with handle.subscribe("all", answers=True) as chunks:
            async for chunk in chunks:
                for request in await handle.pending():
                    await handle.respond_permission(request.request_id, "allow")
                if isinstance(chunk, Done):
                    break
    assert chunk.value == "Go. one two"
    assert asked == [("one", "Go."), ("two", "Go. one"), ("two", "Go. one")]
