"""What type checkers see of an `Agent`; mypy reads this file, nothing runs it."""

from collections.abc import Sequence
from typing import assert_type

from greenroom import (
    Agent,
    AgentHandle,
    AgentResult,
    AgentRuntime,
    AgentSession,
    OutputChunk,
    PermissionRequest,
    RunContext,
)
from greenroom.agents._internal import AgentRun


class Database:
    """What tools work with."""


class Archive(Database):
    """A database, too."""


def about(context: RunContext[Database]) -> str:
    """Make instructions."""
    assert_type(context.deps, Database)
    return ""


async def about_number(context: RunContext[int]) -> str:
    """Make instructions of something else."""
    return str(context.deps)


def choose(context: RunContext[Database]) -> Sequence[object]:
    """Say which tools there are."""
    return [about]


plain = Agent("offline:")
typed = Agent("offline:", deps_type=Database, instructions=about, tools=choose)


def the_type_of_deps_is_everywhere_the_same() -> None:
    assert_type(plain, Agent[None, str])
    assert_type(typed, Agent[Database, str])
    Agent("offline:", deps_type=Archive, instructions=about)
    Agent("offline:", deps_type=Database, instructions=about_number)  # type: ignore[arg-type]
    Agent("offline:", deps_type=int, tools=choose)  # type: ignore[arg-type]


def agents_hand_off_to_those_of_their_deps() -> None:
    numbers = Agent("offline:", deps_type=Database, output_type=int)
    team = Agent("offline:", deps_type=Database, handoffs=[typed, numbers, "somebody"])
    assert_type(team, Agent[Database, str])
    assert_type(Agent("offline:", handoffs=[plain], capabilities=["German"]), Agent[None, str])
    Agent("offline:", deps_type=int, handoffs=[typed])  # type: ignore[misc]
    Agent("offline:", deps_type=Database, handoffs=[plain])  # type: ignore[misc]
    Agent("offline:", handoffs=[7])  # type: ignore[list-item]


async def runs_are_typed() -> None:
    result = await plain.run("Hi")
    assert_type(result, AgentResult[str])
    assert_type(result.output, str)
    await typed.run("Hi", deps=Database())
    await typed.run("Hi", deps=Archive())
    await typed.run("Hi", deps=7)  # type: ignore[arg-type]
    await plain.run("Hi", deps=7)  # type: ignore[arg-type]
    assert_type(typed.run_sync("Hi", deps=Database()).output, str)
    async with typed.stream("Hi", deps=Database()) as run:
        assert_type(run, AgentRun[str])
        async for chunk in run:
            assert_type(chunk, OutputChunk)
        async for piece in run.text():
            assert_type(piece, str)
        assert_type(run.result.output, str)


async def approve(request: PermissionRequest) -> bool:
    """Say yes."""
    return True


async def approve_text(request: PermissionRequest) -> str:
    """Say something else."""
    return "yes"


async def approval_is_typed() -> None:
    await plain.run("Hi", approve=approve)
    await plain.run("Hi", approve="later")
    await plain.run("Hi", approve=approve_text)  # type: ignore[arg-type]
    await plain.run("Hi", approve="sooner")  # type: ignore[arg-type]


def an_agent_is_an_agent_function(runtime: AgentRuntime) -> None:
    session = AgentSession.new("typed")
    assert_type(runtime.spawn(session, plain), AgentHandle)
    assert_type(runtime.spawn(session, typed, Database()), AgentHandle)
    runtime.spawn(session, typed, 7)  # type: ignore[arg-type]


class City:
    """What a run comes to."""


async def outputs_are_typed() -> None:
    cities = Agent("offline:", output_type=City)
    assert_type(cities, Agent[None, City])
    assert_type((await cities.run("Hi")).output, City)
    both = Agent("offline:", deps_type=Database, output_type=list[City])
    assert_type((await both.run("Hi", deps=Database())).output, list[City])
    either = Agent("offline:", output_type=City | int)
    assert_type(either.run_sync("Hi").output, City | int)
    wrong: int = (await cities.run("Hi")).output  # type: ignore[assignment]
    del wrong
