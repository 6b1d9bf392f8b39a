"""A team whose process is killed at any moment repeats no effect and loses no result."""

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest
import trio

from greenroom.core import TurnStatus
from greenroom.flow._internal import TeamResult
from tests.flow.test_workflow_kills import SeenStore
from tests.flow.trip import EFFECTS, Trip, in_folder
from tests.warm_python import run_warm

PROGRAM = Path(__file__).with_name("trip.py")
WORKERS = {"flight": "pilot", "hotel": "host", "car": "host"}


def check(trip, result):
    """Check that each effect happened once, and each subtask has its answer."""
    assert result.status is TurnStatus.COMPLETED, result.error
    told = msgspec.convert(result.output, TeamResult)
    assert all(WORKERS[each.subtask] == each.agent for each in told.sources)
    done = {each.subtask for each in told.sources}
    assert done == set(EFFECTS)
    assert told.missing == {}
    assert max(Counter(trip.effects).values()) == 1
    assert done <= set(trip.effects)


async def test_no_result_is_lost_and_no_effect_comes_twice_whatever_a_kill_leaves():
    store, left = SeenStore(), []

    def keep(point):
        left.append((store.copy(), tuple(trip.effects)))

    trip = Trip(store, at=keep)
    store.seen = keep
    check(trip, await trip.run())
    assert trip.asked == []
    questions = Counter()
    for sessions, effects in left[:-1:2]:  # behind the last the goal is answered, and begins anew
        again = Trip(SeenStore(sessions), effects)
        check(again, await again.run())
        questions.update(again.asked)
    assert len(questions) == 3
    assert len(left) > 30


@pytest.mark.parametrize("point", ["before hotel", "behind flight", "answer"])
def test_a_process_that_was_killed(tmp_path, point):
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {"PATH": path, "HOME": str(tmp_path / "home"), "LANG": "C.UTF-8"}
    code, _, errors = run_warm([str(PROGRAM), point], tmp_path, environment)
    assert code == -signal.SIGKILL, errors
    trip = in_folder(tmp_path)
    check(trip, trio.run(trip.run))
    assert bool(trip.asked) == (point != "answer")
    assert Counter((tmp_path / "effects").read_text().split()) == Counter(trip.effects)
