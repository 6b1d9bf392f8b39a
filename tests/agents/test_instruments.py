"""Instruments see each model call, tool call, permission, turn and agent: before it, and after."""

import importlib.util
import signal
from pathlib import Path
from typing import get_args

import pytest
import trio

from greenroom.agents import Task, coder, run_tools, stream_reply
from greenroom.core import (
    Exited,
    PermissionRequest,
    SubAgentComplete,
    SubAgentSpawned,
    TextBlock,
    ToolStart,
    ToolUseBlock,
    TurnStart,
    TurnStatus,
)
from greenroom.core._internal import Hook
from greenroom.llm import ModelOverloadedError
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.runtime import AgentRuntime
from greenroom.session import AgentSession, InMemoryStore
from greenroom.testing import Reply, ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools, tool
from tests.agents.ledger import Ledger

EXAMPLE = Path(__file__).parents[2] / "examples" / "coder.py"


@tool(category="read")
async def look(label: str) -> str:
    """Look at something."""
    return f"seen {label}"


@tool(category="write")
async def wait(label: str) -> str:
    """Wait for an interrupt."""
    await trio.sleep_forever()


@tool(category="read")
async def crash(label: str) -> str:
    """Crash."""
    raise KeyError(label)


RULES = (PermissionRule.allow_category("read"), PermissionRule.allow_tool("Task"))


async def worker(agent, llm, rules=RULES, delegate=None):
    tools = ToolRegistry([look, wait, crash])
    if delegate is not None:
        tools = tools.with_tools(Task(agent, delegate))
    async for message in agent.inputs():
        async with agent.turn(message):
            while (reply := await stream_reply(agent, llm, tools)).tool_uses:
                await run_tools(agent, reply.tool_uses, tools, PermissionManager(rules))


def new():
    return AgentSession.new("worker")


async def test_the_hooks_of_a_turn_in_their_order():
    ledger = Ledger()
    llm = ScriptedProvider(call("look", label="a"), "done")
    async with AgentRuntime(store=InMemoryStore(), instruments=[ledger]) as runtime:
        assert (await runtime.spawn(new(), worker, llm).ask("go")).text == "done"
    assert ledger.log == [
        "before agent",
        "before turn",
        *("before model", "after model"),
        *("before tool", "after tool"),
        *("before model", "after model"),
        "after turn",
        "after agent",
    ]
    assert ledger.ends["model"] == ("done", "NoneType")
    assert ledger.ends["tool"] == ("seen a", "NoneType")
    assert ledger.ends["turn"] == ("completed",)


async def until(handle, kind):
    async for chunk in handle.subscribe("all"):
        if isinstance(chunk, kind):
            return


ALLOW = (PermissionRule.allow_all(),)


@pytest.mark.parametrize(
    ("step", "rules", "cut_at", "what", "end"),
    [
        (Reply("hal", hangs=True), RULES, 0, "model", (None, "Cancelled")),
        (call("wait", label="a"), ALLOW, ToolStart, "tool", (None, "Cancelled")),
        (call("wait", label="a"), RULES, PermissionRequest, "permission", ("withdrawn",)),
        (call("wait", label="a"), RULES, PermissionRequest, "tool", (None, "Cancelled")),
        ([call("look", label="a"), call("wait", label="b")], ALLOW, 0, "tool", (None, "Cancelled")),
    ],
)
@pytest.mark.parametrize("way", ["interrupt", "kill", "leave"])
async def test_each_that_begins_ends_once_when_it_is_cut_off(
    autojump_clock, step, rules, cut_at, what, end, way
):
    ledger = Ledger()
    async with AgentRuntime(store=InMemoryStore(), instruments=[ledger]) as runtime:
        handle = runtime.spawn(new(), worker, ScriptedProvider(step), rules)
        await handle.send_input("go")
        if cut_at:
            await until(handle, cut_at)
        await trio.testing.wait_all_tasks_blocked()
        if way == "interrupt":
            await handle.interrupt()
        elif way == "kill":
            handle.kill()
        else:
            runtime._kernel.nursery.cancel_scope.cancel()
    assert ledger.unfinished == []
    assert ledger.ends[what] == end
    assert ledger.ends["turn"] == (TurnStatus.INTERRUPTED,)


