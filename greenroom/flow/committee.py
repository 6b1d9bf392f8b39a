"""`committee`: several agents answer one question, and strategies resolve their answers."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from greenroom.agents import Agent
from greenroom.core import ConfigurationError, TextBlock
from greenroom.core._internal import as_blocks, clip, serde
from greenroom.flow.errors import ConflictError, TeamError
from greenroom.flow.graph import is_count
from greenroom.flow.members import Member, name_members, name_of
from greenroom.flow.pattern import Pattern, TeamTurn
from greenroom.flow.strategies import (
    LONGEST_ANSWER,
    AgentAnswer,
    Resolution,
    Strategy,
    TrackRecord,
    describe,
    majority,
    resolve,
)

_EXPLAIN = """\
You have answered this: {}
The answers of all agents contradict each other:
{}
Explain how you came to your answer: on which data, with which steps and assumptions."""

_JUDGE = """\
Agents have answered this question, and contradict each other. Compare how they came to their \
answers, and find out which agents are wrong, and what they have to correct.
{}"""

_CORRECT = """\
You have answered this: {}
It was found to be wrong: {}
Answer again, with this corrected."""


class Ruling(msgspec.Struct, frozen=True):
    """Who is wrong, and why: what the arbiter of a committee answers.

    Attributes:
        wrong: the names of the agents whose answers are wrong.
        correction: what they have to correct.
    """

    wrong: tuple[str, ...]
    correction: str


def committee(
    *agents: Member,
    quorum: int | None = None,
    tie: Strategy | None = None,
    confidence: float = 0.0,
    arbiter: Member | None = None,
    record: TrackRecord | None = None,
    name: str = "committee",
    description: str = "",
    capabilities: Iterable[str] = (),
) -> Pattern[Resolution]:
    """Combine several agents: put each input to all of them, and answer with what they agree on.

    All members are asked at once, as far as there is room (`RuntimeLimits.subagents`). The answer
    of more than half of those who answered wins, else `tie` decides. If nothing decides, an
    `arbiter` settles it: each member explains its answer, the arbiter says who is wrong, and those
    answer once more. A member whose turn fails or whose answer is empty does not count.

    The output is a `Resolution`. The turn fails with a `ConflictError` if fewer members than the
    quorum answer, or if they disagree and nothing decides.

    Args:
        *agents: the members, in the order of their authority. With `output_type=Opinion` an `Agent`
            states its confidence and reason.
        quorum: how many have to answer; by default more than half of them.
        tie: decides if no answer has a majority, such as `by_authority` or `ask_person`.
        confidence: how sure the agents of a majority have to be on average, from 0 to 1; below, it
            is not taken, and `tie` decides.
        arbiter: says whose answer is wrong. An `Agent` is asked for that in its form; any other has
            to answer with the names that are `wrong`, a list, and a `correction`.
        record: learns from each resolution; a `TrackRecord` may be the `tie`, too.
        name: the name for people, logs and models.
        description: what it is good for, for a model that may call it.
        capabilities: what it is good at, for an orchestrator.

    Raises:
        ConfigurationError: there are no agents, one has an invalid name, the quorum can't be
            reached, or the confidence is not between 0 and 1.
        TypeError: one of them is not an agent function.

    Example:
        >>> from greenroom import Agent
        >>> from greenroom.flow import committee
        >>> from greenroom.flow.strategies import by_authority
        >>> from greenroom.testing import ScriptedProvider
        >>> senior = Agent(ScriptedProvider("tabs"), name="senior")
        >>> junior = Agent(ScriptedProvider("spaces"), name="junior")
        >>> jury = committee(senior, junior, tie=by_authority)
        >>> jury.run_sync("Tabs or spaces?").output.decided_by
        'by_authority'
    """
    members = name_members(agents)
    least = len(members) // 2 + 1 if quorum is None else quorum
    if not is_count(least) or least > len(members):
        raise ConfigurationError(
            f"{len(members)} agents can't reach a quorum of {least!r}",
            hint=f"give a number from 1 to {len(members)}",
        )
    if not 0 <= confidence <= 1:
        raise ConfigurationError(
            f"a confidence of {confidence!r}", hint="give a number from 0 to 1"
        )
    strategies = (majority,) if tie is None else (majority, tie)
    if isinstance(arbiter, Agent) and arbiter.output_type is str:
        arbiter = arbiter.replace_output(Ruling)

    async def work(team: TeamTurn) -> Resolution:
        answers = await _collect_answers(team, members, least)
        try:
            found = await resolve(answers, *strategies, confidence=confidence)
        except ConflictError:
            if arbiter is None:
                raise
            ruling = await _arbitrate(team, members, arbiter, answers)
            wrong = tuple(each.agent for each in answers if each.agent in ruling.wrong)
            answers = await _correct(team, members, ruling, answers)
            found = await resolve(answers, *strategies, confidence=confidence)
            found = replace(found, corrected=wrong, reason=found.reason or ruling.correction)
        if record is not None:
            record.learn(found)
        return found

    return Pattern(name, work, description=description, capabilities=capabilities)


async def _collect_answers(
    team: TeamTurn, members: Mapping[str, Member], quorum: int
) -> Sequence[AgentAnswer]:
    """Put the input to all members, and return the answers in the members' order."""
    failures: list[TeamError] = []
    outputs = await team.ask_all(members, failures.append)
    given = {name: output for name, output in outputs.items() if output is not None}
    said = {name: output for name, output in given.items() if serde.to_text(output).strip()}
    if len(said) < quorum:
        reasons = [error.message for error in failures]
        reasons += [f"{name} gave an empty answer" for name in outputs if name not in said]
        raise ConflictError(
            f"{len(said)} of {len(members)} agents answered, but the quorum is {quorum}"
            f" ({'; '.join(reasons)})"
        )
    return [AgentAnswer.of(name, output) for name, output in said.items()]


