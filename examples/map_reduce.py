"""Map and reduce: agents read the files, three at a time, and their summaries become one report."""

import operator
from pathlib import Path
from typing import Annotated, TypedDict

import trio

from greenroom import Agent, ModelRequest
from greenroom.flow import END, START, Workflow
from greenroom.testing import ScriptedProvider


class State(TypedDict, total=False):
    folder: str
    files: list[str]
    summaries: Annotated[list[str], operator.add]
    report: str


def model(request: ModelRequest) -> str:  # or "anthropic:claude-sonnet-5-5" for all requests
    text = request.messages[0].text.split("\n", 1)[-1]
    return f"{len(text.split())} words"


reader = Agent(
    ScriptedProvider(*[model] * 100), instructions="Say in a line what this text is about."
)


async def find(state: State) -> dict[str, object]:
    folder = trio.Path(state["folder"])
    return {"files": sorted([path.name for path in await folder.glob("*.txt")])}


async def summarise(state: State, file: str) -> dict[str, object]:
    text = await trio.Path(state["folder"], file).read_text()
    result = await reader.run(text)
    return {"summaries": f"{file}: {result.output}"}


async def report(state: State) -> dict[str, object]:
    return {"report": "\n".join(state["summaries"])}


workflow = Workflow(State).node("find", find, repeatable=True)
workflow.node("summarise", summarise, repeatable=True).each(
    "summarise", over="files", concurrency=3
)
workflow.node("report", report, repeatable=True)
workflow.edge(START, "find").edge("find", "summarise").edge("summarise", "report").edge(
    "report", END
)


folder = Path("texts")
folder.mkdir(exist_ok=True)
for number, name in enumerate(["ants", "bees", "crows", "doves", "eels"], 1):
    (folder / f"{name}.txt").write_text("word " * number)
print(trio.run(workflow.run, {"folder": str(folder)}).state["report"])
