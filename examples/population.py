"""A goal of several steps: the model plans, tools and an agent work, and the model answers.

    python examples/population.py

The model is scripted, so this needs no API key.
"""

import trio

from greenroom import ModelRequest, ToolRegistry
from greenroom.flow import ModelPlanner, run_task
from greenroom.testing import ScriptedProvider, call
from greenroom.tools import as_tool, calculator

GOAL = "Research the population of Tokyo and calculate 10% of it"
PLAN = call(
    "final_answer",
    subtasks=[
        {
            "id": "search",
            "goal": "Search Tokyo population",
            "tool": "search",
            "arguments": {"query": "Tokyo population"},
        },
        {"id": "extract", "goal": "Extract population number: {search}", "after": ["search"]},
        {
            "id": "calculate",
            "goal": "Calculate 10%",
            "tool": "calculator",
            "arguments": {"expression": "10% of {extract}"},
            "after": ["extract"],
        },
    ],
)


async def search(query: str) -> str:
    """Search the web."""
    return f"{query}: 14,000,000 (2024)"


def answer(request: ModelRequest) -> str:
    """Answer from the results of the subtasks, which the request lists."""
    results = dict(
        line.removeprefix("- ").split(": ", 1)
        for line in request.messages[-1].text.splitlines()
        if line.startswith("- ")
    )
    return f"Tokyo has {results['extract']} inhabitants; 10% of that is {results['calculate']}."


async def main() -> None:
    """Show the plan, then carry it out."""
    planner = ModelPlanner(ScriptedProvider(PLAN))
    plan = await planner.plan(GOAL, ToolRegistry([as_tool(search), calculator]))
    for id_ in plan.order():
        print(f"{plan[id_].goal} ({plan[id_].tool or 'an agent'})")
    llm = ScriptedProvider("14000000", answer)
    print((await run_task(GOAL, llm, [search, calculator], planner=plan)).output)


if __name__ == "__main__":
    trio.run(main)
