"""An `Agent` that is run inside of another agent is a subagent of it: budget, interrupt, rules."""

import dataclasses
import itertools
import json
from functools import partial

import pytest
import trio

from greenroom import (
    Agent,
    AgentContext,
    AgentRuntime,
    AgentSession,
    BudgetExceededError,
    ConfigurationError,
    FileStore,
    InMemoryStore,
    PermissionManager,
    PermissionRule,
    RunContext,
    SubAgentComplete,
    SubAgentOutput,
    SubAgentSpawned,
    TextDelta,
    ToolRegistry,
    ToolUseBlock,
    builtin_tools,
    coder,
    tool,
)
from greenroom.resilience import Budget
from greenroom.testing import Reply, ScriptedProvider, call

SECONDS = 60


@tool
def look() -> str:
    """Look."""
    return "rain"


@tool(isolation="process", timeout=SECONDS)
def ask_in_a_process() -> str:
    """Ask an agent from another process."""
    return Agent("offline:").run_sync("Hi").text


def inner(*script, **options):
    return Agent(ScriptedProvider(*script), **{"tools": [look], "name": "inner", **options})


def in_async_tool(agent, results, **options):
    async def delegate() -> str:
        """Ask the other agent."""
        results.append(await agent.run("Go on.", **options))
        return results[-1].text

    return delegate


def in_plain_tool(agent, results, **options):
    def delegate() -> str:
        """Ask the other agent."""
        results.append(agent.run_sync("Go on.", **options))
        return results[-1].text

    return delegate


def as_tool(agent, results):
    return agent.as_tool("delegate", "Ask the other agent.")


BOTH = pytest.mark.parametrize("way", [in_async_tool, in_plain_tool])
ALL = pytest.mark.parametrize("way", [in_async_tool, in_plain_tool, as_tool])


def outer(tool, **options):
    prompt = {"prompt": "Go on."} if hasattr(tool, "category") else {}
    script = call("delegate", **prompt), "Done."
    return Agent(ScriptedProvider(*script), **{"tools": [tool], "name": "outer", **options})


async def run(agent, **options):
    """Run it; return the result and the chunks."""
    with trio.fail_after(SECONDS):
        async with agent.stream("Go", **options) as run:
            chunks = [chunk async for chunk in run]
    return run.result, chunks


@ALL
async def test_it_is_a_subagent_that_is_gone_when_it_has_answered(way, tmp_path):
    results, helper = [], inner(call("look"), "It rains.")
    result, chunks = await run(outer(way(helper, results)), store=FileStore(tmp_path))
    assert (result.status, result.output) == ("completed", "Done.")
    [block] = result.messages[2].tool_results
    assert (block.text, block.is_error) == ("It rains.", False)
    [spawned] = [chunk for chunk in chunks if isinstance(chunk, SubAgentSpawned)]
    assert (spawned.name, spawned.tool_use_id) == ("inner", block.tool_use_id)
    stored = await AgentSession.load(spawned.session_id, store=FileStore(tmp_path))
    assert stored.parent_session_id == result.session.session_id
    assert result.usage.total == 60
    if results:
        assert (results[0].steps, results[0].usage.total) == (2, 30)


@ALL
async def test_the_budget_of_the_outer_one_holds(way):
    """The inner agent wants five model calls, and with the outer one's first there are two left."""
    results = []
    helper = inner(*[call("look")] * 4, "Done.")
    result, _ = await run(outer(way(helper, results), budget=Budget(model_calls=3)))
    assert len(helper.llm.requests) == 2
    assert isinstance(result.error, BudgetExceededError)
    for inside in results:
        assert (inside.status, inside.steps) == ("failed", 2)
        assert isinstance(inside.error, BudgetExceededError)


@ALL
async def test_the_budget_of_an_agent_of_ones_own_holds(way):
    """It makes no model calls itself: the two are the inner agent's."""
    helper = inner(*[call("look")] * 4, "Done.")
    registry = ToolRegistry([tool(t) if callable(t := way(helper, [])) else t])
    uses = [call("delegate", **({"prompt": "Go"} if way is as_tool else {}))]

    async def mine(agent):
        from greenroom import run_tools

        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.budget(model_calls=2):
                    await run_tools(agent, uses, registry, PermissionManager(mode="bypass"))

    async with AgentRuntime(store=InMemoryStore()) as runtime:
        await runtime.spawn(AgentSession.new("mine"), mine).ask("Go")
    assert len(helper.llm.requests) == 2


