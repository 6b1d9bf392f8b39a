"""Resolve several answers to one question with strategies.

A strategy gets the answers, in the order of the agents, and returns a `Resolution`, or None to
leave the decision to the next strategy. You can write your own: any function of the answers will
do, async or not.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from inspect import isawaitable
from statistics import median
from typing import TypeAlias

import msgspec
import trio

from greenroom.agents import Agent, AskPerson
from greenroom.core import ConfigurationError, ConflictError, TurnStatus, Wire, clip, serde
from greenroom.runtime import AgentInternals, spawn_subagent
from greenroom.session import AgentSession
from greenroom.teams.pattern import as_text

_VERIFY = """\
Agents were asked the same, and contradict each other. Check their answers, and say which one holds, in the \
words of that answer and nothing else. If none does, say what holds instead."""
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

    @classmethod
    def of(cls, agent: str, value: object) -> "AgentAnswer":
        """Return the answer in a turn's result, which may have the fields of an `Opinion`.

        Example:
            >>> AgentAnswer.of("ada", {"answer": "tabs", "confidence": 0.9, "reason": "width"}).value
            'tabs'
            >>> AgentAnswer.of("bob", "spaces").confidence is None
            True
        """
        try:
            opinion = msgspec.convert(value, Opinion)
        except msgspec.ValidationError:
            return cls(agent, value)
        return cls(agent, opinion.answer, opinion.confidence, opinion.reason)


class Resolution(Wire, frozen=True):
    """How several answers were resolved.

    Attributes:
        value: the final answer.
        decided_by: the name of the strategy that decided; "agreement" if all answers were the same.
        agents: the agents that gave this answer.
        overruled: the agents that gave another one.
        reason: why, if a person or an agent decided and gave a reason.
    """

    value: object
    decided_by: str
    agents: tuple[str, ...]
    overruled: tuple[str, ...] = ()
    reason: str = ""


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
    """Take the most confident answer; None if no agent states a confidence, or on a tie of different answers.

    A confidence outside 0 to 1 is ignored.

    Example:
        >>> most_confident([AgentAnswer("a", 1, 0.5), AgentAnswer("b", 2, 0.9)]).value
        2
    """
    said = [each.confidence for each in answers if each.confidence is not None]
    most = max((each for each in said if 0 <= each <= 1), default=math.nan)
    surest = [each for each in answers if each.confidence == most]
    if len({_key(each.value) for each in surest}) != 1:
        return None
    return _make_resolution(answers, surest[0].value, "most_confident")


def by_authority(answers: Sequence[AgentAnswer]) -> Resolution | None:
    """Take the first answer, since agents are in the order of their authority; None without answers.

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
        >>> near, far = [AgentAnswer("a", 30), AgentAnswer("b", "30.5 %")], [AgentAnswer("a", 30), AgentAnswer("b", 15)]
        >>> within(0.05)(near).value, within(0.05)(far)
        (30.25, None)
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
    """Let a person decide, who may choose one of the answers or give another one.

    The question is asked on behalf of the agent in whose turn this is called, like that of
    `AskPerson`. None if the person declines, or no person can be asked.

    Raises:
        ConflictError: this is not called in an agent.
    """
    options = list(dict.fromkeys(as_text(each.value) for each in answers))
    question: dict[str, object] = {
        "question": f"These answers contradict each other. Which one holds?\n{describe(answers)}",
        "options": options,
    }
    person = AskPerson()

    async def ask(agent: AgentInternals) -> str | None:
        answer = await person.ask(agent, question, "", "")
        said = answer.allowed and answer.message.strip()  # a plain yes is not an answer
        return person.result(question, answer).text if said else None

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
    """Return a strategy that lets an agent check the answers; its own answer wins, even if it is a new one.

    It is told each answer and its reason, and runs as a subagent of the agent in whose turn this is
    called. The strategy returns None if its turn does not complete.

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
    lines = (
        clip(
            f"- {each.agent}: {as_text(each.value)}{each.reason and f' ({each.reason})'}", _LONGEST
        )
        for each in answers
    )
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
    """Return a key that is the same for equal answers: 1.0 is 1, and the order of fields is ignored."""
    if isinstance(value, float):
        value = str(int(value) if value.is_integer() else value)
    text = value if isinstance(value, str) else serde.dumps(value, pretty=True).decode()
    return " ".join(text.split()).removesuffix(".").casefold()


def _number(value: object) -> float | None:
    """Return an answer as a number, if it is one, with or without a per cent sign."""
    try:
        number = float(as_text(value).strip().removesuffix("%"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None
