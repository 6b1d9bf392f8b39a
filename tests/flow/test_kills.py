"""A plan with effects, killed after and during each step, continues in another process."""

import os
import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from greenroom.flow._internal import SubtaskStatus
from tests.conftest import take_sample
from tests.flow.ten_steps import STEPS, TenSteps
from tests.warm_python import run_warm

PROGRAM = Path(__file__).with_name("ten_steps.py")


def kill(folder, step, where):
    """Carry the plan out in a process of its own, which kills itself."""
    folder.mkdir()
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "LANG": "C.UTF-8",
    }
    code, _, errors = run_warm([str(PROGRAM), step, where], folder, environment)
    assert code == -signal.SIGKILL, errors


def go_on(folder, is_attended=True):
    steps = TenSteps(folder, is_attended=is_attended)
    run = trio.run(steps.run)
    return run, steps.asked, Counter(steps.effects.read_text().split())


@pytest.mark.parametrize("where", ["before", "behind", "started", "completed"])
def test_every_effect_happens_once_wherever_the_process_ends(tmp_path, where):
    for step in take_sample(STEPS if where != "started" else STEPS[3:5], 3):
        kill(tmp_path / step, step, where)
        run, asked, effects = go_on(tmp_path / step)
        assert set(effects.values()) == {1}, (step, effects)
        assert (step in asked) == (where in ("before", "behind")), (step, asked)
        assert run.is_completed  # the person has seen the effect, and said so


def test_where_nobody_can_be_asked_it_waits_and_nothing_is_run_again(tmp_path):
    for step in ("s4", "s5"):
        folder = tmp_path / step
        kill(folder, step, "before")
        run, _, effects = go_on(folder, is_attended=False)
        assert step not in effects
        assert run.state(step).status is SubtaskStatus.PENDING
        assert "had started" in run.state(step).error
        run, asked, effects = go_on(folder)
        assert step in asked
        assert set(effects.values()) == {1}
