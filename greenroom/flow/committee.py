"""`committee`: several agents answer one question, and strategies resolve their answers.

A strategy gets the answers, in the order of the agents, and returns a `Resolution`, or None to
leave the decision to the next strategy. You can write your own: any function of the answers will
do, async or not.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from inspect import isawaitable
from statistics import median
from typing import TypeAlias

import msgspec
import trio

from greenroom.agents import Agent, AskPerson
from greenroom.core import (
    ConfigurationError,
    ConflictError,
    TeamError,
    TurnStatus,
    Wire,
    clip,
    freeze_fields,
    serde,
)
from greenroom.flow.members import Member, name_members
from greenroom.flow.pattern import Pattern, TeamTurn
from greenroom.runtime import AgentInternals, spawn_subagent
from greenroom.session import AgentSession

_VERIFY = """\
Agents were asked the same question, and contradict each other. Check their answers. Reply with \
the correct one, word for word and nothing else. If none is correct, reply with the right answer."""
_LONGEST = 2000  # characters of an answer in a question about it


class Opinion(msgspec.Struct, frozen=True):
    """An answer with confidence and reason: an `output_type` for agents that should agree.

    Attributes:
        answer: the answer itself, as short as possible, so that it can be compared.
        confidence: how sure the agent is, from 0 to 1.
        reason: why, in a sentence or two.
    """

    answer: str
    confidence: float
    reason: str


class AgentAnswer(Wire, frozen=True):
    """The answer of one agent.

    Attributes:
        agent: its name.
        value: the answer, a JSON value.
        confidence: how sure the agent is, from 0 to 1, if it said so.
        reason: why, if it said so.
    """

    agent: str
    value: object
    confidence: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "value")

    @classmethod
    def of(cls, agent: str, value: object) -> "AgentAnswer":
        """Return the answer in a turn's result, which may have the fields of an `Opinion`.

        Example:
            >>> opinion = {"answer": "tabs", "confidence": 0.9, "reason": "width"}
            >>> AgentAnswer.of("ada", opinion).value
            'tabs'
            >>> AgentAnswer.of("bob", "spaces").confidence is None
            True
        """
        try:
            opinion = serde.convert(value, Opinion)
        except msgspec.ValidationError:
            return cls(agent, value)
        return cls(agent, opinion.answer, opinion.confidence, opinion.reason)


class Resolution(Wire, frozen=True):
    """How several answers were resolved.

    Attributes:
        value: the final answer.
        decided_by: the name of the strategy that decided; "agreement" if all answers are the same.
        agents: the agents that gave this answer.
        overruled: the agents that gave another one.
        reason: why, if a person or an agent decided and gave a reason.
    """

    value: object
    decided_by: str
    agents: tuple[str, ...]
    overruled: tuple[str, ...] = ()
    reason: str = ""

    def __post_init__(self) -> None:
        freeze_fields(self, "value")


Strategy: TypeAlias = Callable[
    [Sequence[AgentAnswer]], Resolution | Awaitable[Resolution | None] | None
]
"""A function of the answers that returns a `Resolution`, or None if it can't decide."""


async def resolve(answers: Sequence[AgentAnswer], *strategies: Strategy) -> Resolution:
    """Resolve several answers: if they differ, the first strategy that can decide does.

    Texts that differ only in case, white space or a full stop at the end are the same answer, and
    so are objects whose fields are in another order.

    Raises:
        ConflictError: there are no answers, or no strategy can decide; it lists the answers.

    Example:
        >>> import trio
        >>> answers = [AgentAnswer("ada", "tabs"), AgentAnswer("bob", "spaces", confidence=0.8)]
        >>> trio.run(resolve, answers, majority, most_confident).decided_by
        'most_confident'
    """
    if answers and len({_key(each.value) for each in answers}) == 1:
        return _make_resolution(answers, answers[0].value, "agreement")
    for strategy in strategies:
        found = strategy(answers)
        if isawaitable(found):
            found = await found
        if found is not None:
            return found
    raise ConflictError(
        f"{len(answers)} agents disagree, and no strategy decides: {describe(answers)}",
        hint="add a strategy that always decides, such as by_authority or ask_person",
    )