async def _arbitrate(
    team: TeamTurn, members: Mapping[str, Member], arbiter: Member, answers: Sequence[AgentAnswer]
) -> Ruling:
    """Have the members explain their answers, and the arbiter say who is wrong."""
    explained = []
    for each in answers:
        request = _EXPLAIN.format(_shorten(each.value), describe(answers))
        said = await _ask(team, members[each.agent], each.agent, request)
        why = AgentAnswer.of(each.agent, said)
        explained.append(replace(each, reason=why.reason or serde.to_text(why.value)))
    name = name_of(arbiter)
    output = await _ask(team, arbiter, name, _JUDGE.format(describe(explained)))
    try:
        return serde.convert(output, Ruling)
    except msgspec.ValidationError as error:
        raise TeamError(
            f"{name} gave no ruling: {error}",
            hint="have it answer with an object of `wrong`, a list of names, and `correction`",
        ) from None


async def _correct(
    team: TeamTurn, members: Mapping[str, Member], ruling: Ruling, answers: Sequence[AgentAnswer]
) -> Sequence[AgentAnswer]:
    """Have those answer again that are wrong; return all answers.

    Raises:
        TeamError: one of them does not answer.
    """
    corrected = []
    for each in answers:
        again = each
        if each.agent in ruling.wrong:
            request = _CORRECT.format(_shorten(each.value), _shorten(ruling.correction))
            output = await _ask(team, members[each.agent], each.agent, request)
            again = AgentAnswer.of(each.agent, output)
        corrected.append(again)
    return corrected


async def _ask(team: TeamTurn, member: Member, name: str, request: str) -> object:
    """Ask about the question of the turn, which comes first."""
    content = (*as_blocks(team.message.content), TextBlock(request))
    return await team.ask(member, content, name=name)


def _shorten(value: object) -> str:
    return clip(serde.to_text(value), LONGEST_ANSWER)
