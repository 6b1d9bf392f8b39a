"""Strategies: how several answers to one question become one.

A strategy is a function of the answers, async or not, in the order of the agents. It returns a
`Resolution`, or None to leave the decision to the next one.
"""

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import isawaitable
from statistics import fmean, median
from typing import TypeAlias

import msgspec
import trio

from greenroom.agents import Agent, AskPerson
from greenroom.core import ConfigurationError, TurnStatus
from greenroom.core._internal import Wire, clip, freeze_fields, serde
from greenroom.flow.errors import ConflictError
from greenroom.flow.references import read_value
from greenroom.runtime import AgentInternals, spawn_subagent
from greenroom.session import AgentSession

_VERIFY = """\
Agents were asked the same question, and contradict each other. Check their answers. Reply with \
the correct one, word for word and nothing else. If none is correct, reply with the right answer."""
_VOTES = ("agreement", "majority")
_RECORD = "track_record"
LONGEST_ANSWER = 2000
"""How many characters of an answer a question about it has."""


class Opinion(msgspec.Struct, frozen=True):
    """An answer with confidence and reason: an `output_type` for agents that should agree.

    Attributes:
        answer: as short as possible, so that it can be compared.
        confidence: how sure the agent is, from 0 to 1.
        reason: why, in a sentence or two.
    """

    answer: str
    confidence: float
    reason: str


class AgentAnswer(Wire, frozen=True):
    """The answer of one agent, a JSON value; the other fields are those of an `Opinion`."""

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
        corrected: the agents that answered again, since the first answer was found wrong.
    """

    value: object
    decided_by: str
    agents: tuple[str, ...]
    overruled: tuple[str, ...] = ()
    reason: str = ""
    corrected: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        freeze_fields(self, "value")


Strategy: TypeAlias = Callable[
    [Sequence[AgentAnswer]], Resolution | Awaitable[Resolution | None] | None
]
"""A function of the answers that returns a `Resolution`, or None if it can't decide."""


async def resolve(
    answers: Mapping[str, object] | Sequence[AgentAnswer],
    *strategies: Strategy,
    confidence: float = 0.0,
) -> Resolution:
    """Resolve several answers: if they differ, the first strategy that can decide does.

    Texts that differ only in case, white space or a full stop at the end are the same answer, and
    so are objects whose fields are in another order.

    Args:
        answers: what each agent answers, by name, in the order of their authority: a JSON value,
            or an `Opinion`.
        *strategies: the strategies.
        confidence: how sure the agents of a vote (all of them, or a majority) have to be, on
            average of those that say so, from 0 to 1. Below, the next strategy decides.

    Raises:
        ConflictError: there are no answers, or no strategy can decide; it lists the answers.

    Example:
        >>> import trio
        >>> answers = {"ada": "tabs", "bob": Opinion("spaces", 0.8, "as most do")}
        >>> trio.run(resolve, answers, majority, most_confident).decided_by
        'most_confident'
    """
    if isinstance(answers, Mapping):
        answers = [AgentAnswer.of(agent, value) for agent, value in answers.items()]
    for strategy in (_agreement, *strategies):
        found = strategy(answers)
        if isawaitable(found):
            found = await found
        if found and (found.decided_by not in _VOTES or _is_sure(found, answers, confidence)):
            return found
    raise ConflictError(
        f"{len(answers)} agents disagree or are unsure, and no strategy decides:"
        f" {describe(answers)}",
        hint="add a strategy that always decides, such as by_authority or ask_person",
    )


def _agreement(answers: Sequence[AgentAnswer]) -> Resolution | None:
    """Take the answer that all agents give."""
    is_same = len({_key(each.value) for each in answers}) == 1
    return _make_resolution(answers, answers[0].value, "agreement") if is_same else None


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


def _is_sure(found: Resolution, answers: Sequence[AgentAnswer], least: float) -> bool:
    stated = (each.confidence for each in answers if each.agent in found.agents)
    known = [each for each in stated if each is not None and 0 <= each <= 1]
    return not known or fmean(known) >= least


