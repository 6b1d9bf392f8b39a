"""Agents of ours as solvers of Inspect.

Inspect and what it needs double what is installed, so it has an environment of its own:
`python -m venv /tmp/inspect && /tmp/inspect/bin/pip install '.[inspect]'`, and then
`GREENROOM_INSPECT=/tmp/inspect/bin/python`.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from greenroom import Agent, ConfigurationError
from greenroom.interop.inspect import as_solver
from greenroom.testing import ScriptedProvider

ROOT = Path(__file__).parents[2]
PYTHON = os.environ.get("GREENROOM_INSPECT", "")
EXAMPLES = ROOT / "examples"

with_inspect = pytest.mark.skipif(not PYTHON, reason="needs a Python that has Inspect")


def run(path, cwd):
    """Run a program of this repository with the Python that has Inspect."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [PYTHON, str(path)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


def test_without_inspect_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "inspect_ai", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'greenroom\[inspect\]'"):
        as_solver(Agent(ScriptedProvider()))


@with_inspect
def test_tasks_are_solved_within_their_limits(tmp_path):
    assert run(Path(__file__).parent / "inspect_program.py", tmp_path).count("check_") > 10


@with_inspect
def test_the_example_is_right(tmp_path):
    assert run(EXAMPLES / "inspect_task.py", tmp_path).splitlines() == [
        "What is 17 * 23? It is 391. C",
        "What is 2 ** 20? It is 1048576. C",
        "And 10 / 4? It is 2.5. C",
        "accuracy: 1.0",
    ]