@ALL
async def test_the_interrupt_of_the_outer_turn_ends_it(way):
    helper = inner(Reply("It", hangs=True))
    with trio.fail_after(SECONDS):
        async with outer(way(helper, [])).stream("Go") as run:
            async for chunk in run:
                if isinstance(chunk, SubAgentOutput) and isinstance(chunk.chunk, TextDelta):
                    report = await run.handle.interrupt()
                    break
            async for _ in run:
                pass
            async with run.handle.subscribe("all") as chunks:
                ended = [await anext(chunks) for _ in range(chunks.lag)]
    assert run.result.status == "interrupted"
    [complete] = [chunk for chunk in ended if isinstance(chunk, SubAgentComplete)]
    assert complete.status == "cancelled"
    assert report.abandoned == (("thread of delegate",) if way is in_plain_tool else ())


@ALL
@pytest.mark.parametrize("approves", [True, False])
async def test_its_questions_show_the_lineage_and_go_to_whoever_answers(way, approves, tmp_path):
    asked = []

    async def approve(request):
        asked.append(request)
        return approves

    helper = inner(call("Write", file_path="x.txt", content="x"), "Written.", tools=builtin_tools())
    async with AgentRuntime(store=InMemoryStore(), workspace=tmp_path) as runtime:
        result, _ = await run(outer(way(helper, [])), runtime=runtime, approve=approve)
    assert [(each.tool_name, each.lineage) for each in asked] == [("Write", ("outer", "inner"))]
    assert (tmp_path / "x.txt").exists() is approves
    assert result.output == "Done."


D, A = PermissionRule.deny_tool, PermissionRule.ask_for_tool
OK = PermissionRule.allow_tool


@pytest.mark.parametrize(
    ("tool_name", "outside", "inside", "runs"),
    [
        ("look", None, None, True),  # by consent
        ("look", [OK("delegate")], None, True),  # the caller has rules, and none about it
        ("look", [OK("delegate"), D("look")], None, False),
        ("look", [OK("delegate"), A("look")], None, False),
        ("look", [OK("delegate"), A("look")], [OK("look")], False),
        ("look", None, [D("look")], False),
        ("look", None, [A("look")], False),
        ("look", None, [OK("look")], True),
        ("look", [OK("delegate")], [], True),  # rules of its own, and none about it
        ("look", [OK("delegate"), A("look")], [], False),
        ("Glob", None, None, True),  # both allow to read
        ("Glob", [OK("delegate")], None, False),  # the stricter of both
        ("Glob", [OK("delegate", "Glob")], None, True),
        ("Glob", [OK("delegate", "Glob")], [D("Glob")], False),
        ("Write", None, [OK("Write")], False),
        ("Write", [OK("delegate", "Write")], None, False),
        ("Write", [OK("delegate", "Write")], [OK("Write")], True),
    ],
)
@BOTH
@pytest.mark.every(4)
async def test_the_stricter_of_both_holds_but_for_consent(
    way, tool_name, outside, inside, runs, tmp_path
):
    inputs = {"Write": {"file_path": "x", "content": "x"}, "Glob": {"pattern": "*"}, "look": {}}
    results = []
    helper = inner(
        call(tool_name, **inputs[tool_name]),
        "Done.",
        tools=[look, *builtin_tools()],
        permissions=None if inside is None else PermissionManager(inside),
    )
    rules = None if outside is None else PermissionManager(outside)
    async with AgentRuntime(store=InMemoryStore(), workspace=tmp_path) as runtime:
        await run(outer(way(helper, results), permissions=rules), runtime=runtime)
    assert [denial.tool for denial in results[0].denials] == ([] if runs else [tool_name])


@pytest.mark.parametrize("depth", [2, 3])
async def test_what_the_first_denies_is_denied_to_the_last(depth):
    results = []
    agent = inner(call("look"), "Done.")
    for _ in range(depth - 1):
        agent = outer(in_async_tool(agent, results))
    rules = PermissionManager([OK("delegate"), D("look")])
    await run(outer(in_async_tool(agent, results), permissions=rules))
    assert [denial.tool for denial in results[0].denials] == ["look"]


@ALL
async def test_what_is_denied_inside_is_in_the_outer_result_too(way):
    helper = inner(call("Write", file_path="x", content="x"), "Hm.", tools=builtin_tools())
    result, _ = await run(outer(way(helper, [])))
    denied = [(denial.tool, denial.lineage) for denial in result.denials]
    assert denied == [("Write", ("outer", "inner"))]


async def test_the_rules_of_a_loop_of_ones_own_hold_too():
    results, helper = [], inner(call("look"), "Done.")
    registry = ToolRegistry([tool(in_async_tool(helper, results))])
    rules = PermissionManager([OK("delegate"), D("look")])
    parts = ScriptedProvider(call("delegate"), "Done."), registry, rules
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("coder"), coder, *parts, unattended="deny")
        await handle.ask("Go")
    assert [denial.tool for denial in results[0].denials] == ["look"]


