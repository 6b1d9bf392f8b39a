"""`Agent`: what a run comes to, what it may do, and where it can be run."""

import asyncio
import dataclasses
import os
from functools import partial

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    Answer,
    BudgetExceededError,
    ConfigurationError,
    FileStore,
    GreenroomError,
    Guard,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    Reject,
    RuleDecision,
    RunContext,
    SessionNotFoundError,
    ToolError,
    ToolResult,
    builtin_tools,
    tool,
)
from greenroom.agents import resilient_tool
from greenroom.core import Custom, Message, StopReason, TextBlock, ToolResultBlock, TurnError
from greenroom.core._internal import EventLoopError
from greenroom.flow import Pattern
from greenroom.llm import ModelOverloadedError
from greenroom.llm._internal import ModelProfile
from greenroom.llm.catalog import MODELS
from greenroom.memory import SQLiteMemory
from greenroom.resilience import Budget, TokenBudget
from greenroom.testing import Reply, ScriptedProvider, call
from tests.warm_python import run_warm

SECONDS = 60
"""A safety net: what is waited for comes at once."""


def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"It rains in {city}."


def weather(city="Tokyo"):
    return call("get_weather", city=city)


def agent(*script, **options):
    return Agent(ScriptedProvider(*script), **{"tools": [get_weather], **options})


FIVE_LINES = """
from greenroom import Agent
agent = Agent("offline:", instructions="Be brief.", tools=[get_weather])   # a plain function
print(agent.run_sync("What can you do?").output)
"""


@pytest.mark.parametrize("llm", ['"offline:"', 'ScriptedProvider("I am the offline model.")'])
def test_the_first_program_leaves_an_empty_folder_empty(tmp_path, llm):
    work = tmp_path / "work"
    work.mkdir()
    head = (
        "from greenroom.testing import ScriptedProvider\ndef get_weather(city: str) -> str: ...\n"
    )
    program = head + FIVE_LINES.replace('"offline:"', llm)
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    code, printed, errors = run_warm(["-W", "error", "-c", program], work, environment)
    assert "I am the offline model" in printed
    assert (code, errors) == (0, "")
    assert not [*work.iterdir()]


async def test_it_is_an_agent_function_like_any_other():
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        script = weather(), "Take an umbrella.", "And boots."
        handle = runtime.spawn(AgentSession.new("weather"), agent(*script))
        first = await handle.ask("Tokyo?")
        second = await handle.ask("And else?")
    assert (first.text, first.value) == ("Take an umbrella.", "Take an umbrella.")
    assert (second.text, second.value) == ("And boots.", "And boots.")


def test_its_loop_fits_on_a_screen():
    code = Agent.__call__.__code__
    assert len({line for *_, line in code.co_lines() if line}) <= 20


async def test_a_run_that_succeeds():
    result = await agent(weather(), "Take an umbrella.").run("Tokyo?")
    assert (result.output, result.text) == ("Take an umbrella.", "Take an umbrella.")
    assert (result.status, result.steps, result.usage.total) == ("completed", 2, 30)
    assert [message.role for message in result.messages] == ["user", "assistant"] * 2
    assert result.messages == result.session.history
    nothing = (result.is_truncated, result.denials, result.pending, result.warnings, result.error)
    assert nothing == (False, (), (), (), None)


def counter(numbers, fails=False):
    """A team of none that sends a chunk for each number."""

    async def count(run):
        for number in numbers:
            await run.agent.send(Custom("number", {"is": number}))
        if fails:
            raise ToolError("enough")
        return "counted"

    return Pattern("counter", count)


def numbers_of(result):
    return [event.data["is"] for event in result.events if event.kind == "number"]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_result_has_the_events_of_the_run_and_what_it_worked_on(fails):
    deps = {"of": "mine"}
    result = await counter(range(3), fails=fails).run("Count!", deps=deps)
    assert (result.status, numbers_of(result)) == ("failed" if fails else "completed", [0, 1, 2])
    assert result.state is deps


