"""Every call of a tool goes through one gate, and no dangerous tool is there unasked."""

import ast
import re
from pathlib import Path

import pytest
import trio

import greenroom
from greenroom import Agent, AgentRuntime, AgentSession, InMemoryStore, PermissionRule
from greenroom.agents import run_tools, stream_reply
from greenroom.flow import (
    Plan,
    Subtask,
    handoff_team,
    orchestrator,
    pipeline,
    plan_and_execute,
    react,
)
from greenroom.permissions import PermissionManager
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, tool
from greenroom.tools._internal import RegisteredTool

ROOT = Path(greenroom.__file__).parent

PATHS = {
    "tools/registry.py": {"found.execute"},  # to the gate
    "agents/call_gate.py": {"self._tools.execute"},  # after the rules; to the registry
    "tools/execution.py": {"self.tool.execute"},  # the gate itself, behind `AgentContext.on_run`
    # The person's own: nobody is asked, and what a rule denies is not done.
    "cli/mentions.py": {"self._tools.execute"},
    "cli/own_command.py": {"tools.execute"},
    # Behind the gate: tools that wrap one, and the process of a tool.
    "agents/resilient_tool.py": {"self.original.execute"},
    "flow/handoff_team.py": {"self._tool.execute"},
    "tools/isolation/worker_program.py": {"tool.run_here"},
}
"""Where `greenroom` calls a tool: what is added here has to be judged."""


def _find_calls(path):
    text = path.read_text()
    for node in ast.walk(ast.parse(text)) if re.search(r"\.(execute|run_here)\(", text) else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = ast.unparse(node.func)
            if node.func.attr in {"execute", "run_here"} and "connection" not in called:
                yield called


def test_the_paths_to_a_tool_are_these():
    found = {
        path.relative_to(ROOT).as_posix(): set(_find_calls(path)) for path in ROOT.rglob("*.py")
    }
    found = {
        name: calls
        for name, calls in found.items()
        if calls and not re.search("sqlite|postgres", name)
    }
    assert found == PATHS


def make_worker(script, tools, rules):
    return Agent(
        ScriptedProvider(*script),
        tools=tools,
        permissions=rules,
        name="worker",
        description="works",
    )


def make_parent(script, tools, rules):
    model = ScriptedProvider(call("worker", prompt="go"), "done")
    return Agent(model, tools=[make_worker(script, tools, rules).as_tool()])


def make_loop(script, tools, rules):
    llm, registry = ScriptedProvider(*script), ToolRegistry(map(tool, tools))

    async def loop(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                while (reply := await stream_reply(agent, llm, registry)).tool_uses:
                    await run_tools(agent, reply.tool_uses, registry, rules)

    return loop


def make_react(_, tools, rules):
    llm = ScriptedProvider("Action: touch\nArguments: {}", *["Answer: done"] * 3)
    return react(llm, tools, permissions=rules)


def make_plan(_, tools, rules):
    llm, plan = ScriptedProvider(*["done"] * 9), Plan("", [Subtask("a", "Do it", tool="touch")])
    return plan_and_execute(llm, tools, planner=plan, permissions=rules)


def make_orchestrator(script, tools, rules):
    llm, plan = ScriptedProvider(*["done"] * 9), Plan("", [Subtask("a", "Do it")])
    return orchestrator(llm, make_worker(script, tools, rules), planner=plan)


WAYS = {
    "an agent": make_worker,
    "an agent's tool": make_parent,
    "a loop of its own": make_loop,
    "react": make_react,
    "a plan": make_plan,
    "a pipeline": lambda *parts: pipeline(make_worker(*parts), name="line"),
    "a handoff team": lambda *parts: handoff_team(make_worker(*parts)),
    "an orchestrator": make_orchestrator,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_allowed", [True, False])
async def test_whoever_runs_a_tool_its_rules_and_its_gate_come_first(
    way, is_allowed, autojump_clock, monkeypatch
):
    ran, passed = [], []
    original = RegisteredTool.execute

    async def spy(self, input, context):
        passed.append(self.name)
        return await original(self, input, context)

    async def touch() -> str:
        """Touch."""
        ran.append("touch")
        return "touched"

    monkeypatch.setattr(RegisteredTool, "execute", spy)
    rule = PermissionRule.allow_tool("touch") if is_allowed else PermissionRule.deny_tool("touch")
    script = (call("touch"), "done", "done", "done")
    function = WAYS[way](script, [touch], PermissionManager([rule]))
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(AgentSession.new("a"), function, unattended="deny")
        with trio.fail_after(600):
            await handle.ask("Go.")
    assert ran == (["touch"] if is_allowed else [])
    assert passed.count("touch") == len(ran)


def test_no_tool_is_there_unless_the_program_passes_it():
    agent = Agent("offline:")
    assert list(agent.tools) == []
    assert ToolRegistry().definitions() == ()
