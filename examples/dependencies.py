"""Typed dependencies: a run passes what tools and instructions work with; nothing is global."""

from dataclasses import dataclass, field

from greenroom import Agent, RunContext
from greenroom.testing import ScriptedProvider, call


@dataclass
class Library:
    """What a librarian works with."""

    reader: str
    shelves: dict[str, int]
    lent: list[str] = field(default_factory=list)


def find(context: RunContext[Library], title: str) -> int | None:
    """Return the shelf of a book."""
    return context.deps.shelves.get(title)


async def lend(title: str, context: RunContext[Library]) -> str:
    """Lend a book to the reader."""
    context.deps.lent.append(title)
    return f"{title} is lent to {context.deps.reader} until Friday."


def instructions(context: RunContext[Library]) -> str:
    """Tell the model about the reader."""
    return f"You talk to {context.deps.reader}. {len(context.deps.lent)} books are lent."


script = call("find", title="Emma"), call("lend", title="Emma"), "It was on shelf 3. Enjoy it!"
llm = ScriptedProvider(*script)  # or "anthropic:claude-sonnet-5-5"
librarian = Agent(llm, instructions=instructions, tools=[find, lend], deps_type=Library)

library = Library("Ann", {"Emma": 3})
print(librarian.run_sync("Is Emma there?", deps=library).output)
print(library.lent)
print(*(request.system for request in llm.requests), sep="\n")

try:
    Agent(llm, tools=[find], deps_type=str)
except TypeError as error:
    print(error)