async def test_the_newest_thousand_events_are_kept():
    result = await counter(range(1_500)).run("Count!")
    assert numbers_of(result) == list(range(500, 1_500))


async def test_no_event_is_listed_twice_if_a_reader_leaves_early():
    async with counter(range(3)).stream("Count!") as run:
        async for chunk in run:
            if isinstance(chunk, Custom) and chunk.data["is"] == 1:
                break
    assert numbers_of(run.result)[:2] == [0, 1]
    assert len(set(numbers_of(run.result))) == len(numbers_of(run.result))


async def test_of_a_truncated_run_too():
    deps = ["notes"]
    result = await agent(Reply("Once", stop_reason=StopReason.MAX_TOKENS)).run("Go!", deps=deps)
    assert (result.is_truncated, result.state, result.events) == (True, deps, ())


@pytest.mark.parametrize("obeys", [True, False])
async def test_the_last_step_is_made_without_tools(obeys):
    def reply(request):
        if request.tool_choice == "none" and obeys:
            return "As far as I got: rain."
        return [*Reply("Looking.").message("", "").content, weather(str(len(request.messages)))]

    bot = agent(*[reply] * 4, max_steps=3)
    result = await bot.run("Everywhere?")
    requests = bot.llm.requests
    assert [request.tool_choice for request in requests] == ["auto", "auto", "none"]
    assert [len(request.tools) for request in requests] == [1, 1, 1]
    assert (result.status, result.steps, result.is_truncated) == ("completed", 3, True)
    assert result.output == ("As far as I got: rain." if obeys else "Looking.")
    open_calls = {use.id for message in result.messages for use in message.tool_uses}
    answered = {r.tool_use_id for message in result.messages for r in message.tool_results}
    assert open_calls == answered


async def test_an_answer_at_the_last_step_without_tools_is_whole():
    result = await agent("Hello.", tools=(), max_steps=1).run("Hi")
    assert not result.is_truncated


async def test_a_reply_that_is_cut_off_is_truncated():
    result = await agent(Reply("Once upon", stop_reason=StopReason.MAX_TOKENS)).run("A story!")
    assert (result.output, result.is_truncated) == ("Once upon", True)


async def test_a_pause_goes_on():
    result = await agent(Reply("Wait…", stop_reason=StopReason.PAUSE), "Done.").run("Search!")
    assert (result.output, result.steps, result.is_truncated) == ("Done.", 2, False)


async def test_a_failure_is_a_value_and_only_the_output_raises():
    error = ModelOverloadedError("too many", provider="scripted")
    result = await agent(Reply("It is", error=error)).run("Tokyo?")
    assert (result.status, result.error, result.text) == ("failed", error, "It is")
    with pytest.raises(ModelOverloadedError, match="too many"):
        _ = result.output


async def test_an_interrupt_is_a_value():
    bot = agent(Reply("It is", hangs=True))
    async with bot.stream("Tokyo?") as run:
        async for _ in run.text():
            await run.handle.interrupt()
    assert (run.result.status, run.result.text, run.result.error) == ("interrupted", "It is", None)
    with pytest.raises(TurnError, match="interrupted"):
        _ = run.result.output


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ({"model_calls": 2}, 2),
        ({"tokens": 20}, 1),
        ({"tool_calls": 1}, 2),
        ({"output_tokens": 10}, 2),
    ],
)
async def test_a_spent_budget_is_a_value_and_each_run_has_its_own(limits, steps):
    bot = agent(*map(weather, "abcdef"), budget=Budget(**limits))
    for _ in range(2):
        result = await bot.run("Everywhere?")
        assert (result.status, result.steps) == ("failed", steps)
        assert isinstance(result.error, BudgetExceededError)


async def test_a_request_that_would_go_beyond_the_budget_is_not_sent():
    bot = agent("Hi", budget=Budget(tokens=100))
    result = await bot.run("word " * 1_000)
    assert (result.status, result.steps, bot.llm.requests) == ("failed", 0, [])
    assert "100 tokens left, and the next request takes about" in str(result.error)
    result = await agent("Hi", budget=TokenBudget(max_input_tokens=100)).run("word " * 1_000)
    assert "100 tokens left" in str(result.error)


