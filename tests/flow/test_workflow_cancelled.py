"""Workflows that are interrupted at every checkpoint, and continue."""

import operator
from typing import Annotated, TypedDict

import trio

from greenroom import Agent
from greenroom.flow import END, START, Workflow
from greenroom.testing import Scenario, ScriptedProvider, call, cancel_at_every_checkpoint
from tests.conftest import few


class State(TypedDict, total=False):
    text: str
    items: list[str]
    found: Annotated[list[str], operator.add]


def scenario(seen):
    async def look(at: str) -> str:
        """Look."""
        await trio.sleep(1)
        return f"saw {at}"

    def model(request):
        results = request.messages[-1].tool_results
        return "It is there." if results else call("look", at="it")

    async def split(state: State) -> dict[str, object]:
        return {"items": state["text"].split()}

    async def find(state: State, item: str) -> dict[str, object]:
        await trio.sleep(1)
        return {"found": item}

    looker = Agent(ScriptedProvider(*[model] * 50), tools=[look])
    inner = Workflow(State, input="text", output="found").node("split", split, repeatable=True)
    inner.node("find", find).each("find", over="items", concurrency=2)
    inner.edge(START, "split").edge("split", "find").edge("find", END)
    workflow = Workflow(State, input="text", output="found")
    workflow.node("look", looker, input="text", output="found")
    workflow.node("inner", inner, input="text", output="found")
    workflow.edge(START, "look").edge(START, "inner").edge("look", END).edge("inner", END)

    async def agent(internals):
        try:
            await workflow(internals)
        finally:
            seen.append(workflow.load(internals.session))

    return Scenario(agent, inputs="one two three")


def test_a_cancel_at_any_checkpoint_leaves_a_valid_run_and_nothing_that_runs():
    seen = []
    report = cancel_at_every_checkpoint(lambda: scenario(seen), at_most=few(24))
    assert report.violations == ()
    runs = [run for run in seen if run is not None]
    expected = ["It is there.", "one", "two", "three"]
    assert any(run.state.get("found") == expected for run in runs)
    assert any(run.next for run in runs)
