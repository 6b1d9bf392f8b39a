"""Sort a thousand files by what they are about, a few at a time, and go on after a kill.

    python examples/ingest/ingest.py letters           # begins, or goes on where it was killed
    python examples/ingest/ingest.py letters --die-at 400

The folder is made with a thousand letters if it is not there. The model is scripted; `--model NAME`
takes a real one.
"""

import argparse
import operator
import os
import signal
from pathlib import Path
from typing import Annotated, TypedDict

import trio

from greenroom import Agent, FileStore, LLMProvider, ModelRequest
from greenroom.flow import END, START, Workflow
from greenroom.testing import ScriptedProvider

TOPICS = ("invoice", "complaint", "order")


class State(TypedDict, total=False):
    """What the workflow works on: it is in the record of each step."""

    files: list[str]
    sorted: Annotated[list[dict[str, str]], operator.add]
    report: str


def make_letters(folder: Path, count: int = 1000) -> None:
    """Write letters to sort."""
    folder.mkdir()
    for number in range(count):
        topic = TOPICS[number % 7 % 3]
        (folder / f"{number:04}.txt").write_text(f"Dear shop, this is my {topic} {number}.\n")


def classify(request: ModelRequest) -> str:
    """Stand in for a model: name the topic of the letter."""
    return next(topic for topic in TOPICS if topic in request.messages[-1].text)


def build(llm: LLMProvider | str, folder: Path, die_at: int) -> Workflow[State]:
    """Return the workflow: each file is a run of an agent, and then there is a report."""
    clerk = Agent(llm, instructions=f"Answer with one word: {', '.join(TOPICS)}.", name="clerk")
    begun = 0

    async def sort_file(state: State, file: str) -> dict[str, object]:
        nonlocal begun
        begun += 1
        if begun == die_at:
            os.kill(os.getpid(), signal.SIGKILL)  # as a machine that loses its power
        text = await (trio.Path(folder) / file).read_text()
        topic = (await clerk.run(text)).output
        async with await trio.open_file("worked-on.txt", "a") as log:
            await log.write(f"{file}\n")
        return {"sorted": [{"file": file, "topic": topic}]}

    async def report(state: State) -> dict[str, object]:
        counts = dict.fromkeys(TOPICS, 0)
        for each in state["sorted"]:
            counts[each["topic"]] += 1
        return {"report": ", ".join(f"{count} {topic}s" for topic, count in counts.items())}

    # To sort a letter twice does no harm, so those in progress at the kill simply begin again.
    workflow = Workflow(State, output="report").node("sort", sort_file, repeatable=True)
    workflow.each("sort", over="files", concurrency=20).node("report", report)
    return workflow.edge(START, "sort").edge("sort", "report").edge("report", END)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--die-at", type=int, default=0, help="the file at which it is killed")
    parser.add_argument("--model", default="")
    options = parser.parse_args()
    if not options.folder.exists():
        make_letters(options.folder)
    llm = options.model or ScriptedProvider(*[classify] * 1000)
    workflow = build(llm, options.folder, options.die_at)
    store, name = FileStore("runs"), options.folder.name
    files = sorted(path.name for path in options.folder.glob("*.txt"))
    given: State | None = None if await store.exists(name) else {"files": files}
    print("going on" if given is None else f"beginning with {len(files)} files", flush=True)
    result = await workflow.run(given, session=name, store=store)
    print(result.output)


if __name__ == "__main__":
    trio.run(main)