def by_authority(answers: Sequence[AgentAnswer]) -> Resolution | None:
    """Take the first answer: agents are in the order of their authority; None without answers."""
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
    question: dict[str, object] = {
        "question": f"These answers contradict each other. Which is right?\n{describe(answers)}",
        "options": list(dict.fromkeys(serde.to_text(each.value) for each in answers)),
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
    """Return a strategy by which an agent checks the answers and decides, even for another answer.

    The agent sees the answers with their reasons, as a subagent of the agent in whose turn this is
    called; with `output_type=Opinion` it gives a reason, too. None if its turn does not complete.
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
    reasons = (f" ({each.reason})" if each.reason else "" for each in answers)
    lines = (
        f"- {each.agent}: {serde.to_text(each.value)}{reason}"
        for each, reason in zip(answers, reasons, strict=True)
    )
    return "\n".join("\n  ".join(clip(line, LONGEST_ANSWER).splitlines()) for line in lines)


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


class TrackRecord:
    """How often each agent was right; a strategy that takes the answer of the best one.

    It learns from resolutions in which somebody else decided. It can't decide while agents with
    different answers are equally good.

    Args:
        right: how often each agent's answer was taken, from an earlier record.
        wrong: how often it was overruled.

    Example:
        >>> record = TrackRecord()
        >>> record.learn(Resolution("spaces", "ask_person", ("bob",), ("ada",)))
        >>> record([AgentAnswer("ada", "tabs"), AgentAnswer("bob", "spaces")]).value
        'spaces'
    """

    def __init__(
        self, right: Mapping[str, int] | None = None, wrong: Mapping[str, int] | None = None
    ) -> None:
        self.right = Counter(right or {})
        self.wrong = Counter(wrong or {})

    def score(self, agent: str) -> float:
        """Return how likely an agent is right, from 0 to 1; 0.5 if nothing is known of it."""
        right, wrong = self.right[agent], self.wrong[agent]
        return (right + 1) / (right + wrong + 2)

    def learn(self, resolution: Resolution) -> None:
        """Count who was right and who was wrong, unless all agreed or this record decided."""
        if resolution.overruled and resolution.decided_by != _RECORD:
            self.right.update(resolution.agents)
            self.wrong.update((*resolution.overruled, *resolution.corrected))

    def __call__(self, answers: Sequence[AgentAnswer]) -> Resolution | None:
        """Take the answer of the agent with the highest score."""
        best = max((self.score(each.agent) for each in answers), default=0.0)
        values = [each.value for each in answers if self.score(each.agent) == best]
        is_one = len(set(map(_key, values))) == 1
        return _make_resolution(answers, values[0], _RECORD) if is_one else None


class Contradiction(Wire, frozen=True):
    """A fact, and what several results say about it, by the name of the agent or subtask."""

    fact: str
    values: dict[str, object]

    def __post_init__(self) -> None:
        freeze_fields(self, "values")

    def __str__(self) -> str:
        said = (
            f"{clip(serde.to_text(value), 200)} [{name}]" for name, value in self.values.items()
        )
        return f"{self.fact}: {', '.join(said)}"


def find_contradictions(
    results: Mapping[str, object], facts: Mapping[str, float]
) -> tuple[Contradiction, ...]:
    """Compare what several results say about the same facts.

    Args:
        results: JSON values or texts by name. Those that don't have a fact are not compared.
        facts: fields of the results, such as `trend` or `sea.trend`, each with a tolerance as in
            `within`: how far numbers may differ; 0 if they have to be the same.

    Raises:
        ConfigurationError: a tolerance is negative, or not a number.

    Example:
        >>> results = {"analysis": {"trend": 30}, "chart": {"trend": "15 %"}, "text": "It is warm."}
        >>> print(*find_contradictions(results, {"trend": 0.05}))
        trend: 30 [analysis], 15 % [chart]
    """
    found = []
    for fact, compare in [(fact, within(tolerance)) for fact, tolerance in facts.items()]:
        said = {name: _get_fact(result, fact) for name, result in results.items()}
        answers = [AgentAnswer(name, value) for name, value in said.items() if value is not None]
        if answers and _agreement(answers) is None and compare(answers) is None:
            found.append(Contradiction(fact, {each.agent: each.value for each in answers}))
    return tuple(found)


def _get_fact(value: object, fact: str) -> object:
    for field in fact.split("."):
        value = read_value(value) if isinstance(value, str) else value
        value = value.get(field) if isinstance(value, Mapping) else None
    return value
