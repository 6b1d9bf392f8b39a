"""`Pattern`: several agents as one, which runs, nests and is delegated to like an `Agent`."""

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
    caller_of,
    check_depth,
    find_circle,
    note_turn,
    plain,
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
from greenroom.runtime import AgentHandle, AgentInternals, try_ask
from greenroom.teams.members import Member, start_member

Content: TypeAlias = str | Iterable[ContentBlock]
"""What a member is asked: a text, or content blocks."""


@dataclass(frozen=True)
class TeamTurn:
    """One turn of several agents as one: what they are asked, and how to ask them.

    Attributes:
        agent: the agent whose subagents they are.
        message: the input.
        deps: what the run was given, for those members that are an `Agent` or a `Pattern`.
        report: what the result of a run will say besides.
    """

    agent: AgentInternals
    message: ConversationInput
    deps: object
    report: RunReport = field(repr=False)

    @property
    def sender(self) -> str:
        """Who the input is from; empty for a person."""
        return self.message.sender if isinstance(self.message, UserInput) else ""

    @asynccontextmanager
    async def start_member(self, member: Member, name: str) -> AsyncIterator[AgentHandle]:
        """Start a member, and end it with the block; `greenroom.teams.start_member` says how.

        Raises:
            TeamError: it is one of the agents that wait for the result of this very turn.
        """
        if way := find_circle(member):
            raise TeamError(f"{name} can't be asked: it waits for this very answer ({way})")
        function = partial(member, deps=self.deps) if isinstance(member, Runnable) else member
        async with start_member(self.agent, function, name=name) as handle:
            yield handle

    async def ask(self, member: Member, content: Content, *, name: str, sender: str = "") -> object:
        """Start a member, ask it this, end it, and return its output.

        Raises:
            TeamError: its turn did not complete, or it can't be asked.
        """
        async with self.start_member(member, name) as handle:
            return await output_of(handle, content, name=name, sender=sender)

    async def ask_all(
        self, members: Mapping[str, Member], on_failure: Callable[[TeamError], None] | None = None
    ) -> dict[str, object]:
        """Pass the input to several members at once; return their outputs by name, in the members' order.

        Args:
            members: the members by name.
            on_failure: called with the error of each member that fails, whose output is then left out. By
                default a failure is raised, and ends the other members.

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
    """Ask a member, and return its output: the result of its turn, or its text where it has set none.

    Raises:
        TeamError: its turn did not complete.
    """
    result = await try_ask(handle, content, sender=sender)
    if result.status is not TurnStatus.COMPLETED:
        why = f": {result.error}" if result.error else ""
        raise TeamError(f"{name} has not answered: its turn {result.status}{why}")
    return result.text if result.value is UNSET else result.value


def as_text(output: object) -> str:
    """Return an output as what is said of it: a text as it is, anything else as JSON."""
    return output if isinstance(output, str) else serde.dumps(output).decode()


Work: TypeAlias = Callable[[TeamTurn], Awaitable[object]]
"""Answers one input with several agents, and returns the output."""


class Pattern(Runnable[object, object]):
    """Several agents as one: an agent function that is run, nested and delegated to like an `Agent`.

    Made by `pipeline` and the others; with a function of yours it is a pattern of yours. Each input is a
    turn, and its output is what the function returns: the result of the turn, and its text as the
    reply. The members are subagents, begin anew with each input, and end with the turn: its budget holds
    for all of them, its interrupt ends them, and what is denied to it is denied to them.

    Args:
        name: for people, logs and models.
        work: an async function of a `TeamTurn` that returns the output.
        description: what it is good for, for a model that may call it (`as_tool`).
        capabilities: words for what it is good at, by which an orchestrator chooses one of several agents.

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
            ConfigurationError: `capabilities` is one text, which stands for a word in a list.
        """
        if isinstance(capabilities, str):
            hint = f"write capabilities=[{capabilities!r}]"
            raise ConfigurationError(f"capabilities is {capabilities!r}", hint=hint)
        self.name = name
        self.description = description
        self.capabilities = tuple(capabilities)
        self.deps_type = None  # each of the members says what it wants
        self._work = work

    def __repr__(self) -> str:
        return f"<pattern {self.name}>"

    def _check_run(self, input: object, deps: object) -> None:  # noqa: A002 (the field's word for it)
        super()._check_run(input, deps)
        if input is None:
            raise ConfigurationError(
                f"{self.name} begins anew with each input, and does not go on without one",
                hint="give it the input again; what goes on where it was is a Workflow",
            )

    async def __call__(
        self, internals: AgentInternals, deps: object = None, report: RunReport | None = None
    ) -> None:
        """Answer each input: the agent function, for `runtime.spawn(session, pattern)`."""
        check_depth(self, caller_of(internals.context).agents)
        report = report or RunReport()
        async for message in internals.inputs():
            async with internals.turn(message) as turn:
                with note_turn(report, self, internals.context):
                    output = plain(await self._work(TeamTurn(internals, message, deps, report)))
                    text = as_text(output)
                    internals.session.add_message(Message.assistant(text))
                    await internals.send(TextComplete(text))
                    turn.set_result(output)
                    report.output = output
            report = RunReport()
