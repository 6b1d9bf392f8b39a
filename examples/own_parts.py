"""Parts of your own: a tool as a class, a memory, and a planner that needs no model.

    python examples/own_parts.py

None of them inherits anything: an object with the members of a protocol is a part. The model is
scripted, so this needs no API key.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias
from uuid import uuid4

import trio

from greenroom import AgentContext, ToolError, ToolInfo, ToolRegistry, ToolResult
from greenroom.flow import Failure, Plan, PlanRun, Subtask, plan_and_execute
from greenroom.memory import Entry, Recalled
from greenroom.testing import ScriptedProvider

Scalar: TypeAlias = str | int | float | bool | None


class CountWords:
    """A tool: six members, and what it keeps between its calls."""

    name = "count_words"
    description = "Count the words of a text, up to four."
    category = "read"
    parameters: Mapping[str, object] = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    }
    requires_permission = False

    def __init__(self) -> None:
        self.calls = 0

    def info(self, arguments: dict[str, object]) -> ToolInfo:
        """Describe a call to the person who is asked about it."""
        return ToolInfo("Count the words", str(arguments["text"]))

    async def execute(self, arguments: dict[str, object], context: AgentContext) -> ToolResult:
        """Count them; here the arguments fit `parameters`."""
        self.calls += 1
        words = str(arguments["text"]).split()
        if len(words) > 4:
            raise ToolError("I can only count to four")
        return ToolResult.ok(str(len(words)))


class Shelf:
    """A memory: entries in a dict, found by the words that they share with the question.

    A vector database or a service would do the same behind these four methods. An entry's origin
    says whose words it holds, so that nothing from a page comes back as the user's wish.
    """

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}

    async def add(self, text: str, /, **metadata: Scalar) -> str:
        """Keep a text."""
        entry = Entry.of(uuid4().hex, text, **metadata)
        self.entries[entry.id] = entry
        return entry.id

    async def recall(
        self,
        query: str,
        *,
        limit: int = 5,
        threshold: float = 0.0,
        where: Mapping[str, Scalar] | None = None,
    ) -> Sequence[Recalled]:
        """Rank the entries by the part of the question's words that they contain."""
        words = set(query.lower().split())
        found = [
            Recalled(entry, len(words & set(entry.text.lower().split())) / len(words))
            for entry in self.entries.values()
            if _fits(entry, where or {})
        ]
        best = sorted(found, key=lambda each: each.score, reverse=True)
        return [each for each in best if each.score > threshold][:limit]

    async def forget(self, entry_id: str, /) -> bool:
        """Remove an entry."""
        return self.entries.pop(entry_id, None) is not None

    async def clear(self, **where: Scalar) -> int:
        """Remove the entries that fit."""
        gone = [entry.id for entry in self.entries.values() if _fits(entry, where)]
        return sum([await self.forget(id_) for id_ in gone])


def _fits(entry: Entry, where: Mapping[str, Scalar]) -> bool:
    values = {**entry.metadata, "origin": entry.origin, "session_id": entry.session_id}
    return all(values.get(name) == value for name, value in where.items())


class Checklist:
    """A planner: each text is counted, and then judged; if it can't be counted, by eye."""

    async def plan(self, goal: str, tools: ToolRegistry, context: str) -> Plan:
        """Plan without a model. What the memory knows about the goal is in the context."""
        count = Subtask(
            "count", "Count", tool="count_words", arguments={"text": goal}, critical=True
        )
        return Plan(goal, (count, Subtask("judge", "Are {count} words few?", after=("count",))))

    async def revise(self, run: PlanRun, failure: Failure) -> Plan:
        """Plan the remaining work."""
        return Plan(run.plan.goal, (Subtask("look", "Judge by eye whether the text is short."),))


async def main() -> None:
    """Use them together, once for each of two goals."""
    memory, counter = Shelf(), CountWords()
    llm = ScriptedProvider("Yes, few.", "It is short.", "No, it is not.", "It is long.")
    agent = plan_and_execute(llm, [counter], planner=Checklist(), memory=memory)
    for goal in ("The cat sat down", "The other cat sat down"):
        result = await agent.run(goal)
        print(f"{goal}: {result.output}")
        print(*(f"  {event.text}" for event in result.events if event.text), sep="\n")
    best, *_ = await memory.recall("the other cat")
    print(f"{counter.calls} calls, {len(memory.entries)} entries. {best.entry.text}")


if __name__ == "__main__":
    trio.run(main)
