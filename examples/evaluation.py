"""An evaluation: how often the answers are right, over several runs, and whether that got worse."""

from itertools import cycle

import trio

from greenroom import Agent, AgentResult, Budget
from greenroom.testing import Case, Evaluation, ScriptedProvider, evaluate

CASES = [Case("The capital of France?", "France", "Paris"), Case("Of Peru?", "Peru", "Lima")]


def exact(case: Case[str], result: AgentResult) -> bool:
    return result.output == case.expected


def make_agent(*answers: str) -> Agent:
    texts = cycle(answers)
    return Agent(ScriptedProvider(*[lambda request: next(texts)] * 20))


async def main() -> None:
    yesterday = await evaluate(make_agent("Paris", "Lima"), CASES, [exact], concurrency=1)
    yesterday.save("evaluation.json")

    agent, budget = make_agent("Paris", "Paris", "Lima", "Cusco"), Budget(model_calls=50)
    today = await evaluate(agent, CASES, [exact], repeat=2, concurrency=1, budget=budget)
    earlier = Evaluation.load("evaluation.json")
    print(today.table(earlier))
    print("worse:", *today.regressions(earlier))


trio.run(main)
