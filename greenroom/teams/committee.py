"""`committee`: several agents that answer the same question and settle on one answer."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from greenroom.core import ConfigurationError, ConflictError, TeamError
from greenroom.teams.conflict import AgentAnswer, Strategy, majority, resolve
from greenroom.teams.members import Member, name_members
from greenroom.teams.pattern import Pattern, TeamTurn, as_text


def committee(
    agents: Iterable[Member],
    quorum: int | None = None,
    tie: Strategy | None = None,
    *,
    name: str = "committee",
    description: str = "",
    capabilities: Iterable[str] = (),
) -> Pattern:
    """Combine several agents: put each input to all of them, and answer with what they agree on.

    All members are asked at once; without room for all (`RuntimeLimits.subagents`), some wait. The
    answer of more than half of those who answered wins, else `tie` decides. The output is a
    `Resolution`, which names the strategy that decided.

    A member whose turn fails or whose answer is empty does not count. The turn ends with a
    `ConflictError` if fewer members than the quorum answer, or if they disagree and no strategy
    decides.

    Args:
        agents: the members, in the order of their authority. With `output_type=Opinion` an `Agent`
            states its confidence and reason.
        quorum: how many have to answer; by default more than half of them.
        tie: decides if no answer has a majority, such as `by_authority` or `ask_person`.
        name: the name for people, logs and models.
        description: what it is good for, for a model that may call it.
        capabilities: what it is good at, for an orchestrator.

    Raises:
        ConfigurationError: there are no agents, one has an invalid name, or the quorum can't be
            reached.
        TypeError: one of them is not an agent function.

    Example:
        >>> from greenroom import Agent
        >>> from greenroom.teams import by_authority, committee
        >>> from greenroom.testing import ScriptedProvider
        >>> senior = Agent(ScriptedProvider("tabs"), name="senior")
        >>> junior = Agent(ScriptedProvider("spaces"), name="junior")
        >>> jury = committee([senior, junior], tie=by_authority)
        >>> jury.run_sync("Tabs or spaces?").output["decided_by"]
        'by_authority'
    """
    members = name_members(agents)
    least = len(members) // 2 + 1 if quorum is None else quorum
    if not 1 <= least <= len(members):
        raise ConfigurationError(
            f"{len(members)} agents can't reach a quorum of {least}",
            hint=f"give a number from 1 to {len(members)}",
        )
    strategies = (majority,) if tie is None else (majority, tie)

    async def work(team: TeamTurn) -> object:
        answers = await _collect_answers(team, members, least)
        return msgspec.to_builtins(await resolve(answers, *strategies))

    return Pattern(name, work, description=description, capabilities=capabilities)


async def _collect_answers(
    team: TeamTurn, members: Mapping[str, Member], quorum: int
) -> Sequence[AgentAnswer]:
    """Put the input to all members, and return the answers in the members' order.

    Raises:
        ConflictError: fewer members than the quorum answered.
    """
    failures: list[TeamError] = []
    outputs = await team.ask_all(members, failures.append)
    reasons = [error.message for error in failures]
    answers: list[AgentAnswer] = []
    for name, output in outputs.items():
        if output is None or not as_text(output).strip():
            reasons.append(f"{name} gave an empty answer")
        else:
            answers.append(AgentAnswer.of(name, output))
    if len(answers) < quorum:
        raise ConflictError(
            f"{len(answers)} of {len(members)} agents answered, but the quorum is {quorum}"
            f" ({'; '.join(reasons)})"
        )
    return answers
