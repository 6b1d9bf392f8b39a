"""`Pattern`: several agents that run, nest and are delegated to like a single `Agent`."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

import trio
from msgspec import UNSET

from greenroom.agents import (
    Runnable,
    RunReport,
    check_depth,
    find_caller,
    find_cycle,
    to_json_value,
    track_turn,
)
from greenroom.core import (
    ConfigurationError,
    ContentBlock,
    ConversationInput,
    Message,
    TeamError,
    TextComplete,
    TurnStatus,
    UserInput,
    serde,
)
from greenroom.flow.members import Member, start_member
from greenroom.runtime import AgentHandle, AgentInternals, try_ask

Content: TypeAlias = str | Iterable[ContentBlock]
"""The input of a member: a text, or content blocks."""


@dataclass(frozen=True)
class TeamTurn:
    """One turn of a `Pattern`: its input, and methods to ask its members.

    Attributes:
        agent: the agent that runs the pattern; members are its subagents.
        message: the input.
        deps: the dependencies of the run, for members that are an `Agent` or a `Pattern`.
        report: warnings and other facts for the result of the run.
    """

    agent: AgentInternals
    message: ConversationInput
    deps: object
    report: RunReport = field(repr=False)

    @property
    def sender(self) -> str:
        """The sender of the input; empty for a person."""
        return self.message.sender if isinstance(self.message, UserInput) else ""

    @asynccontextmanager
    async def start_member(self, member: Member, name: str) -> AsyncIterator[AgentHandle]:
        """Start a member, and end it with the block, like `greenroom.flow.start_member`.

        Raises:
            TeamError: the member waits for the result of this turn itself.
        """
        if chain := find_cycle(member):
            raise TeamError(f"{name} can't be asked: it waits for this very answer ({chain})")
        function = partial(member, deps=self.deps) if isinstance(member, Runnable) else member
        async with start_member(self.agent, function, name=name) as handle:
            yield handle

    async def ask(self, member: Member, content: Content, *, name: str, sender: str = "") -> object:
        """Start a member, ask it, end it, and return its output.

        Raises:
            TeamError: its turn did not complete, or it can't be asked.
        """
        async with self.start_member(member, name) as handle:
            return await output_of(handle, content, name=name, sender=sender)

    async def ask_all(
        self, members: Mapping[str, Member], on_failure: Callable[[TeamError], None] | None = None
    ) -> dict[str, object]:
        """Pass the input to several members at once; return their outputs by name, in their order.

        Args:
            members: the members by name.
            on_failure: called with the error of each member that fails, whose output is then left
                out. By default a failure is raised, and ends the other members.

        Raises:
            TeamError: a member failed, and there is no `on_failure`.
        """
        outputs: dict[str, object] = {}

        async def ask(name: str) -> None:
            content = self.message.content
            try:
                output = await self.ask(members[name], content, name=name, sender=self.sender)
            except TeamError as error:
                if on_failure is None:
                    raise
                on_failure(error)
            else:
                outputs[name] = output

        async with trio.open_nursery() as nursery:
            for name in members:
                nursery.start_soon(ask, name)
        return {name: outputs[name] for name in members if name in outputs}


async def output_of(
    handle: AgentHandle, content: Content, *, name: str, sender: str = ""
) -> object:
    """Ask a member, and return its output: the result of its turn, or its text if it set no result.

    Raises:
        TeamError: its turn did not complete.
    """
    result = await try_ask(handle, content, sender=sender)
    if result.status is not TurnStatus.COMPLETED:
        why = f": {result.error}" if result.error else ""
        raise TeamError(f"{name} did not answer: its turn {result.status}{why}")
    return result.text if result.value is UNSET else result.value


Work: TypeAlias = Callable[[TeamTurn], Awaitable[object]]
"""Answers one input with several agents, and returns the output."""


class Pattern(Runnable[object, object]):
    """Several agents as an agent function that is run, nested and delegated to like an `Agent`.

    `pipeline` and others return patterns; you can write your own with a function. Each input is a
    turn, whose result is the return value of the function, with its text as the reply. The members
    are subagents that start fresh with each input and end with the turn: its budget, interrupts and
    denials apply to them.

    Args:
        name: the name for people, logs and models.
        work: an async function of a `TeamTurn` that returns the output.
        description: what it is good for, for a model that may call it (`as_tool`).
        capabilities: words for what it is good at, from which an orchestrator chooses an agent.

    Example:
        ```python
        async def relay(team: TeamTurn) -> object:
            facts = await team.ask(researcher, team.message.content, name="researcher")
            return await team.ask(writer, f"Facts: {facts}", name="writer")

        print(Pattern("relay", relay).run_sync("Cats.").output)
        ```
    """

    def __init__(
        self,
        name: str,
        work: Work,
        *,
        description: str = "",
        capabilities: Iterable[str] = (),
    ) -> None:
        """Take a function that answers one input.

        Raises:
            ConfigurationError: `capabilities` is a string instead of a list.
        """
        if isinstance(capabilities, str):
            hint = f"write capabilities=[{capabilities!r}]"
            raise ConfigurationError(f"capabilities is {capabilities!r}", hint=hint)
        self.name = name
        self.description = description
        self.capabilities = tuple(capabilities)
        self.deps_type = None  # each member checks its own
        self._work = work

    def __repr__(self) -> str:
        return f"<pattern {self.name}>"

    def _check_run(self, input: object, deps: object) -> None:  # noqa: A002 (the field's word for it)
        super()._check_run(input, deps)
        if input is None:
            raise ConfigurationError(
                f"{self.name} starts fresh with each input, and can't continue without one",
                hint="pass the input again, or use a Workflow, which can resume",
            )

    async def __call__(
        self, internals: AgentInternals, deps: object = None, report: RunReport | None = None
    ) -> None:
        """Answer each input: the agent function, for `runtime.spawn(session, pattern)`."""
        check_depth(self, find_caller(internals.context).agents)
        report = report or RunReport()
        async for message in internals.inputs():
            async with internals.turn(message) as turn:
                with track_turn(report, self, internals.context):
                    output = to_json_value(
                        await self._work(TeamTurn(internals, message, deps, report))
                    )
                    text = serde.to_text(output)
                    internals.session.add_message(Message.assistant(text))
                    await internals.send(TextComplete(text))
                    turn.set_result(output)
                    report.output = output
            report = RunReport()