@pytest.mark.parametrize(
    ("team", "own", "spent"), [(9, 100, "of team is"), (100, 9, "of team/agent is")]
)
async def test_budgets_of_tokens_hold_for_the_agent_and_for_its_team(team, own, spent):
    bot = agent(weather("a"), weather("b"), weather("c"), budget=TokenBudget(max_output_tokens=own))
    results = []

    async def lead(internals):
        async for message in internals.inputs():
            async with internals.turn(message):
                results.append(await bot.run("Everywhere?"))

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        purse = TokenBudget(max_output_tokens=team)
        handle = runtime.spawn(AgentSession.new("team"), lead, budget=purse)
        await handle.ask("go")
    (result,) = results
    assert (result.status, result.steps) == ("failed", 2)
    assert spent in str(result.error)
    assert "9 output tokens" in str(result.error)
    assert purse.used["output_tokens"] == 10


async def test_a_deadline_is_a_value(autojump_clock):
    result = await agent(Reply("It", hangs=True), budget=Budget(seconds=5)).run("Tokyo?")
    assert (result.status, result.text) == ("failed", "It")
    assert isinstance(result.error, BudgetExceededError)


async def test_a_bug_of_the_program_is_raised_as_it_was():
    def instructions(context):
        raise ZeroDivisionError("a bug")

    with pytest.raises(ZeroDivisionError, match="a bug"):
        await agent("Hi", instructions=instructions).run("Hi")


async def test_instructions_that_return_no_text_are_a_bug():
    with pytest.raises(TypeError, match="instructions of agent returned None"):
        await agent("Rain.", instructions=lambda context: None).run("Hi")


async def test_a_model_that_cannot_be_opened_is_an_error_of_the_run():
    with pytest.raises(ConfigurationError, match="is not the name of a known model"):
        await Agent("antropic:claude").run("Hi")


async def test_what_a_tool_raises_is_for_the_model():
    def broken() -> str:
        """Break."""
        raise ZeroDivisionError("a bug")

    result = await agent(call("broken"), "I see.", tools=[broken]).run("Go")
    assert result.output == "I see."
    assert "ZeroDivisionError: a bug" in result.messages[2].tool_results[0].text


WRITES = (
    call("Bash", command="ls"),  # also where a command only reads: nobody has consented to a shell
    call("Write", file_path="x", content="x"),
    call("WebFetch", url="http://x.test/"),
)


class FromAServer:
    name, description, category = "mcp__shop__read", "Read.", "read"
    parameters = {"type": "object", "properties": {}}

    def info(self, input):
        raise NotImplementedError

    async def execute(self, input, context):
        return ToolResult.ok("from a server")


async def test_own_functions_run_and_what_writes_or_comes_from_a_server_is_denied(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("the cat is green")

    @tool(category="execute")
    def deploy() -> str:
        """Deploy."""
        return "deployed"

    calls = [weather(), call("deploy"), call("Read", file_path="notes.txt"), *WRITES]
    calls.append(call("mcp__shop__read"))
    tools = [get_weather, deploy, FromAServer(), *builtin_tools()]
    result = await agent(calls, "So be it.", tools=tools).run("Go")
    errors = [block.is_error for block in result.messages[2].tool_results]
    assert errors == [False, False, False, True, True, True, True]
    assert [denial.tool for denial in result.denials] == [
        "Bash",
        "Write",
        "WebFetch",
        "mcp__shop__read",
    ]
    assert result.denials[0].input == {"command": "ls"}
    assert "no one can be asked" in result.denials[0].reason
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ([], "rm x: no rule is about this"),
        (
            [PermissionRule.ask_for_command("rm", id="careful", description="Files stay.")],
            "rm x: the rule 'careful' asks about this: Files stay",
        ),
    ],
)
async def test_where_no_one_can_be_asked_the_denial_says_what_asks(rules, why):
    options = {"tools": builtin_tools(), "permissions": PermissionManager(rules)}
    result = await agent(call("Bash", command="ls; rm x"), "done", **options).run("Go")
    [denial] = result.denials
    assert denial.reason == f"This call was denied: no one can be asked; {why}."


