"""Evaluations: an agent runs cases, a few at once, and checks judge its results."""

import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from inspect import isawaitable
from itertools import chain, count
from textwrap import shorten
from typing import Generic, TypeAlias

import trio
from msgspec.structs import replace
from typing_extensions import TypeVar

from greenroom.agents import AgentResult, Runnable
from greenroom.core import (
    BudgetExceededError,
    ConfigurationError,
    ContentBlock,
    TextBlock,
    TurnStatus,
)
from greenroom.core._internal import is_async, leaves, strip_partials
from greenroom.resilience import Budget
from greenroom.runtime._internal import run_each
from greenroom.testing.evaluation import Case, Evaluation, EvaluationRow, ExpectedT

OutputT = TypeVar("OutputT", default=str)

_LONGEST_NAME = 80  # characters
_LONGEST_ERROR = 500

Check: TypeAlias = Callable[
    [Case[ExpectedT], AgentResult[OutputT]], bool | float | Awaitable[bool | float]
]
"""A function, async or not, of a case and the result of a run that completed."""

RunCase: TypeAlias = Callable[[Case[ExpectedT]], Awaitable[AgentResult[OutputT]]]
"""An async function that runs an agent for a case."""

_Run: TypeAlias = tuple[int, str, int, Case[ExpectedT]]  # place, name and number of the case


async def evaluate(
    agent: Runnable[None, OutputT] | RunCase[ExpectedT, OutputT],
    cases: Iterable[Case[ExpectedT]],
    checks: Iterable[Check[ExpectedT, OutputT]] = (),
    *,
    repeat: int = 1,
    concurrency: int = 4,
    budget: Budget | None = None,
    on_row: Callable[[EvaluationRow], object] | None = None,
) -> Evaluation:
    """Run an agent for each case, judge the results by the checks, and return all as rows.

    What goes wrong in a run or a check is in its row, and the others go on: an error of a model, a
    limit that was reached, an interrupt, a bug in a check. A run has a session of its own, in
    memory; nobody is asked, so a call that would need a person is denied. In a tool call or task of
    an agent, the runs are its subagents.

    Args:
        agent: an `Agent` or another `Runnable`; or an async function that runs one for a case and
            returns its result, for deps, answers to questions, or a session that begins in the
            middle.
        cases: the cases; those with equal names are numbered.
        checks: functions of a case and a result, async or not. True and False say whether it
            passed; a number is a score, which is averaged and fails nothing. They run in the event
            loop: what blocks belongs into a thread. A result that has no output gets no check.
        repeat: how often each case is run.
        concurrency: the most runs at once, each with its checks.
        budget: limits for all runs together. When it is spent, the runs in progress end, no other
            begins, and the rows of both say so (`is_finished`). Its `seconds` also end checks.
        on_row: called with each row as soon as it is there, to show it or to keep it: a cancel or
            Ctrl-C ends the evaluation, and its rows are gone, except those. Rows come in the order
            in which runs end. `rows.append` will do; it is not async, runs in the event loop, and
            what it raises ends the evaluation.

    Returns:
        A row for each run, in the order of the cases.

    Raises:
        ConfigurationError: there is no case, a number is below 1, `on_row` is async, or a function
            is to run the agent under a budget, which is the function's to pass on.
        TypeError: something that is no case, or no function, was given.

    Example:
        >>> from greenroom import Agent
        >>> from greenroom.testing import Case, ScriptedProvider, evaluate
        >>> def exact(case, result):
        ...     return result.output == case.expected
        >>> agent = Agent(ScriptedProvider("4", "Rome"))
        >>> cases = [Case("2 + 2", expected="4"), Case("The capital of France?", expected="Paris")]
        >>> evaluation = trio.run(lambda: evaluate(agent, cases, [exact], concurrency=1))
        >>> print(evaluation.table())
        case                    passed  exact
        2 + 2                      1/1   1.00
        The capital of France?     0/1   0.00
        all                        1/2   0.50
    """
    for what, given in (("repeat", repeat), ("concurrency", concurrency)):
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            raise ConfigurationError(f"{what} is {given!r}", hint="give a whole number, 1 or more")
    if is_async(on_row):
        raise ConfigurationError(
            "on_row is an async function, which nobody would wait for",
            hint="hand the row over to a task of yours: `send_nowait` of a memory channel",
        )
    named = _name_cases(cases)
    each = ((name, number, case) for name, case in named for number in range(1, repeat + 1))
    runs = [(at, *run) for at, run in enumerate(each)]
    rows: list[EvaluationRow | None] = [None] * len(runs)
    judge = _Judge(_make_run(agent, budget), _name_checks(checks), budget)
    waiting = iter(runs)

    async def work(run: _Run[ExpectedT]) -> None:
        at, name, number, case = run
        row = rows[at] = await judge.judge(case, name, number)
        if on_row is not None:
            on_row(row)

    if budget is not None:
        budget.start()
    await run_each(lambda: next(waiting, None), work, concurrency)
    return Evaluation(tuple(row for row in rows if row is not None))


