"""A research team under one budget: two look things up, one writes, and a trace says who did what.

    python examples/research_team/team.py "How do cats and lions spend the day?"

The models are scripted; `--model NAME` takes a real one. The trace is read again from the
session's folder: `greenroom trace ID --sessions team-sessions` draws it as well.
"""

import argparse

import trio

from greenroom import Agent, AgentRuntime, Budget, FileStore, LLMProvider, ModelRequest
from greenroom.core import Price
from greenroom.flow import Plan, Subtask, orchestrator
from greenroom.observability import TraceFile, Tracer, read_trace
from greenroom.testing import ScriptedProvider, Step, call

LIBRARY = {
    "cats": "Cats sleep 13 hours a day, and hunt at dawn and at dusk.",
    "lions": "Lions rest 20 hours a day, and hunt at night.",
}
PRICE = Price(input=3, output=15)  # euros for a million tokens


def look_up(word: str) -> str:
    """Look a word up in the library."""
    return LIBRARY.get(word, f"nothing about {word}; there is: {', '.join(LIBRARY)}")


def research(request: ModelRequest) -> Step:
    """Stand in for a researcher: look the word up, and say what was found."""
    said = request.messages[-1]
    if said.tool_results:
        return said.tool_results[0].text
    return call("look_up", word=next(word for word in LIBRARY if word in said.text))


def write(request: ModelRequest) -> Step:
    """Stand in for the writer."""
    return "Both sleep most of the day: cats 13 hours, lions 20."


def answer(request: ModelRequest) -> Step:
    """Stand in for the lead, who answers with what the others have found."""
    return "Cats sleep 13 hours a day [cats], lions rest 20 [lions]."


PLAN = Plan(
    "",
    (
        Subtask("cats", "Find out how cats spend the day.", capability="research"),
        Subtask("lions", "Find out how lions spend the day.", capability="research"),
        Subtask("text", "Compare {cats} and {lions}", capability="prose", after=("cats", "lions")),
    ),
)


def model(name: str, step: Step) -> LLMProvider | str:
    """Return the named model, or one that plays this part."""
    return name or ScriptedProvider(*[step] * 20, price=PRICE)


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("question", nargs="?", default="How do cats and lions spend the day?")
    parser.add_argument("--model", default="")
    parser.add_argument("--calls", type=int, default=20, help="model calls of the whole team")
    options = parser.parse_args()
    researchers = [
        Agent(
            model(options.model, research),
            instructions="Answer from the library alone.",
            tools=[look_up],
            capabilities=["research"],
            name=name,
        )
        for name in ("ann", "bob")
    ]
    writer = Agent(model(options.model, write), capabilities=["prose"], name="writer")
    team = orchestrator(
        model(options.model, answer),
        *researchers,
        writer,
        planner=None if options.model else PLAN,
        deadline=600,
    )
    budget, store = Budget(cost=0.50, model_calls=options.calls), FileStore("team-sessions")
    async with TraceFile() as file:
        async with AgentRuntime(store, instruments=[Tracer(file, content="redacted")]) as runtime:
            result = await team.run(options.question, runtime=runtime, budget=budget)
    print(f"{result.status}: {result.error}" if result.error else result.text)
    used = budget.used
    print(f"{used['model_calls']} model calls, {used['cost']:.6f} euros")
    trace = await read_trace(result.session.session_id, store=store)
    for depth, span in trace.walk():
        if not span.name.startswith("chat"):
            print("  " * depth + span.name, span.status)


if __name__ == "__main__":
    trio.run(main)