async def test_a_tool_that_has_the_name_of_a_built_in_one_is_not_taken_for_it():
    class Read(FromAServer):
        name = "Read"

    result = await agent(call("Read"), "Hm.", tools=[Read()]).run("Go")
    assert [denial.tool for denial in result.denials] == ["Read"]


@pytest.mark.parametrize(
    ("rules", "denied"),
    [
        ([], []),
        ([PermissionRule.deny_tool("other")], []),
        ([PermissionRule.ask_for_tool("get_weather")], ["get_weather"]),
        ([PermissionRule.deny_all()], ["get_weather"]),
    ],
)
async def test_consent_counts_where_no_rule_is_about_the_call(rules, denied):
    run = agent(weather(), "Hm.", permissions=PermissionManager(rules)).run("Go")
    assert [denial.tool for denial in (await run).denials] == denied


@pytest.mark.parametrize("rules", [None, []])
async def test_a_function_that_requires_permission_in_so_many_words_is_asked_about(rules):
    @tool(requires_permission=True)
    def deploy() -> str:
        """Deploy."""
        return "deployed"

    async def approve(request):
        return request.tool_name == "deploy"

    options = {"tools": [deploy, get_weather]}
    if rules is not None:
        options["permissions"] = PermissionManager(rules)
    script = ([call("deploy"), weather()], "Done.")
    denied = await agent(*script, **options).run("Go")
    assert [denial.tool for denial in denied.denials] == ["deploy"]
    assert (await agent(*script, **options).run("Go", approve=approve)).denials == ()


async def test_in_the_mode_plan_consent_changes_nothing():
    permissions = PermissionManager(mode="plan")
    run = agent(weather(), "Hm.", permissions=permissions).run("Go")
    assert [denial.tool for denial in (await run).denials] == ["get_weather"]


class Thermometer:
    """Measure the temperature of a place."""

    async def __call__(self, place: str) -> str:
        return f"20 in {place}"

    def read(self, place: str) -> str:
        """Read it."""
        return f"21 in {place}"


async def test_a_partial_a_method_and_an_object_that_can_be_called_are_tools():
    def forecast(days: int, place: str, key: str) -> str:
        """Forecast the weather."""
        return f"{days} {place} {key}"

    async def later(place: str) -> str:
        """Forecast it."""
        return f"later in {place}"

    given = [
        partial(partial(forecast, 3), key="secret"),
        Thermometer(),
        Thermometer().read,
        partial(later),
    ]
    names = ["forecast", "Thermometer", "read", "later"]
    calls = [call(name, place="Rome") for name in names]
    bot = agent(Reply(calls), "Hm.", tools=given)
    result = await bot.run("Go")
    answers = [b.text for message in result.messages for b in message.tool_results]
    assert answers == ["3 Rome secret", "20 in Rome", "21 in Rome", "later in Rome"]
    definitions = {each.name: each for each in bot.llm.requests[0].tools}
    assert all(list(each.parameters["properties"]) == ["place"] for each in definitions.values())
    assert definitions["forecast"].description == "Forecast the weather."
    assert definitions["Thermometer"].description == "Measure the temperature of a place."


async def test_a_tool_under_policies_may_do_what_it_may_without_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("Rain.")
    calls = weather(), call("Read", file_path="a.txt"), call("Bash", command="touch made")
    tools = [resilient_tool(each) for each in (get_weather, *builtin_tools())]
    result = await agent(*calls, "Hm.", tools=tools).run("Go")
    assert [denial.tool for denial in result.denials] == ["Bash"]


