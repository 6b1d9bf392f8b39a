"""A model that plans, the tools that it may name, and the work that comes of it."""

import json

import pytest

from greenroom import ToolRegistry
from greenroom.flow import ModelPlanner, run_task
from greenroom.testing import ScriptedProvider
from greenroom.tools import as_tool, calculator

GOAL = "Research the population of Tokyo and calculate 10% of it"
STEPS = [
    {
        "id": "search",
        "goal": "Search Tokyo population",
        "tool": "search",
        "arguments": {"query": "Tokyo population"},
    },
    {"id": "extract", "goal": "Extract population number from: {search}", "after": ["search"]},
    {
        "id": "calculate",
        "goal": "Calculate 10%",
        "after": ["extract"],
        "tool": "calculator",
        "arguments": {"expression": "10% of {extract}"},
    },
]


class Library:
    def __init__(self):
        self.asked = []

    async def search(self, query: str) -> str:
        """Search the web."""
        self.asked.append(query)
        return "Tokyo had 14,000,000 inhabitants in 2024."


@pytest.mark.checkpoint("3.1 a goal becomes three to five subtasks")
async def test_task_decomposition():
    tools = ToolRegistry([as_tool(Library().search), calculator])
    plan = await ModelPlanner(ScriptedProvider(json.dumps({"subtasks": STEPS}))).plan(GOAL, tools)
    assert 3 <= len(plan.subtasks) <= 5
    assert all(subtask.goal for subtask in plan.subtasks)
    assert [subtask.tool for subtask in plan.subtasks] == ["search", "", "calculator"]
    assert plan.order() == ("search", "extract", "calculate")
    assert plan["calculate"].after == ("extract",)


@pytest.mark.checkpoint("3.5 a goal of several steps is reached")
async def test_research_and_summarize_mocked():
    library = Library()

    def extract(request):
        return "14000000" if "14,000,000 inhabitants" in request.messages[-1].text else "unknown"

    def answer(request):
        assert "- calculate: 1400000" in request.messages[-1].text
        return "Tokyo has 14,000,000 inhabitants; 10% of that is 1,400,000."

    llm = ScriptedProvider(json.dumps({"subtasks": STEPS}), extract, answer)
    said = (await run_task(GOAL, llm, [library.search, calculator])).output
    assert library.asked == ["Tokyo population"]
    assert "14,000,000" in said
    assert "1,400,000" in said
