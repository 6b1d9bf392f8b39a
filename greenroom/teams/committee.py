"""`committee`: several agents that answer the same question, and one answer that comes of it."""

from collections.abc import Iterable
from dataclasses import dataclass

import trio
from msgspec import UNSET

from greenroom.core import (
    ConfigurationError,
    ConflictError,
    Message,
    TextComplete,
    TurnStatus,
    serde,
)
from greenroom.runtime import AgentInternals, TurnResult
from greenroom.teams.conflict import (
    AgentAnswer,
    Resolution,
    Strategy,
    majority,
    resolve,
    text_of,
)
from greenroom.teams.members import Member, ask_member
from greenroom.teams.worker import Worker

__all__ = ["Committee", "committee"]


def committee(
    agents: Iterable[Member],
    quorum: int | None = None,
    tie: Strategy | None = None,
    *,
    name: str = "committee",
    capabilities: Iterable[str] = (),
    description: str = "",
) -> "Committee":
    """Make an agent of several: it puts each input to all of them, and answers with what they agree on.

    All members are asked at once, each in a session of its own; where the agent has room for fewer
    subagents, the others wait for their turn. What more than half of those who have answered say holds, else what
    `tie` decides. The result of the turn is a `Resolution`, which says who has decided; its text is the
    answer alone.

    A member whose turn fails has not answered. The turn ends with a `ConflictError` where fewer than the
    quorum have answered, or where they contradict each other and nothing decides.

    Args:
        agents: the members, in the order of their authority. With `output_type=Opinion` an `Agent` says
            how sure it is, and why.
        quorum: how many have to answer; by default more than half of them.
        tie: decides where no answer has a majority, such as `by_authority` or `ask_person`.
        name: for people, logs, and a team of which it is a part.
        capabilities: what it is good at, for a team of which it is a part.
        description: the same for the model that plans there.

    Raises:
        ConfigurationError: there are no agents, one can't be called by its name, or the quorum can't be reached.

    Example:
        ```python
        jury = committee([senior, junior, reviewer], quorum=2, tie=by_authority)
        handle = runtime.spawn(AgentSession.new("jury"), jury)
        result = await handle.ask("Tabs or spaces?")
        print(result.text, result.value)
        ```
    """
    members = Worker.gather(agents)
    least = len(members) // 2 + 1 if quorum is None else quorum
    if not 1 <= least <= len(members):
        raise ConfigurationError(
            f"a quorum of {least} can't be reached by {len(members)} agents",
            hint=f"give a number from 1 to {len(members)}",
        )
    strategies = (majority,) if tie is None else (majority, tie)
    return Committee(members, least, strategies, name, tuple(capabilities), description)


@dataclass(frozen=True, eq=False)
class Committee:
    """The agent function that `committee` makes; a team may have it as one of its agents."""

    members: tuple[Worker, ...]
    quorum: int
    strategies: tuple[Strategy, ...]
    name: str
    capabilities: tuple[str, ...]
    description: str

    async def __call__(self, agent: AgentInternals) -> None:
        """Answer each input: the agent function."""
        async for message in agent.inputs():
            async with agent.turn(message) as turn:
                resolution = await self._decide(agent, message.text)
                text = text_of(resolution.value)
                agent.session.add_message(Message.assistant(text))
                await agent.send(TextComplete(text))
                turn.set_result(serde.loads(serde.encode(resolution)))

    async def _decide(self, agent: AgentInternals, question: str) -> Resolution:
        results = await self._ask(agent, question)
        answers = [
            AgentAnswer.of(name, result.text if result.value is UNSET else result.value)
            for name, result in results.items()
            if result.status is TurnStatus.COMPLETED
        ]
        if len(answers) < self.quorum:
            silent = (f"{name}: {each.error}" for name, each in results.items() if each.error)
            raise ConflictError(
                f"{len(answers)} of {len(self.members)} agents have answered, and the quorum is"
                f" {self.quorum} ({'; '.join(silent)})"
            )
        return await resolve(answers, *self.strategies)

    async def _ask(self, agent: AgentInternals, question: str) -> dict[str, TurnResult]:
        """Ask all members, and return how their turns ended, in their order."""
        results: dict[str, TurnResult] = {}

        async def ask(member: Worker) -> None:
            results[member.name] = await ask_member(agent, member.run, question, name=member.name)

        async with trio.open_nursery() as nursery:
            for member in self.members:
                nursery.start_soon(ask, member)
        return {member.name: results[member.name] for member in self.members}