def test_the_deps_of_a_function_under_policies_are_checked():
    def find(context: RunContext[int]) -> str:
        """Find it."""
        return "here"

    with pytest.raises(TypeError, match=r"RunContext\[int\]"):
        Agent("offline:", tools=[resilient_tool(find)])


async def test_an_answer_for_the_session_is_remembered_where_there_are_rules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = []

    async def approve(request):
        asked.append(request.tool_name)
        return Answer(RuleDecision.ALLOW, remember="session")

    rules = PermissionManager([PermissionRule.ask_for_tool("deploy")])
    calls = [call("Bash", command="touch made"), call("Bash", command="touch made")]
    tools = [get_weather, *builtin_tools()]
    await agent(*calls, "Hm.", tools=tools, permissions=rules).run("Go", approve=approve)
    assert asked == ["Bash"]


@pytest.mark.parametrize(
    ("answer", "runs"),
    [
        (True, True),
        (False, False),
        (Answer(RuleDecision.ALLOW), True),
        (Answer(RuleDecision.DENY, message="Not on Fridays."), False),
    ],
)
async def test_a_function_may_approve(answer, runs):
    asked = []

    async def approve(request):
        await trio.lowlevel.checkpoint()
        asked.append(request)
        return answer

    rules = PermissionManager([PermissionRule.ask_for_tool("get_weather")])
    result = await agent(weather(), "Hm.", permissions=rules).run("Go", approve=approve)
    assert [request.input for request in asked] == [{"city": "Tokyo"}]
    text = result.messages[2].tool_results[0].text
    assert bool(result.denials) is not runs
    assert ("rains" in text) is runs
    if isinstance(answer, Answer):
        assert answer.message in text


async def test_what_the_approving_function_raises_is_raised_as_it_was():
    async def approve(request):
        raise ZeroDivisionError("a bug")

    rules = PermissionManager([PermissionRule.ask_for_tool("get_weather")])
    with pytest.raises(ZeroDivisionError, match="a bug"):
        await agent(weather(), permissions=rules).run("Go", approve=approve)


async def test_a_plain_function_is_told_that_it_can_not_approve():
    rules = PermissionManager([PermissionRule.ask_for_tool("get_weather")])
    with pytest.raises(TypeError, match=r"approve= must be an async function: it returned True"):
        await agent(weather(), permissions=rules).run("Go", approve=lambda request: True)


async def test_an_interrupt_cancels_the_approving_function():
    asked, cancelled = trio.Event(), []

    async def approve(request):
        asked.set()
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.append(request.tool_name)
            raise

    rules = PermissionManager([PermissionRule.ask_for_tool("get_weather")])
    with trio.fail_after(SECONDS):
        async with agent(weather(), permissions=rules).stream("Go", approve=approve) as run:
            await asked.wait()
            await run.handle.interrupt()
            async for _ in run:
                pass
    assert run.result.status == "interrupted"
    assert cancelled == ["get_weather"]


async def test_a_subscriber_may_answer():
    rules = PermissionManager([PermissionRule.ask_for_tool("get_weather")])
    async with agent(weather(), "Rain.", permissions=rules).stream("Go") as run:
        async with run.handle.subscribe("all", answers=True) as chunks:
            async for chunk in chunks:
                if chunk.__class__.__name__ == "PermissionRequest":
                    await run.handle.respond_permission(chunk.request_id, "allow")
                if chunk.__class__.__name__ == "Done":
                    break
    assert (run.result.output, run.result.denials) == ("Rain.", ())


async def test_a_conversation_goes_on_with_the_session_of_the_result():
    bot = agent("Hello Ann.", "You are Ann.")
    first = await bot.run("I am Ann.")
    second = await bot.run("Who am I?", session=first.session)
    assert [message.text for message in second.messages] == ["Who am I?", "You are Ann."]
    assert len(second.session.history) == 4
    assert second.usage.total == 15