async def test_a_spawned_agent_is_held_to_them_as_well():
    helper = inner(call("look"), "Done.")

    async def delegate() -> str:
        """Spawn it by hand."""
        from greenroom.runtime import spawn_subagent

        handle = spawn_subagent(AgentSession.new("inner"), helper, report=False)
        await handle.ask("Go")
        return str((await handle.history())[2].tool_results[0].text)

    rules = PermissionManager([OK("delegate"), D("look")])
    result, _ = await run(outer(delegate, permissions=rules))
    assert "deny" in result.messages[2].tool_results[0].text.lower()


async def test_a_task_of_the_application_is_not_part_of_the_agent():
    results = []
    helper = inner(call("look"), "Done.")
    async with trio.open_nursery() as nursery:
        done = trio.Event()

        async def later():
            results.append(await helper.run("Go"))
            done.set()

        async def delegate() -> str:
            """Let the application do it."""
            nursery.start_soon(later)
            await done.wait()
            return "done"

        rules = PermissionManager([OK("delegate"), D("look")])
        _, chunks = await run(outer(delegate, permissions=rules))
    assert results[0].denials == ()
    assert not any(isinstance(chunk, SubAgentSpawned) for chunk in chunks)


async def test_the_agent_of_a_plain_tool_ends_with_a_call_that_has_timed_out():
    helper, gone = inner(Reply("It", hangs=True)), trio.Event()

    @tool(timeout=0.5)
    def delegate() -> str:
        """Ask the other agent."""
        try:
            return helper.run_sync("Go on.").text
        finally:
            if not helper.llm.requests:  # the machine is so busy that the call was over before this
                trio.from_thread.run_sync(gone.set)

    async def wait() -> str:
        """Wait until the helper is gone, while the turn goes on."""
        await gone.wait()
        return "it is gone"

    model = ScriptedProvider(call("delegate"), call("wait"), "Done.")
    with trio.fail_after(SECONDS):
        async with Agent(model, tools=[delegate, wait]).stream("Go") as run:
            async for chunk in run:
                if isinstance(chunk, SubAgentComplete):
                    assert chunk.status == "cancelled"
                    gone.set()
    assert "did not finish within" in run.result.messages[2].tool_results[0].text
    assert run.result.messages[4].tool_results[0].text == "it is gone"
    assert run.result.output == "Done."


@pytest.mark.parametrize(
    "options",
    [
        {"store": InMemoryStore()},
        {"approve": "later"},
        {"answers": {}, "session": "x"},
        {"runtime": AgentRuntime()},
    ],
)
@BOTH
async def test_what_is_the_callers_is_refused(way, options):
    if way is in_plain_tool and "runtime" in options:
        return  # `run_sync` takes none
    helper = inner("Hi")

    async def ask() -> str:
        """Ask."""
        prompt = None if "answers" in options else "Hi"
        if way is in_plain_tool:
            result = await trio.to_thread.run_sync(partial(helper.run_sync, prompt, **options))
        else:
            result = await helper.run(prompt, **options)
        return result.text

    ask.__name__ = "delegate"
    result, _ = await run(outer(ask))
    assert "it is a subagent" in result.messages[2].tool_results[0].text


async def test_a_session_of_another_tree_is_refused_and_one_of_its_own_goes_on(tmp_path):
    store = FileStore(tmp_path)
    other = await inner("Hi").run("Hi", store=store)
    helper = inner("One.", "Two.", "Three.")

    async def delegate(name: str) -> str:
        """Ask."""
        result = await helper.run("Go on.", session=name)
        return f"{result.text} {len(result.session.history)}"

    names = [other.session.session_id, "helper-1", "helper-1"]
    script = [*(call("delegate", name=name) for name in names), "Done."]
    result = await Agent(ScriptedProvider(*script), tools=[delegate]).run("Go", store=store)
    texts = [b.text for message in result.messages for b in message.tool_results]
    assert "place already" in texts[0]
    assert texts[1:] == ["One. 2", "Two. 4"]


@pytest.mark.parametrize("is_forked", [False, True])
async def test_the_conversation_of_another_tree_is_taken_up_in_a_fork(is_forked, tmp_path):
    store = FileStore(tmp_path)
    other = await inner("I am here.").run("Where are you?", store=store)
    helper, results = inner("Still here."), []

    async def delegate() -> str:
        """Ask."""
        session = await other.session.fork() if is_forked else other.session
        results.append(await helper.run("And now?", session=session))
        return results[0].text

    result, _ = await run(outer(delegate), store=store)
    text = result.messages[2].tool_results[0].text
    assert ("Still here." if is_forked else "await session.fork()") in text
    if is_forked:
        stored = await AgentSession.load(results[0].session.session_id, store=store)
        assert (len(stored.history), stored.parent_session_id) == (4, result.session.session_id)