def majority(answers: Sequence[AgentAnswer]) -> Resolution | None:
    """Take the answer of more than half of the agents; None without a majority.

    Example:
        >>> majority([AgentAnswer("a", 1), AgentAnswer("b", 2), AgentAnswer("c", 1)]).overruled
        ('b',)
    """
    for each in answers:
        if 2 * sum(_key(other.value) == _key(each.value) for other in answers) > len(answers):
            return _make_resolution(answers, each.value, "majority")
    return None


def most_confident(answers: Sequence[AgentAnswer]) -> Resolution | None:
    """Take the most confident answer; None if no agent states a confidence, or two answers tie.

    A confidence outside 0 to 1 is ignored.

    Example:
        >>> most_confident([AgentAnswer("a", 1, 0.5), AgentAnswer("b", 2, 0.9)]).value
        2
    """
    stated = [each.confidence for each in answers if each.confidence is not None]
    most = max((each for each in stated if 0 <= each <= 1), default=math.nan)
    surest = [each for each in answers if each.confidence == most]
    if len({_key(each.value) for each in surest}) != 1:
        return None
    return _make_resolution(answers, surest[0].value, "most_confident")


def by_authority(answers: Sequence[AgentAnswer]) -> Resolution | None:
    """Take the first answer, as agents are in the order of their authority; None without answers.

    Example:
        >>> by_authority([AgentAnswer("senior", "tabs"), AgentAnswer("junior", "spaces")]).value
        'tabs'
    """
    return _make_resolution(answers, answers[0].value, "by_authority") if answers else None


def within(tolerance: float) -> Strategy:
    """Return a strategy that takes the median if all answers are numbers that are close together.

    Args:
        tolerance: the largest difference, as a fraction of the largest number, such as 0.05.

    Raises:
        ConfigurationError: the tolerance is negative, or not a number.

    Example:
        >>> near = [AgentAnswer("a", 30), AgentAnswer("b", "30.5 %")]
        >>> within(0.05)(near).value
        30.25
        >>> within(0.05)([AgentAnswer("a", 30), AgentAnswer("b", 15)])
    """
    if not tolerance >= 0:
        raise ConfigurationError(f"tolerance is {tolerance!r}", hint="0.05 means five per cent")

    def compare(answers: Sequence[AgentAnswer]) -> Resolution | None:
        found = [_number(each.value) for each in answers]
        numbers = [each for each in found if each is not None]
        if not numbers or len(numbers) < len(found):
            return None
        if max(numbers) - min(numbers) > tolerance * max(map(abs, numbers)):
            return None
        return Resolution(median(numbers), "within", tuple(each.agent for each in answers))

    return compare


async def ask_person(answers: Sequence[AgentAnswer]) -> Resolution | None:
    """Ask a person, who may choose one of the answers or give another one.

    The agent in whose turn this is called asks the question, as with `AskPerson`. None if the
    person declines, or no person can be asked.

    Raises:
        ConflictError: this is not called in an agent.
    """
    options = list(dict.fromkeys(serde.to_text(each.value) for each in answers))
    question: dict[str, object] = {
        "question": f"These answers contradict each other. Which is right?\n{describe(answers)}",
        "options": options,
    }
    person = AskPerson()

    async def ask(agent: AgentInternals) -> str | None:
        answer = await person.ask(agent, question, "", "")
        has_answer = answer.allowed and answer.message.strip()  # a mere yes is not an answer
        return person.result(question, answer).text if has_answer else None

    handle = spawn_subagent(AgentSession.new("question"), ask, report=False)
    if handle is None:
        raise ConflictError(
            "no person can be asked outside an agent", hint="call ask_person in an agent's turn"
        )
    try:
        words = (await handle.wait(check=True)).value
    finally:
        with trio.CancelScope(shield=True):
            await handle.shutdown(grace=0)
    return None if words is None else _make_resolution(answers, words, "ask_person")


