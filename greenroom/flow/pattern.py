"""`Pattern`: several agents that run, nest and are delegated to like a single `Agent`."""

import inspect
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from typing_extensions import TypeVar

from greenroom.agents import Runnable
from greenroom.agents._internal import (
    RunReport,
    check_depth,
    find_caller,
    find_cycle,
    is_answered,
    read_capabilities,
    to_json_value,
    track_turn,
)
from greenroom.core import BudgetExceededError, Message, TextComplete, UserInput
from greenroom.core._internal import ConversationInput, leaves, serde
from greenroom.flow.errors import TeamError
from greenroom.flow.members import Member, bind_deps
from greenroom.flow.references import read_value
from greenroom.flow.resume import Content, find_input
from greenroom.flow.talk import MemberLog, Talk
from greenroom.runtime import AgentInternals
from greenroom.runtime._internal import run_each
from greenroom.session import AgentSession

OutputT_co = TypeVar("OutputT_co", default=object, covariant=True)


@dataclass(frozen=True)
class TeamTurn:
    """One turn of several agents: its input, and methods to ask its members.

    Attributes:
        agent: the agent that runs the team; members are its subagents.
        message: the input; in a turn that goes on after it was cut off, the one it began with.
        deps: the dependencies of the run, for members that are a `Runnable`.
        report: warnings and other facts for the result of the run.
        was_answered: whether the input before this one was answered, so that nothing is left to do.
        goes_on: whether the input says no more than to go on.
    """

    agent: AgentInternals
    message: ConversationInput
    deps: object
    report: RunReport = field(repr=False)
    was_answered: bool = True
    goes_on: bool = False

    @property
    def sender(self) -> str:
        """The sender of the input; empty for a person."""
        return self.message.sender if isinstance(self.message, UserInput) else ""

    @cached_property
    def log(self) -> MemberLog:
        """The members that were asked, which are not asked again if the turn was cut off."""
        return MemberLog(self.agent.session, goes_on=self.goes_on and not self.was_answered)

    @asynccontextmanager
    async def talk_to(self, member: Member, name: str) -> AsyncIterator[Talk]:
        """Ask a member several times in one conversation, which ends with the block.

        Raises:
            TeamError: the member waits for the result of this turn itself.
        """
        if chain := find_cycle(member):
            raise TeamError(f"{name} can't be asked: it waits for this very answer ({chain})")
        async with AsyncExitStack() as stack:
            yield Talk(self.agent, self.log, bind_deps(member, self.deps), name, stack)

    async def ask(self, member: Member, content: Content, *, name: str, sender: str = "") -> object:
        """Start a member, ask it, end it, and return its output.

        Raises:
            TeamError: its turn did not complete, or it can't be asked.
        """
        async with self.talk_to(member, name) as talk:
            return await talk.ask(content, sender)

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
            BudgetExceededError: a budget of the team is spent.
        """
        outputs: dict[str, object] = {}
        _ = self.log  # its beginning comes before the members'
        left = deque(members)

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

        failure: BaseException | None = None
        try:
            await run_each(lambda: left.popleft() if left else None, ask, len(members))
        except* (TeamError, BudgetExceededError) as failed:
            # Where a budget is spent, that is why the others failed.
            failure = min(leaves(failed), key=lambda error: isinstance(error, TeamError))
        if failure is not None:
            raise failure
        return {name: outputs[name] for name in members if name in outputs}


async def answer_inputs(
    runnable: Runnable[object, object],
    internals: AgentInternals,
    work: "Work[object]",
    *,
    deps: object = None,
    report: RunReport | None = None,
) -> None:
    """Answer each input of an agent with what a function of the turn returns.

    The output is the result of the turn, and its text the reply, unless the function has replied
    itself. A turn that was cut off goes on if the next input says so, as that of `run(None)` does.

    Args:
        runnable: the team, for chains of agents that wait for each other.
        internals: given by the runtime.
        work: the function.
        deps: the dependencies of the run.
        report: collects what chunks don't say about the turn.

    Raises:
        ConfigurationError: agents are nested too deep.
    """
    check_depth(runnable, find_caller(internals.context).agents)
    report = report or RunReport()
    async for message in internals.inputs():
        was_answered = is_answered(internals.session)
        async with internals.turn(message) as turn:
            with track_turn(report, runnable, internals.context):
                given = find_input(internals.session, message)
                goes_on = given is not message
                made = TeamTurn(internals, given, deps, report, was_answered, goes_on)
                output = await _check_async(work(made), runnable.name)
                value = to_json_value(output)
                if not is_answered(internals.session):
                    text = serde.to_text(value)
                    internals.session.add_message(Message.assistant(text))
                    await internals.send(TextComplete(text))
                turn.set_result(value)
                report.output = output
        report = RunReport()


def _check_async(answer: Awaitable[object], name: str) -> Awaitable[object]:
    """Refuse what a function returned that is not async."""
    if not inspect.isawaitable(answer):
        raise TypeError(f"the function of {name} is not async: write `async def`")
    return answer


Work: TypeAlias = Callable[[TeamTurn], Awaitable[OutputT_co]]
"""Answers one input with several agents, and returns the output."""


class Pattern(Runnable[object, OutputT_co]):
    """Several agents as an agent function that is run, nested and delegated to like an `Agent`.

    `pipeline` and others return patterns; you can write your own with a function. Each input is a
    turn, whose result is the return value of the function, with its text as the reply. The members
    are subagents that start fresh with each input and end with the turn: its budget, interrupts and
    denials apply to them.

    The session records what each member has answered. `run(None, session=id)` goes on with a turn
    that was cut off: the function runs again from its beginning, and members that have answered
    give the same output without being asked.

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
        work: Work[OutputT_co],
        *,
        description: str = "",
        capabilities: Iterable[str] = (),
    ) -> None:
        """Take a function that answers one input.

        Raises:
            ConfigurationError: `capabilities` is not a list of words.
        """
        self.name = name
        self.description = description
        self.capabilities = read_capabilities(capabilities)
        self.deps_type = None  # each member checks its own
        self._work = work

    def __repr__(self) -> str:
        return f"<pattern {self.name}>"

    def read_answer(self, session: AgentSession) -> object:
        """Return the output in a session whose last input was answered, else `msgspec.UNSET`."""
        answer = super().read_answer(session)
        return read_value(answer) if isinstance(answer, str) else answer

    async def __call__(
        self, internals: AgentInternals, deps: object = None, report: RunReport | None = None
    ) -> None:
        """Answer each input: the agent function, for `runtime.spawn(session, pattern)`."""
        await answer_inputs(self, internals, self._work, deps=deps, report=report)