@pytest.mark.parametrize(
    ("step", "what", "end", "status"),
    [
        (
            Reply("hal", error=ModelOverloadedError("busy")),
            "model",
            (None, "ModelOverloadedError"),
            "failed",
        ),
        (call("crash", label="a"), "tool", ("KeyError: 'a'", "NoneType"), "completed"),
        (ToolUseBlock("1", "unknown", {}), "tool", None, "completed"),
        (ToolUseBlock("1", "look", {}, invalid="no JSON"), "tool", None, "completed"),
    ],
)
async def test_each_that_begins_ends_once_when_it_fails(step, what, end, status):
    ledger = Ledger()
    async with AgentRuntime(store=InMemoryStore(), instruments=[ledger]) as runtime:
        handle = runtime.spawn(new(), worker, ScriptedProvider(step, "done"))
        assert (await handle.ask("go")).status == status
    assert ledger.unfinished == []
    assert end is None or ledger.ends[what] == end


async def test_each_that_begins_ends_once_when_the_agent_crashes():
    ledger = Ledger()

    async def crashing(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                with agent.tool_call(call("look", label="a")):
                    raise RuntimeError("a bug")

    async with AgentRuntime(store=InMemoryStore(), instruments=[ledger]) as runtime:
        handle = runtime.spawn(new(), crashing)
        await handle.send_input("go")
        await handle.wait()
    assert ledger.unfinished == []
    assert ledger.ends["tool"] == (None, "RuntimeError")
    assert ledger.ends["agent"] == ("crashed",)


@pytest.mark.parametrize("below", [False, True], ids=["a root", "a subagent"])
async def test_a_hook_that_aborts_the_program_before_an_agent_leaves_nobody_waiting(below):
    class Aborting:
        def before_agent(self, agent):
            if bool(agent.parent_session_id) == below:
                raise KeyboardInterrupt

    async def parent(agent):
        await agent.spawn(new(), worker, ScriptedProvider()).wait()

    handles = []

    async def program():
        async with AgentRuntime(store=InMemoryStore(), instruments=[Aborting()]) as runtime:
            handles.append(runtime.spawn(new(), parent))
            await handles[0].wait()

    with trio.fail_after(60), pytest.raises(KeyboardInterrupt):
        await program()
    assert (await handles[0].wait()).status == "crashed"


@pytest.mark.parametrize(
    ("hook", "kind"),
    [
        ("before_agent", None),
        ("before_turn", None),
        ("on_chunk", TurnStart),
        ("on_chunk", SubAgentSpawned),
        ("on_chunk", SubAgentComplete),
        ("on_chunk", Exited),
        ("after_agent", None),
    ],
)
def test_a_ctrl_c_ends_a_hook_that_would_go_on_for_good(hook, kind):
    class Endless:
        went_on = False

    def run_on(self, agent, detail=None):
        if kind is None or isinstance(detail, kind):
            signal.raise_signal(signal.SIGINT)
            Endless.went_on = True  # for good, in the hook of a program

    setattr(Endless, hook, run_on)
    handles = []

    async def returns(agent):
        pass

    async def parent(agent):
        async with agent.turn(await agent.receive()):
            await agent.spawn(new(), returns).wait()

    async def program():
        async with AgentRuntime(store=InMemoryStore(), instruments=[Endless()]) as runtime:
            handles.append(runtime.spawn(new(), parent))
            handles[0].send_input_nowait("go")
            await handles[0].wait()

    with pytest.raises(KeyboardInterrupt):
        trio.run(program)
    assert not Endless.went_on
    assert handles[0].state.is_final


async def test_a_session_that_is_locked_is_an_agent_that_ends_at_once():
    ledger, store = Ledger(), InMemoryStore()
    held = new()
    held.journal.bind(store)
    await held.open()
    again = AgentSession.new("worker", session_id=held.session_id, store=store)
    async with AgentRuntime(store=store, instruments=[ledger]) as runtime:
        await runtime.spawn(again, worker, ScriptedProvider()).wait()
    assert ledger.log == ["before agent", "after agent"]
    await held.close()


async def test_they_see_every_agent_with_its_lineage():
    seen = []

    class Lineages:
        def before_model_call(self, agent, call):
            seen.append((agent.lineage, agent.current_turn, call.provider, call.model))

    async def helper(agent):
        await worker(agent, ScriptedProvider("helped", model="small"))

    task = call("Task", description="help", prompt="go")
    llm = ScriptedProvider(task, "done", model="large")
    async with AgentRuntime(store=InMemoryStore(), instruments=[Lineages()]) as runtime:
        await runtime.spawn(new(), worker, llm, RULES, helper).ask("go")
    assert seen == [
        (("worker",), 1, "scripted", "large"),
        (("worker", "help"), 1, "scripted", "small"),
        (("worker",), 1, "scripted", "large"),
    ]


async def test_one_can_be_added_and_removed_while_agents_run():
    ledger = Ledger()
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        handle = runtime.spawn(new(), worker, ScriptedProvider("one", "two", "three"))
        await handle.ask("go")
        runtime.instruments.add(ledger)
        await handle.ask("go")
        runtime.instruments.remove(ledger)
        await handle.ask("go")
    assert ledger.log == ["before turn", "before model", "after model", "after turn"]


def _raise(self, agent, *details):
    raise RuntimeError("a broken hook")


AlwaysBroken = type("AlwaysBroken", (), dict.fromkeys(get_args(Hook), _raise))


async def outcome_of_a_busy_turn(instruments):
    llm = ScriptedProvider([call("look", label="a"), call("wait", label="b")], "done")
    async with AgentRuntime(store=InMemoryStore(), instruments=instruments) as runtime:
        handle = runtime.spawn(new(), worker, llm, unattended="deny")
        result = await handle.ask("go")
        return result, await handle.history(), runtime.instruments.statistics()


async def test_one_whose_every_hook_raises_changes_nothing(caplog):
    plain, history, _ = await outcome_of_a_busy_turn([])
    result, same, statistics = await outcome_of_a_busy_turn([AlwaysBroken()])
    assert (result.status, result.text) == (plain.status, plain.text) == ("completed", "done")
    assert [m.text for m in same] == [m.text for m in history]
    assert len(statistics.failures) >= 8
    assert any(r.getMessage().startswith("worker: the hook") for r in caplog.records)


class Rewriter:
    def __init__(self, **changes):
        self.changes, self.ended = changes, []

    def before_tool_call(self, agent, call):
        return {**call.input, **self.changes}

    def after_tool_call(self, agent, call, result, error):
        self.ended.append((call.input, result.text))


async def run_rewritten(rewriter, *rules, answer=None, agent_fn=worker):
    """Run one call that is rewritten; return its result as the model sees it, and the history."""
    llm = ScriptedProvider(call("look", label="a"), "done")
    requests = []
    async with AgentRuntime(store=InMemoryStore(), instruments=[rewriter]) as runtime:
        handle = runtime.spawn(new(), agent_fn, llm, rules or RULES, unattended="deny")
        async with trio.open_nursery() as nursery:

            async def person():
                async with handle.subscribe("all", answers=True) as chunks:
                    async for chunk in chunks:
                        if isinstance(chunk, PermissionRequest):
                            requests.append(chunk)
                            await handle.respond_permission(chunk.request_id, "allow", **answer)

            if answer is not None:
                nursery.start_soon(person)
            await handle.ask("go")
            nursery.cancel_scope.cancel()
        history = await handle.history()
    block = history[2].tool_results[0]
    text = "\n".join(part.text for part in block.content if isinstance(part, TextBlock))
    return text, history, requests


async def test_what_is_rewritten_is_what_runs_and_the_model_is_told():
    rewriter = Rewriter(label="b")
    text, history, _ = await run_rewritten(rewriter)
    assert text == '[The arguments were changed to {"label":"b"}]\nseen b'
    assert history[1].tool_uses[0].input == {"label": "a"}  # what the model has said stays
    assert rewriter.ended == [({"label": "b"}, text)]


async def test_what_is_rewritten_is_what_is_judged():
    rules = (PermissionRule.deny_if(lambda _, given: given["label"] == "b"), *RULES)
    text, _, _ = await run_rewritten(Rewriter(label="b"), *rules)
    assert "seen" not in text
    assert text.startswith('[The arguments were changed to {"label":"b"}]')
    text, _, _ = await run_rewritten(Rewriter(label="c"), *rules)
    assert "seen c" in text


async def test_a_rewrite_to_something_invalid_is_refused_like_any_bad_input():
    text, _, requests = await run_rewritten(Rewriter(label=7))
    assert "does not fit" in text
    assert "seen" not in text
    assert requests == []


async def test_what_is_rewritten_is_what_a_person_is_asked_about_and_may_edit():
    ask = (PermissionRule.ask_for_tool("look"),)
    text, _, (request,) = await run_rewritten(Rewriter(label="b"), *ask, answer={})
    assert request.input == {"label": "b"}
    assert "seen b" in text
    edited = {"input": {"label": "c"}}
    text, _, _ = await run_rewritten(Rewriter(label="b"), *ask, answer=edited)
    assert text == '[The user changed the arguments to {"label":"c"}]\nseen c'


async def test_the_primitives_alone_are_seen_and_rewritten_alike(tmp_path):
    (tmp_path / "a.txt").write_text("first")
    (tmp_path / "b.txt").write_text("second")
    spec = importlib.util.spec_from_file_location("coder_of_primitives", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    logs = []

    async def written_out(*parts):
        await module.Coder(*parts).run()

    for agent_fn in (coder, written_out):
        ledger, rewriter = Ledger(), Rewriter(file_path="b.txt")
        llm = ScriptedProvider(call("Read", file_path="a.txt"), "done")
        arguments = (llm, ToolRegistry(builtin_tools()), PermissionManager(RULES))
        async with AgentRuntime(
            store=InMemoryStore(), workspace=tmp_path, instruments=[ledger, rewriter]
        ) as runtime:
            await runtime.spawn(new(), agent_fn, *arguments).ask("go")
        assert "second" in rewriter.ended[0][1]
        assert ledger.unfinished == []
        logs.append(ledger.log)
    assert logs[0] == logs[1]


async def test_what_one_does_to_its_context_no_other_sees():
    class Spoiling:
        """Sets what it can of each context that it gets."""

        async def judge(self, agent, call):
            self.spoil(agent)

        async def before_run(self, agent, call):
            self.spoil(agent)

        def spoil(self, agent, *_):
            agent.session_id, agent.lineage, agent.workspace.cwd = "spoilt", ("spoilt",), Path("/")

    class Noting(Spoiling):
        def __init__(self):
            self.seen = set()

        def spoil(self, agent, *_):
            self.seen.add((agent.session_id, agent.lineage, agent.workspace.cwd))

    for hook in get_args(Hook):
        setattr(Spoiling, hook, lambda self, agent, *details: self.spoil(agent))
    session, noting = new(), Noting()
    llm = ScriptedProvider(call("look", label="a"), "done")
    runtime = AgentRuntime(InMemoryStore(), workspace="/usr", gates=[Spoiling(), noting])
    async with runtime:
        await runtime.spawn(session, worker, llm).ask("Go.")
    assert noting.seen == {(session.session_id, ("worker",), Path("/usr"))}
