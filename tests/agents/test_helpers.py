"""Helpers: named subagents, whose tools and rules are never wider than the parent's."""

from functools import partial

import pytest

from greenroom import AgentRuntime, AgentSession, InMemoryStore, coder
from greenroom.agents._internal import Helper
from greenroom.core import AgentContext, RuleDecision
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import ToolRegistry, builtin_tools

CONTEXT = AgentContext(session_id="s-1", agent_type="coder")
REVIEWER = Helper("reviewer", "Reads changes", "You review.", ("Read", "Bash(git diff:*)"))


def narrow(helper, *rules, mode="default"):
    tools = ToolRegistry(builtin_tools())
    return helper.narrow(tools, PermissionManager(rules, mode=mode), CONTEXT)


def test_a_helper_has_the_tools_of_its_list_and_no_others():
    tools, _ = narrow(REVIEWER)
    assert set(tools.list_tools()) == {"Read", "Bash"}
    tools, _ = narrow(Helper("all", "Everything", "Do."))
    assert "Write" in tools.list_tools()


@pytest.mark.parametrize(
    ("rules", "mode", "command", "decision"),
    [
        ((), "default", "git diff", "ask"),
        ((PermissionRule.allow_tool("Bash"),), "default", "git diff --stat", "allow"),
        ((PermissionRule.allow_tool("Bash"),), "default", "make", "deny"),
        ((), "bypass", "make", "deny"),
        ((PermissionRule.parse("Bash(git diff:*)", "deny"),), "default", "git diff", "deny"),
    ],
)
def test_its_rules_only_tighten_those_of_its_parent(rules, mode, command, decision):
    tools, rights = narrow(REVIEWER, *rules, mode=mode)
    found = rights.check(tools.get("Bash"), {"command": command}, CONTEXT)
    assert found in (RuleDecision(decision), RuleDecision.ALLOW if command == "git diff" else "")


async def test_task_lists_them_and_runs_the_one_that_is_named():
    given = {"description": "look", "prompt": "Look.", "agent": "reviewer"}
    other = ScriptedProvider("All is well.")
    helper = Helper("reviewer", "Reads changes", "You review.", llm=other)
    model = ScriptedProvider(call("Task", **given), "It says: fine.")
    async with AgentRuntime(InMemoryStore()) as runtime:
        parts = (model, ToolRegistry(builtin_tools()), PermissionManager())
        agent = partial(coder, delegates=[helper])
        handle = runtime.spawn(AgentSession.new("coder"), agent, *parts)
        assert (await handle.ask("Go.")).text == "It says: fine."
        history = await handle.history()
    assert history[2].tool_results[0].text == "All is well."
    [request] = other.requests
    assert request.system.startswith("You review.")
    [task] = [each for each in model.requests[0].tools if each.name == "Task"]
    assert "- reviewer: Reads changes" in task.description
    assert task.parameters["properties"]["agent"]["enum"] == ["reviewer"]