class _Judge(Generic[ExpectedT, OutputT]):
    """Makes the row of each run."""

    def __init__(
        self,
        run: RunCase[ExpectedT, OutputT],
        checks: Sequence[tuple[str, Check[ExpectedT, OutputT]]],
        budget: Budget | None,
    ) -> None:
        self._run = run
        self._checks = checks
        self._budget = budget

    async def judge(self, case: Case[ExpectedT], name: str, number: int) -> EvaluationRow:
        """Run a case once, and let the checks judge the result."""
        if spent := self._describe_spent():
            return EvaluationRow(name, number, error=spent, is_finished=False)
        start = trio.current_time()
        try:
            result = await self._run(case)
            _check_result(result)
        except Exception as error:  # noqa: BLE001 (of functions that are not ours)
            seconds = trio.current_time() - start
            return EvaluationRow(name, number, error=_describe(error), seconds=seconds)
        row = EvaluationRow(
            name,
            number,
            text=result.text,
            usage=result.usage,
            steps=result.steps,
            seconds=trio.current_time() - start,
            messages=result.messages,
        )
        if result.status is TurnStatus.COMPLETED:
            return await self._score(row, case, result)
        is_finished = not (isinstance(result.error, BudgetExceededError) and self._describe_spent())
        why = _describe(result.error) if result.error else f"the run is {result.status}"
        return replace(row, error=why, is_finished=is_finished)

    async def _score(
        self, row: EvaluationRow, case: Case[ExpectedT], result: AgentResult[OutputT]
    ) -> EvaluationRow:
        scores: dict[str, bool | float] = {}
        errors: list[str] = []
        deadline = math.inf if self._budget is None else self._budget.deadline
        with trio.CancelScope(deadline=deadline) as time:
            for name, check in self._checks:
                try:
                    scores[name] = await _score(check, case, result)
                except Exception as error:  # noqa: BLE001 (of functions that are not ours)
                    errors.append(f"{name}: {_describe(error)}")
        if time.cancelled_caught:
            errors.append(self._describe_spent())
        is_finished = not time.cancelled_caught
        return replace(row, scores=scores, error="; ".join(errors), is_finished=is_finished)

    def _describe_spent(self) -> str:
        spent = self._budget.describe_spent() if self._budget else ""
        return f"the budget is spent: {spent}" if spent else ""


async def _score(
    check: Check[ExpectedT, OutputT], case: Case[ExpectedT], result: AgentResult[OutputT]
) -> bool | float:
    """Return what a check says.

    Raises:
        TypeError: it returned something else than a truth value or a number.
        ValueError: the number is none.
    """
    given = check(case, result)
    score: object = await given if isawaitable(given) else given
    if isinstance(score, bool):
        return score
    if not isinstance(score, int | float):
        raise TypeError(f"it returned {score!r}, which is neither True, False nor a number")
    if not math.isfinite(score):
        raise ValueError(f"it returned {score!r}")
    return float(score)


def _make_run(
    agent: Runnable[None, OutputT] | RunCase[ExpectedT, OutputT], budget: Budget | None
) -> RunCase[ExpectedT, OutputT]:
    if isinstance(agent, Runnable):

        async def run(case: Case[ExpectedT]) -> AgentResult[OutputT]:
            return await agent.run(case.input, budget=budget)

        return run
    if not callable(agent):
        raise TypeError(f"{agent!r} is neither an agent nor a function of a case")
    if budget is not None:
        raise ConfigurationError(
            "the budget can't be passed to a function",
            hint="write budget=… where it runs the agent, with the same Budget for all cases",
        )
    return agent


def _name_cases(cases: Iterable[Case[ExpectedT]]) -> list[tuple[str, Case[ExpectedT]]]:
    """Give each case its own name, by which it is found in an earlier evaluation."""
    if isinstance(cases, Case):
        raise TypeError("cases are several: write [case]")
    given = list(cases)
    if not given:
        raise ConfigurationError("there is no case", hint='write [Case("What is two and two?")]')
    for case in given:
        if not isinstance(case, Case):
            raise TypeError(f"{case!r} is not a case: write Case(input)")
    return list(zip(_number(map(_name_case, given)), given, strict=True))


def _name_case(case: Case[ExpectedT]) -> str:
    blocks = case.input if not isinstance(case.input, str) else ()
    text = case.input if isinstance(case.input, str) else "".join(map(_text_of, blocks))
    lines = (case.name or text).split()
    return shorten(" ".join(lines), _LONGEST_NAME, placeholder="…") or "case"


def _text_of(block: ContentBlock) -> str:
    return block.text if isinstance(block, TextBlock) else ""


def _name_checks(
    checks: Iterable[Check[ExpectedT, OutputT]],
) -> list[tuple[str, Check[ExpectedT, OutputT]]]:
    if callable(checks):
        raise TypeError("checks are several: write [check]")
    given = list(checks)
    for check in given:
        if not callable(check):
            raise TypeError(f"{check!r} is not a check: write a function of a case and a result")
    names = _number(map(_name_check, given))
    return list(zip(names, given, strict=True))


def _name_check(check: object) -> str:
    check = strip_partials(check)
    return str(getattr(check, "__name__", type(check).__name__))


def _number(names: Iterable[str]) -> Iterator[str]:
    """Yield each name; one that has occurred gets a number."""
    seen: set[str] = set()
    for name in names:
        numbered = (f"{name} {number}" for number in count(2))
        new = next(each for each in chain([name], numbered) if each not in seen)
        seen.add(new)
        yield new


def _check_result(result: object) -> None:
    if not isinstance(result, AgentResult):
        raise TypeError(f"the function returned {result!r}, and not the result of a run")


def _describe(error: BaseException) -> str:
    """Say what was raised, in one line."""
    told = (f"{type(each).__name__}: {each}" for each in leaves(error))
    return shorten("; ".join(told), _LONGEST_ERROR, placeholder=" …")
