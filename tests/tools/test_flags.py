"""What a tool says of its calls, and what follows from it."""

import itertools

import pytest

from greenroom.agents import resilient_tool
from greenroom.core import AgentContext, ToolError
from greenroom.permissions import PermissionManager
from greenroom.tools import ToolRegistry, as_tool, builtin_tools, tool
from greenroom.tools._internal import RegisteredTool, may_repeat

FLAGS = ("read_only", "idempotent", "destructive")
CONTEXT = AgentContext(session_id="s-1", agent_type="test")


def made(**says):
    async def change(name: str) -> None:
        """Change something."""

    return tool(**says)(change)


@pytest.mark.parametrize(
    ("says", "repeats"),
    [
        ({}, False),
        ({"category": "network"}, False),
        ({"category": "read"}, True),
        ({"category": "read", "read_only": False}, False),
        ({"category": "read", "idempotent": False}, False),
        ({"category": "network", "read_only": True}, True),
        ({"idempotent": True, "destructive": True}, True),
        ({"destructive": True}, False),
    ],
)
def test_a_call_is_repeated_only_where_that_is_said(says, repeats):
    assert may_repeat(made(**says)) is repeats
    assert may_repeat(RegisteredTool.of(made(**says))) is repeats
    assert may_repeat(resilient_tool(made(**says))) is repeats


def test_of_the_built_in_tools_those_that_only_look_may_be_repeated():
    repeated = {each.name for each in builtin_tools() if may_repeat(each)}
    assert repeated == {"Read", "Glob", "Grep", "WebFetch"}


@pytest.mark.parametrize(
    ("says", "problem"),
    [
        ({"read_only": True, "destructive": True}, "read_only and destructive"),
        ({"category": "read", "destructive": True}, "destructive, and of the category read"),
        ({"category": "write", "read_only": True}, "read_only, and writes"),
        ({"read_only": True, "idempotent": False}, "read_only and not idempotent"),
        ({"idempotent": "yes"}, "its idempotent is 'yes'"),
    ],
)
def test_a_tool_that_contradicts_itself_is_refused(says, problem):
    with pytest.raises(ToolError, match=problem):
        made(**says)

    class Change:
        name = "change"
        schema = {"type": "object"}

        def execute(self):
            return ""

    for member, value in says.items():
        setattr(Change, member, value)
    with pytest.raises(ToolError, match=problem):
        ToolRegistry([as_tool(Change())])


def test_flags_change_no_decision_and_a_destructive_call_is_told_of():
    manager = PermissionManager()
    decisions = set()
    for values in itertools.product([None, True, False], repeat=3):
        try:
            changes = made(**dict(zip(FLAGS, values, strict=True)))
        except ToolError:
            continue
        decisions.add(manager.check(RegisteredTool.of(changes), {"name": "a"}, CONTEXT))
    assert len(decisions) == 1
    registered = RegisteredTool.of(made(destructive=True))
    assert registered.info({"name": "a"}).action.startswith("Use change (it may destroy")
