"""`RunContext` reaches tools, instructions and functions of tools; its type is checked early."""

import dataclasses
from typing import Annotated, Any, NewType, Optional, Protocol

import pytest
import trio

from greenroom import (
    Agent,
    AgentRuntime,
    AgentSession,
    ConfigurationError,
    InMemoryStore,
    RunContext,
    tool,
)
from greenroom.testing import ScriptedProvider, call


@dataclasses.dataclass
class Database:
    books: dict[str, int]


class Archive(Database):
    """A database, too."""


Shelves = NewType("Shelves", Database)


class HasBooks(Protocol):
    books: dict[str, int]


def find(context: RunContext[Database], title: str) -> str:
    """Find a book."""
    return f"shelf {context.deps.books[title]}, step {context.step}, {context.usage.total} tokens"


@tool(concurrent=False)
async def lend(title: str, ctx: RunContext[Database]) -> str:
    """Lend a book."""
    ctx.agent.progress("looking")
    return f"{ctx.deps.books.pop(title)} {ctx.agent.current_tool_use_id is not None}"


def librarian(*script, **options):
    return Agent(
        ScriptedProvider(*script), **{"tools": [find, lend], "deps_type": Database, **options}
    )


async def test_tools_get_it_and_the_model_does_not_see_it():
    bot = librarian([call("find", title="Emma"), call("lend", title="Emma")], "Here it is.")
    database = Database({"Emma": 3})
    result = await bot.run("Emma, please", deps=database)
    texts = [block.text for block in result.messages[2].tool_results]
    assert texts == ["shelf 3, step 1, 15 tokens", "3 True"]
    assert not database.books
    for definition in bot.llm.requests[0].tools:
        assert list(definition.parameters["properties"]) == ["title"]


async def test_it_has_the_conversation_so_far():
    def repeat(context: RunContext) -> str:
        """Say what was said."""
        return " | ".join(message.text or "a call" for message in context.history)

    bot = Agent(ScriptedProvider(call("repeat"), "Yes."), tools=[repeat])
    result = await bot.run("Do you listen?")
    assert [block.text for block in result.messages[2].tool_results] == ["Do you listen? | a call"]


async def test_instructions_are_made_anew_for_each_model_call():
    seen = []

    async def instructions(context: RunContext[Database]) -> str:
        await trio.lowlevel.checkpoint()
        seen.append((context.step, context.agent.agent_type))
        return f"There are {len(context.deps.books)} books."

    bot = librarian(call("lend", title="Emma"), "Done.", instructions=instructions)
    await bot.run("Emma!", deps=Database({"Emma": 3}))
    assert [request.system for request in bot.llm.requests] == [
        "There are 1 books.",
        "There are 0 books.",
    ]
    assert seen == [(1, "agent"), (2, "agent")]


async def test_tools_may_be_others_at_each_step():
    def tools(context: RunContext[Database]):
        return [find] if context.step == 1 else [find, lend]

    bot = librarian(call("lend", title="Emma"), call("lend", title="Emma"), "Done.", tools=tools)
    result = await bot.run("Emma!", deps=Database({"Emma": 3}))
    errors = [b.is_error for message in result.messages for b in message.tool_results]
    assert errors == [True, False]
    assert [len(request.tools) for request in bot.llm.requests] == [1, 2, 2]


async def test_tools_that_are_chosen_later_are_checked_then():
    def tools(context: RunContext[int]):
        return [find]

    with pytest.raises(TypeError, match="the tool find wants"):
        await Agent("offline:", tools=tools, deps_type=int).run("Hi", deps=7)


async def test_spawned_agents_get_deps_as_an_argument():
    async with AgentRuntime(store=InMemoryStore()) as runtime:
        bot = librarian(call("find", title="Emma"), "There.")
        handle = runtime.spawn(AgentSession.new("librarian"), bot, Database({"Emma": 3}))
        await handle.ask("Emma?")
        assert "shelf 3" in (await handle.history())[2].tool_results[0].text


