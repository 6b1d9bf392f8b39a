"""What type checkers see of the public names; checked by mypy, never run."""

from typing import assert_type

from greenroom import (
    AgentContext,
    AgentHandle,
    AgentInternals,
    AgentRuntime,
    AgentSession,
    InterruptReport,
    Message,
    Outcome,
    OutputChunk,
    Receipt,
    ResourceMap,
    TurnResult,
)
from greenroom.runtime import spawn_subagent
from greenroom.runtime._internal import Supervisor


class Counter:
    """A resource."""


def resources_are_typed_by_their_class(resources: ResourceMap, context: AgentContext) -> None:
    assert_type(resources.get(Counter), Counter | None)
    assert_type(context.resources.remove(Counter), Counter | None)


async def greet(agent: AgentInternals, name: str, times: int = 1) -> None:
    """Be an agent with arguments of its own."""


def spawn_checks_the_arguments(runtime: AgentRuntime) -> None:
    session = AgentSession.new("greeter")
    assert_type(runtime.spawn(session, greet, "ada"), AgentHandle)
    assert_type(runtime.spawn(session, greet, "ada", 2), AgentHandle)
    runtime.spawn(session, greet, 7)  # type: ignore[arg-type]
    runtime.spawn(session, greet)  # type: ignore[arg-type]


def spawn_subagent_checks_them_too() -> None:
    session = AgentSession.new("greeter")
    assert_type(spawn_subagent(session, greet, "ada", scope="agent"), AgentHandle | None)
    spawn_subagent(session, greet, 7)  # type: ignore[arg-type]
    spawn_subagent(session, greet, "ada", scope="session")  # type: ignore[arg-type]


def a_supervisor_checks_them_too(runtime: AgentRuntime) -> None:
    supervisor = runtime.supervisor("rest_for_one")
    session = AgentSession.new("greeter")
    assert_type(supervisor.spawn(session, greet, "ada", restart="transient"), AgentHandle)
    assert_type(supervisor.supervisor(), Supervisor)
    supervisor.spawn(session, greet, 7)  # type: ignore[arg-type]
    supervisor.spawn(session, greet, "ada", restart="never")  # type: ignore[arg-type]
    runtime.supervisor("one_for_two")  # type: ignore[arg-type]


async def a_handle_says_what_it_gives(handle: AgentHandle) -> None:
    assert_type(await handle.ask("hi"), TurnResult)
    assert_type(await handle.send_input("hi"), Receipt)
    assert_type(await handle.interrupt(), InterruptReport)
    assert_type(await handle.wait(), Outcome)
    assert_type(await handle.history(), tuple[Message, ...])
    async with handle.subscribe() as chunks:
        async for chunk in chunks:
            assert_type(chunk, OutputChunk)
