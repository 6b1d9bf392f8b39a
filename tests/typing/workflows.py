"""What type checkers see of a `Workflow`; mypy reads this file, nothing runs it."""

from typing import TypedDict, assert_type

from greenroom import Agent
from greenroom.flow import END, START, Workflow, WorkflowRun


class State(TypedDict):
    """A state."""

    number: int
    words: list[str]


class Other(TypedDict):
    """Another one."""

    text: str


async def add(state: State) -> dict[str, object]:
    """Work on a state."""
    return {"number": state["number"] + 1}


async def look(state: State, word: str) -> None:
    """Work on an item."""


async def other(state: Other) -> None:
    """Work on another state."""


async def nodes_and_edges_are_about_the_state() -> None:
    workflow = Workflow(State, input="number").node("add", add)
    assert_type(workflow, Workflow[State])
    workflow.node("look", look).each("look", over="words")
    workflow.node("agent", Agent("offline:"), input="words", output="words")
    workflow.node("inner", workflow, input="number", output="number")
    workflow.node("other", other)  # type: ignore[arg-type]
    workflow.edge(START, "add", when=lambda state: state["number"] > 3)
    workflow.route("add", lambda state: "look" if state["words"] else END)
    run = await workflow.run({"number": 1, "words": []}, on_busy="queue")
    assert_type(run, WorkflowRun[State])
    assert_type(run.state, State)
