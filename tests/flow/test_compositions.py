"""Random compositions, three deep, that end at any moment and go on: each effect happens once.

`GREENROOM_KILLS=long` tries hundreds of them, with the seed of `GREENROOM_KILLS_SEED`.
"""

import os
import random
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from greenroom import Agent
from greenroom.core import TurnStatus
from greenroom.flow import loop, pipeline
from greenroom.resilience import Budget
from greenroom.testing import Scenario, ScriptedProvider, cancel_at_every_checkpoint
from greenroom.testing.fuzz.sweep import repeatable
from tests.conftest import EXAMPLES, few
from tests.flow import compositions
from tests.flow.compositions import Life, Work, in_folder
from tests.flow.test_workflow_kills import SeenStore
from tests.warm_python import run_warm

IS_LONG = os.environ.get("GREENROOM_KILLS") == "long"
BEGIN = int(os.environ.get("GREENROOM_KILLS_SEED", "0"))


def seeds(short, long):
    return range(
        BEGIN, BEGIN + (long if IS_LONG else max(2, short // (1 if EXAMPLES == 100 else 5)))
    )


async def count_moments(seed, **options):
    life = Life(seed, **options)
    life.work.check(await life.run())
    assert life.work.asked == []
    return life.moments


async def kill_again_and_again(seed):
    """Kill a composition at random moments, one to five times, then let it end."""
    chance, moments = random.Random(seed), await count_moments(seed)
    sessions, effects = None, ()
    for _ in range(1 + seed % 5):
        life = Life(seed, sessions, effects, kill_at=chance.randint(1, moments))
        result = await life.run()
        if life.left is None:  # it had ended before
            life.work.check(result)
            return
        sessions, effects = life.left
    life = Life(seed, sessions, effects)
    life.work.check(await life.run())


@pytest.mark.parametrize("seed", seeds(20, 300))
def test_it_is_killed_again_and_again(seed):
    with repeatable(seed):
        trio.run(kill_again_and_again, seed)


@pytest.mark.parametrize("is_team", [False, True])
async def test_a_round_that_had_not_begun_is_not_answered_by_the_one_before(is_team):
    def answer(request):
        asked = (each for each in reversed(request.messages) if each.role == "user")
        return f"<{next(each.text for each in asked if each.sender != 'runtime')}>"

    def rounds():
        member = Agent(ScriptedProvider(*[answer] * 9), name="member")
        verdicts = iter(["again", "once more", True])
        team = pipeline(member, name="team") if is_team else member
        return loop(team, lambda output: next(verdicts))

    store, left = SeenStore(), []
    store.seen = lambda what: left.append(store.copy())
    assert (await rounds().run("Go.", session="s", store=store)).output == "<once more>"
    for sessions in left[3:-1]:
        again = await rounds().run(None, session="s", store=SeenStore(sessions))
        assert again.output == "<once more>"


async def spend_budgets(seed):
    """Run a composition with small budgets, until one suffices."""
    chance, sessions, effects = random.Random(seed), None, ()
    for _ in range(100):
        calls = chance.randint(1, 4)
        budget = chance.choice([Budget(model_calls=calls), Budget(tool_calls=calls)])
        life = Life(seed, sessions, effects)
        result = await life.run(budget)
        if result is None or result.status is TurnStatus.COMPLETED:
            break
        assert "the budget of" in str(result.error)
        sessions, effects = life.store.copy(), tuple(life.work.effects)
    life.work.check(result)


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_its_budgets_end(seed):
    with repeatable(seed):
        trio.run(spend_budgets, seed)


async def run_out_of_time(seed):
    """Run a composition whose effects take a while, for a few seconds at a time."""
    chance, sessions, effects = random.Random(seed), None, ()
    for _ in range(100):
        life = Life(seed, sessions, effects, delay=chance.random)
        result = await life.run(Budget(seconds=chance.uniform(0.3, 2.5)))
        if result is None or result.status is TurnStatus.COMPLETED:
            break
        sessions, effects = life.store.copy(), tuple(life.work.effects)
    life.work.check(result)


@pytest.mark.parametrize("seed", seeds(15, 200))
def test_its_time_ends(seed):
    with repeatable(seed):
        trio.run(run_out_of_time, seed, clock=MockClock(autojump_threshold=0))


TEAMS_THAT_TRY_AGAIN = ("handoffs", "pipe", "side", "rounds", "own", "jury", "crew", "graph")
"""Those whose members are not tools: an agent that calls a tool again has its reasons."""


async def overload_models(seed):
    """Run a composition a quarter of whose model calls fail, and kill it at times."""
    chance, sessions, effects = random.Random(seed), None, ()
    for _ in range(100):
        kill_at = chance.choice([0, chance.randint(1, 60)])
        options = {"teams": TEAMS_THAT_TRY_AGAIN, "fails": lambda: chance.random() < 0.25}
        life = Life(seed, sessions, effects, kill_at, **options)
        result = await life.run()
        is_over = result is None or result.status is TurnStatus.COMPLETED
        if life.left is None and is_over:
            break
        sessions, effects = life.left or (life.store.copy(), tuple(life.work.effects))
    if life.work.kinds["crew"]:  # it answers without what has failed five times
        assert max(Counter(life.work.effects).values(), default=1) == 1
    else:
        life.work.check(result)


@pytest.mark.parametrize("seed", seeds(15, 200))
def test_its_models_fail(seed):
    with repeatable(seed):
        trio.run(overload_models, seed)


TEAMS_THAT_ASK = ("pipe", "side", "rounds", "own", "jury", "graph")
"""Those that ask about calls of their members; an agent's model is told if nobody has answered."""


async def leave_alone(seed):
    """Kill a composition, go on with nobody to ask, and then with somebody."""
    teams, sessions, effects = TEAMS_THAT_ASK, None, ()
    moments = await count_moments(seed, teams=teams)
    for is_attended in (True, False, True, False):
        kill_at = random.Random(seed).randint(1, moments) if is_attended else 0
        life = Life(seed, sessions, effects, kill_at, teams=teams)
        life.work.is_attended = is_attended
        result = await life.run()
        assert max(Counter(life.work.effects).values(), default=1) == 1
        sessions, effects = life.left or (life.store.copy(), tuple(life.work.effects))
        if life.left is None and (result is None or result.status is TurnStatus.COMPLETED):
            break
    life = Life(seed, sessions, effects, teams=teams)
    life.work.check(await life.run())


@pytest.mark.parametrize("seed", seeds(10, 200))
def test_nobody_is_there_to_ask(seed):
    with repeatable(seed):
        trio.run(leave_alone, seed)


@pytest.mark.parametrize("seed", seeds(3, 40))
def test_it_is_cancelled_at_any_checkpoint(seed):
    tried = []

    def scenario():
        work = Work(seed, SeenStore())
        tried.append(work)
        return Scenario(work.team, inputs="Go.", probe=(), store=work.store)

    def it_goes_on(trial):
        id_ = trial.session_id
        before = next((each for each in tried if id_ in each.store.copy()), None)
        if before is None:
            return  # it had done nothing
        work = Work(seed, SeenStore(before.store.copy()), before.effects)
        work.session_id = id_

        async def go_on():
            work.check(await work.run())

        trio.run(go_on)

    report = cancel_at_every_checkpoint(
        scenario, invariants=[it_goes_on], at_most=30 if IS_LONG else few(15)
    )
    assert sum(report.cancels.values()) >= 5


@pytest.mark.parametrize("seed", seeds(3, 100))
def test_its_process_is_killed(seed, tmp_path):
    moment = random.Random(seed).randint(1, trio.run(count_moments, seed))
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    code, folder = 0, tmp_path
    while code == 0:  # it had ended before: files are written less often than a store in memory
        folder = tmp_path / str(moment)
        folder.mkdir()
        arguments = [compositions.__file__, str(seed), str(moment)]
        code, _, errors = run_warm(arguments, folder, environment)
        moment //= 2
    assert code == -signal.SIGKILL, errors

    async def go_on():
        work = in_folder(folder, seed)
        work.check(await work.run())

    trio.run(go_on)