async def test_a_message_that_a_compaction_shortens_is_not_one_of_the_run(monkeypatch):
    profile = ModelProfile(name="scripted:script", context_window=2_500)
    monkeypatch.setitem(MODELS, profile.name, profile)
    session = AgentSession.new("agent")
    for number in range(4):
        session.add_message(Message.user(f"Question {number}"))
        session.add_message(Message.assistant([weather()]))
        (asked,) = session.history[-1].tool_uses
        long = (TextBlock("It rains. " * 300),)
        session.add_message(Message.user([ToolResultBlock(asked.id, long)]))
        session.add_message(Message.assistant(f"Answer {number}"))
    result = await agent("It rains.").run("And today?", session=session)
    assert "left out" in session.history[2].tool_results[0].text
    assert [message.text for message in result.messages] == ["And today?", "It rains."]


async def test_a_session_by_its_name_begins_and_goes_on(tmp_path):
    store = FileStore(tmp_path)
    for count in (2, 4):
        result = await agent("Hello.").run("Hi", session="ann", store=store)
        assert (result.session.session_id, len(result.session.history)) == ("ann", count)
    assert [path.name for path in tmp_path.iterdir()] == ["ann"]


async def test_a_session_without_a_store_is_in_the_usual_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    await agent("Hello.").run("Hi", session="ann")
    assert (tmp_path / "sessions" / "ann" / "history.jsonl").exists()


async def test_a_runtime_gives_its_store_and_stays_open(tmp_path):
    async with AgentRuntime(store=FileStore(tmp_path)) as runtime:
        result = await agent("Hello.").run("Hi", runtime=runtime)
        assert not runtime.list_active()
    assert [path.name for path in tmp_path.iterdir()] == [result.session.session_id]


async def test_there_has_to_be_something_to_go_on_with():
    bot = agent("Hello.")
    done = await bot.run("Hi")
    with pytest.raises(ConfigurationError, match="nothing to go on with"):
        await bot.run()
    with pytest.raises(ConfigurationError, match="nothing to go on with"):
        await bot.run(session=done.session)
    with pytest.raises(SessionNotFoundError):
        await bot.run(session="nobody", store=InMemoryStore())


async def test_a_run_that_was_interrupted_goes_on():
    async with agent(Reply("It is", hangs=True)).stream("Tokyo?") as run:
        async for _ in run.text():
            break
    assert run.result.status == "interrupted"
    result = await agent("raining.").run(session=run.result.session)
    assert result.output == "raining."


async def test_run_sync_refuses_in_trio():
    with pytest.raises(EventLoopError, match="running event loop") as caught:
        agent("Hi").run_sync("Hi")
    assert "await agent.run(…)" in caught.value.hint


def test_run_sync_refuses_in_asyncio():
    async def main():
        agent("Hi").run_sync("Hi")

    with pytest.raises(EventLoopError, match="asyncio"):
        asyncio.run(main())


def test_run_sync_works_in_a_thread_of_asyncio():
    async def main():
        return await asyncio.to_thread(agent("Hi").run_sync, "Hi")

    assert asyncio.run(main()).output == "Hi"


async def test_run_sync_works_in_a_thread_of_trio():
    result = await trio.to_thread.run_sync(agent("Hi").run_sync, "Hi")
    assert result.output == "Hi"


def test_one_agent_runs_in_one_loop_after_the_other():
    bot = Agent("offline:", tools=[get_weather])
    assert bot.run_sync("Hi").output == bot.run_sync("Hi").output


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"llm": None}, ConfigurationError, "not a model"),
        ({"max_steps": 0}, ConfigurationError, "max_steps is 0"),
        ({"max_steps": True}, ConfigurationError, "max_steps is True"),
        ({"tools": get_weather}, ConfigurationError, "write tools=.get_weather"),
        ({"tools": [get_weather, get_weather]}, ToolError, "already registered"),
        ({"tools": [lambda x: x]}, ToolError, "lambda"),
        ({"tools": ["x"]}, ToolError, "not a tool"),
        ({"instructions": 7}, ConfigurationError, "instructions"),
        ({"budget": 100}, ConfigurationError, "not a budget"),
        ({"permissions": []}, ConfigurationError, "PermissionManager"),
    ],
)
def test_what_makes_no_sense_is_refused_when_it_is_made(options, error, match):
    options = {"llm": "offline:", **options}
    with pytest.raises(error, match=match) as caught:
        Agent(options.pop("llm"), **options)
    assert isinstance(caught.value, GreenroomError)