def verify(agent: Agent[None, object]) -> Strategy:
    """Return a strategy by which an agent checks the answers and decides, also for another answer.

    The agent sees each answer and its reason, and runs as a subagent of the agent in whose turn
    this is called. The strategy returns None if its turn does not complete.

    Args:
        agent: the agent; with `output_type=Opinion` it also gives a reason.
    """

    async def check(answers: Sequence[AgentAnswer]) -> Resolution | None:
        result = await agent.run(f"{_VERIFY}\n{describe(answers)}")
        if result.status is not TurnStatus.COMPLETED:
            return None
        answer = AgentAnswer.of(agent.name, msgspec.to_builtins(result.output))
        return _make_resolution(answers, answer.value, "verify", answer.reason)

    return check


def describe(answers: Sequence[AgentAnswer]) -> str:
    """Describe the answers, each cut to a readable length.

    Continuation lines are indented, so that no answer can contain one of another agent.
    """
    lines = []
    for each in answers:
        reason = f" ({each.reason})" if each.reason else ""
        lines.append(clip(f"- {each.agent}: {serde.to_text(each.value)}{reason}", _LONGEST))
    return "\n".join("\n  ".join(line.splitlines()) for line in lines)


def _make_resolution(
    answers: Sequence[AgentAnswer], value: object, by: str, reason: str = ""
) -> Resolution:
    """Return the resolution for an answer, with the agents for and against it."""
    key = _key(value)
    same = [each for each in answers if _key(each.value) == key]
    return Resolution(
        same[0].value if same else value,
        by,
        tuple(each.agent for each in same),
        tuple(each.agent for each in answers if each not in same),
        reason,
    )


def _key(value: object) -> str:
    """Return a key that is the same for equal answers, such as 1.0 and 1."""
    if isinstance(value, float):
        value = str(int(value) if value.is_integer() else value)
    text = value if isinstance(value, str) else serde.dumps(value, pretty=True).decode()
    return " ".join(text.split()).removesuffix(".").casefold()


def _number(value: object) -> float | None:
    """Return an answer as a number, if it is one, with or without a per cent sign."""
    try:
        number = float(serde.to_text(value).strip().removesuffix("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def committee(
    *agents: Member,
    quorum: int | None = None,
    tie: Strategy | None = None,
    name: str = "committee",
    description: str = "",
    capabilities: Iterable[str] = (),
) -> Pattern[Resolution]:
    """Combine several agents: put each input to all of them, and answer with what they agree on.

    All members are asked at once; without room for all (`RuntimeLimits.subagents`), some wait. The
    answer of more than half of those who answered wins, else `tie` decides. The output is a
    `Resolution`, which names the strategy that decided.

    A member whose turn fails or whose answer is empty does not count. The turn ends with a
    `ConflictError` if fewer members than the quorum answer, or if they disagree and no strategy
    decides.

    Args:
        *agents: the members, in the order of their authority. With `output_type=Opinion` an `Agent`
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
        >>> from greenroom.flow import by_authority, committee
        >>> from greenroom.testing import ScriptedProvider
        >>> senior = Agent(ScriptedProvider("tabs"), name="senior")
        >>> junior = Agent(ScriptedProvider("spaces"), name="junior")
        >>> jury = committee(senior, junior, tie=by_authority)
        >>> jury.run_sync("Tabs or spaces?").output.decided_by
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

    async def work(team: TeamTurn) -> Resolution:
        answers = await _collect_answers(team, members, least)
        return await resolve(answers, *strategies)

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
        if output is None or not serde.to_text(output).strip():
            reasons.append(f"{name} gave an empty answer")
        else:
            answers.append(AgentAnswer.of(name, output))
    if len(answers) < quorum:
        raise ConflictError(
            f"{len(answers)} of {len(members)} agents answered, but the quorum is {quorum}"
            f" ({'; '.join(reasons)})"
        )
    return answers
