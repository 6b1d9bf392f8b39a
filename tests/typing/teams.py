"""What type checkers make of teams; nothing here runs."""

from typing import assert_type

from greenroom import Agent, AgentInternals, AgentResult, RunContext
from greenroom.flow import Pattern, TeamTurn, handoff_team, loop, parallel, pipeline
from greenroom.flow._internal import WrappedAgent


def who(context: RunContext[str]) -> str:
    """Say who."""
    return context.deps


async def function(agent: AgentInternals) -> None: ...


async def work(team: TeamTurn) -> object:
    return await team.ask(function, team.message.content, name="function")


plain = Agent("offline:")
typed = Agent("offline:", deps_type=str, output_type=int)


async def patterns() -> None:
    team = pipeline(
        plain, typed, function, parallel(plain, join=len), loop(typed, lambda n: n == 1)
    )
    assert_type(team, Pattern)
    assert_type(await team.run("x", deps="ada"), AgentResult[object])
    assert_type(Pattern("mine", work).run_sync("x").output, object)


async def handoffs() -> None:
    assert_type(handoff_team(plain, pipeline(plain)), WrappedAgent[None, object])
    team = handoff_team(typed, typed)
    assert_type(team, WrappedAgent[str, object])
    await team.run("x", deps="ada")
    await team.run("x", deps=1)  # type: ignore[arg-type]
    handoff_team(plain, typed)  # type: ignore[misc]