async def test_two_runs_at_a_time_have_deps_of_their_own():
    bot = librarian(*[call("find", title="Emma")] * 2, "Here.", "Here.")
    found = []

    async def ask(shelf):
        result = await bot.run("Emma?", deps=Database({"Emma": shelf}))
        found.append(result.messages[2].tool_results[0].text[:7])

    async with trio.open_nursery() as nursery:
        for shelf in (1, 2):
            nursery.start_soon(ask, shelf)
    assert sorted(found) == ["shelf 1", "shelf 2"]


def wants(hint):
    def read(context, title: str) -> str:
        """Read."""
        return title

    read.__annotations__["context"] = hint
    return read


@pytest.mark.parametrize(
    ("deps_type", "hint"),
    [
        (Database, RunContext[Database]),
        (Archive, RunContext[Database]),
        (Database, RunContext[Database] | None),
        (Database, Annotated[RunContext[Database], "the shelves"]),
        (Database, RunContext[Database | int]),
        (Database, RunContext[HasBooks]),
        (Database, RunContext[Any]),
        (Database, RunContext),
        (dict[str, int], RunContext[dict[str, int]]),
        (Database | None, RunContext[Database | None]),
        (Optional[Database], RunContext[Database]),  # noqa: UP045 (what older code has)
        (Shelves, RunContext[Database]),
        (None, RunContext),
        (None, RunContext[None]),
        (None, RunContext[Database | None]),
        (None, RunContext[object]),
    ],
)
def test_deps_that_fit(deps_type, hint):
    assert Agent(
        "offline:", tools=[wants(hint), tool(name="again")(wants(hint))], deps_type=deps_type
    )


@pytest.mark.parametrize(
    ("deps_type", "hint"),
    [
        (Database, RunContext[Archive]),
        (Database, RunContext[int]),
        (Database, RunContext[int | str]),
        (None, RunContext[Database]),
        (Database, RunContext[None]),
        (int | None, RunContext[Database]),
    ],
)
def test_deps_that_do_not_fit_are_refused_when_the_agent_is_made(deps_type, hint):
    for each in (wants(hint), tool(wants(hint))):
        with pytest.raises(TypeError, match=r"the tool read wants RunContext\["):
            Agent("offline:", tools=[each], deps_type=deps_type)
    for what in ("instructions", "tools"):
        with pytest.raises(TypeError, match=f"{what}= wants"):
            Agent("offline:", deps_type=deps_type, **{what: wants(hint)})


@pytest.mark.parametrize("deps", [None, 7])
async def test_a_run_has_to_be_given_deps_of_that_type(deps):
    with pytest.raises(TypeError, match="wants deps of the type Database"):
        await librarian("Hi").run("Hi", deps=deps)


@pytest.mark.parametrize("deps_type", [Database | None, Optional[Database]])  # noqa: UP045
def test_deps_may_be_of_one_type_or_another(deps_type):
    agent = Agent(ScriptedProvider("Hello.", "Hello."), deps_type=deps_type)
    for deps in (Database({}), None):
        assert agent.run_sync("Hi", deps=deps).output == "Hello."
    with pytest.raises(TypeError, match=r"wants deps of the type .*Database.*, not 7"):
        agent.run_sync("Hi", deps=7)


async def test_a_function_that_is_no_choice_of_tools_is_told_so():
    with pytest.raises(ConfigurationError, match="takes no RunContext"):
        Agent("offline:", tools=lambda a, b: [])


async def test_outside_of_an_agent_a_tool_says_what_is_missing():
    from greenroom import ToolRegistry
    from greenroom.core import AgentContext

    registry = ToolRegistry([tool(find)])
    context = AgentContext(session_id="s-1", agent_type="demo")
    result = await registry.execute("find", {"title": "Emma"}, context)
    assert "only an Agent passes one" in result.text