async def test_deps_of_the_caller_are_passed_on_by_as_tool():
    def who(context: RunContext[str]) -> str:
        """Say who."""
        return context.deps

    helper = inner(
        call("who"), lambda r: r.messages[-1].tool_results[0].text, tools=[who], deps_type=str
    )
    agent = outer(as_tool(helper, []), deps_type=str)
    result, _ = await run(agent, deps="ada")
    assert result.messages[2].tool_results[0].text == "ada"


async def test_a_circle_of_agents_is_refused_with_its_chain():
    first = Agent(
        ScriptedProvider(call("second", prompt="?"), "Done."),
        tools=lambda context: [second.as_tool()],
        name="first",
        description="Asks.",
    )
    second = Agent(
        ScriptedProvider(call("first", prompt="?"), lambda r: r.messages[-1].tool_results[0].text),
        tools=lambda context: [first.as_tool()],
        name="second",
        description="Asks back.",
    )
    result, _ = await run(first)
    assert "(first → second → first)" in result.messages[2].tool_results[0].text


def asks_down(name):
    """A model that calls a tool, and answers with what that has come to."""

    def model(request):
        results = request.messages[-1].tool_results
        return results[0].text if results else call(name, prompt="?")

    return ScriptedProvider(*[model] * 50)


async def test_an_agent_that_is_a_tool_of_its_own_is_refused_with_the_chain():
    agent = Agent(
        asks_down("me"), tools=lambda _: [agent.as_tool()], name="me", description="Asks."
    )
    result, _ = await run(agent)
    assert result.output == "me can't be asked: it waits for this very answer (me → me)"


async def test_with_other_tools_it_is_the_same_agent_where_agents_wait_for_each_other():
    agent = Agent(asks_down("me"), name="me", description="Asks.")
    copy = agent.replace_tools([agent.as_tool()]).replace_tools([agent.as_tool()])
    result, _ = await run(copy)
    assert result.output == "me can't be asked: it waits for this very answer (me → me)"


async def test_copies_of_an_agent_that_ask_each_other_end_with_the_chain():
    agent = Agent(
        asks_down("me"),
        tools=lambda _: [dataclasses.replace(agent).as_tool()],
        name="me",
        description="Asks.",
    )
    result, _ = await run(agent)
    assert "8 agents run inside each other: me → me" in result.output
    assert len(agent.llm.requests) == 8 * 2


async def test_an_agent_that_runs_itself_comes_to_an_end():
    depths = itertools.count()

    async def again() -> str:
        """Once more."""
        next(depths)
        return (await agent.run("Go")).output

    def script(request):
        return "Done." if request.messages[-1].tool_results else call("again")

    agent = Agent(ScriptedProvider(*[script] * 30), tools=[again])
    result, _ = await run(agent)
    assert result.status == "completed"
    assert next(depths) == 8


async def test_in_a_process_of_its_own_a_tool_is_not_part_of_the_agent():
    script = call("ask_in_a_process"), "So not."
    result = await Agent(ScriptedProvider(*script), tools=[ask_in_a_process]).run("Go")
    assert 'isolation="process"' in result.messages[2].tool_results[0].text
    assert result.output == "So not."


def test_a_tool_has_to_say_what_it_is_good_for():
    with pytest.raises(ConfigurationError, match="good for"):
        inner("Hi").as_tool()


async def test_an_agent_that_a_tool_runs_behind_its_reply_belongs_to_its_call():
    """Servers may use the id of a call again, and each call has runs of its own."""
    gate, (send, receive) = trio.Event(), trio.open_memory_channel(2)

    @tool
    async def delegate(context: AgentContext) -> str:
        """Ask the other agent later."""

        async def ask_later() -> None:
            await gate.wait()
            send.send_nowait((await inner("Yes.").run("Go on.")).session.session_id)

        context.start_background(ask_later, sender="delegate", label="a question")
        return "later"

    @tool
    async def collect() -> list[str]:
        """Wait for the answers."""
        gate.set()
        return [await receive.receive() for _ in range(2)]

    asked = ToolUseBlock("call_0", "delegate", {})
    outer = Agent(
        ScriptedProvider(asked, [asked, call("collect")], "Done."), tools=[delegate, collect]
    )
    with trio.fail_after(SECONDS):
        result = await outer.run("Go on.")
    [*_, collected] = result.messages[-2].tool_results
    assert len({*json.loads(collected.text)}) == 2