def test_it_is_frozen_and_can_be_changed_into_another():
    bot = agent("Hi")
    with pytest.raises(dataclasses.FrozenInstanceError):
        bot.max_steps = 3
    other = dataclasses.replace(bot, max_steps=3)
    assert (other.max_steps, other.tools, bot.max_steps) == (3, bot.tools, 10)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"approve": True}, "neither an async function"),
        ({"answers": {}, "input": "Hi"}, "an input, or answers"),
        ({"answers": {}, "input": None}, "belong to a session"),
    ],
)
async def test_arguments_of_a_run_have_to_go_together(options, match):
    options = {"input": "Hi", **options}
    with pytest.raises(ConfigurationError, match=match):
        await agent("Hi").run(options.pop("input"), **options)


async def test_a_turn_begins_with_what_the_memory_has_on_its_input(tmp_path):
    memory = SQLiteMemory(tmp_path / "memory.db")
    await memory.add("I'm vegetarian.", origin="user")
    result = await agent("Then no ham.", memory=memory).run("Is ham vegetarian?")
    asked, recalled, answer = result.messages
    assert (asked.sender, recalled.sender, answer.text) == ("", "memory", "Then no ham.")
    assert "I'm vegetarian." in recalled.text
    assert len(await memory.recall("ham")) == 0  # nothing is added but what a compaction leaves out


async def test_what_guards_reject_is_not_looked_for(tmp_path):
    memory = SQLiteMemory(tmp_path / "memory.db")
    await memory.add("Swords are in the shed.", origin="user")
    guard = Guard(lambda context, text: Reject("not here"), on="input")
    result = await agent(memory=memory, guards=[guard]).run("Where are the swords?")
    assert [message.sender for message in result.messages] == ["runtime"]


def test_a_list_of_rules_is_refused_with_the_manager_that_takes_it():
    rules = [PermissionRule.allow_tool("get_weather")]
    with pytest.raises(ConfigurationError, match=r"^a list is not .*PermissionManager\(\["):
        agent(permissions=rules)


def test_an_agent_among_the_tools_is_refused_with_the_word_that_makes_it_one():
    loans = Agent("offline:", name="loans", tools=[get_weather])
    for expert in (loans, Agent("offline:", name="loans")):
        with pytest.raises(ToolError, match=r"loans is not a tool.*pass what its as_tool"):
            Agent("offline:", tools=[expert])


def test_a_rule_that_names_a_tool_nearly_is_warned_of(caplog):
    rules = [PermissionRule.ask_for_tool("get_weathers"), PermissionRule.deny_tool("Bash")]
    Agent("offline:", tools=[get_weather], permissions=PermissionManager(rules))
    assert [record.getMessage() for record in caplog.records] == [
        "the rule ask get_weathers is about no tool: there is no 'get_weathers'; "
        "did you mean 'get_weather'?"
    ]


async def test_what_is_no_memory_is_refused():
    with pytest.raises(ConfigurationError, match="is not a memory"):
        agent(memory="memory.db")


async def test_a_conversation_that_outgrows_the_window_is_shortened():
    llm = ScriptedProvider("Hello.", "Notes.", "Fine.", "Notes.", "Good.", model="claude-haiku-4-5")
    llm.name = "anthropic"
    store, session = InMemoryStore(), "talk"
    one = Agent(llm)
    for text in ("My name is Ada.", "word " * 230_000, "Who am I?"):
        result = await one.run(text, session=session, store=store)
    assert result.output == "Good."
    assert "My name is Ada." in llm.requests[-1].messages[0].text
