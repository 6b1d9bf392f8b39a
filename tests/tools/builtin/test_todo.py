"""The list of things to do: replaced as a whole, shown, and saved with the session."""

import pytest

from greenroom.core import AgentContext
from greenroom.tools import Todo, ToolRegistry
from greenroom.tools._internal import TodoList

PLAN = [
    {"content": "read", "status": "completed"},
    {"content": "write", "status": "in_progress"},
    {"content": "test", "status": "pending"},
]


@pytest.fixture
def registry():
    return ToolRegistry([Todo()])


@pytest.fixture
def context():
    return AgentContext(session_id="s-1", agent_type="test")


def test_it_needs_no_permission_and_plans(registry):
    tool = registry.get("Todo")
    assert (tool.category, tool.requires_permission, tool.concurrent) == ("plan", False, False)


async def test_the_list_is_kept_shown_and_put_into_the_metadata(registry, context):
    result = await registry.execute("Todo", {"todos": PLAN}, context)
    assert result.text == "1 of 3 completed\n[x] read\n[~] write\n[ ] test"
    assert [item.content for item in context.resources.get(TodoList).items] == [
        "read",
        "write",
        "test",
    ]
    assert context.metadata["todos"] == PLAN


async def test_each_call_replaces_the_whole_list(registry, context):
    await registry.execute("Todo", {"todos": PLAN}, context)
    await registry.execute("Todo", {"todos": PLAN[2:]}, context.with_tool_use_id("t-2"))
    assert context.metadata["todos"] == PLAN[2:]
    result = await registry.execute("Todo", {"todos": []}, context)
    assert result.text == "The list is empty."
    assert context.metadata["todos"] == []


async def test_a_resumed_session_has_its_list(context):
    context.metadata["todos"] = PLAN
    assert str(TodoList.of(context)) == "[x] read\n[~] write\n[ ] test"


@pytest.mark.parametrize("value", [None, 3, "text", [1], [{}], [{"content": "a", "status": "x"}]])
def test_what_somebody_else_put_under_our_key_counts_as_no_list(context, value):
    context.metadata["todos"] = value
    assert TodoList.of(context).items == ()


@pytest.mark.parametrize(
    ("todos", "told"),
    [
        ([{"content": "a"}], "todos[0]: the parameter 'status' is missing"),
        ([{"content": "a", "status": "done"}], "todos[0].status: expected one of"),
        ([{"content": "", "status": "pending"}], "todos[0].content: "),
        (PLAN * 40, "todos: "),
    ],
)
async def test_a_bad_list_changes_nothing(registry, context, todos, told):
    await registry.execute("Todo", {"todos": PLAN}, context)
    result = await registry.execute("Todo", {"todos": todos}, context)
    assert result.is_error
    assert told in result.text
    assert context.metadata["todos"] == PLAN


def test_info_shows_the_list(registry):
    info = registry.info("Todo", {"todos": PLAN})
    assert info.details == "[x] read\n[~] write\n[ ] test"
