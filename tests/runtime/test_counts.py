"""What steps, deltas, agents and imports cost, in figures that hold on any machine."""

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
import trio

from benchmarks import calls, counts
from greenroom import FileStore, InMemoryStore
from greenroom.fs import loop_writes

IN_MEMORY = [name for name, where in counts.COUNTS if where == "memory"]
ROOT = Path(__file__).parents[2]
MEASURE = """
import sys
from benchmarks import calls, counts
with counts.in_order():
    print(calls.ROWS[sys.argv[1]]())
"""
IN_FILES = ["tool step", "agent", "interrupt"]


@pytest.fixture(scope="module")
def counter():
    with pytest.MonkeyPatch.context() as patch, counts.in_order():
        yield counts.Counter(patch.setattr)


def is_known():
    return version("trio") == calls.KNOWN["trio"]


@pytest.mark.parametrize("operation", IN_MEMORY)
def test_what_an_operation_takes_in_memory_is_what_it_took(counter, operation):
    taken = trio.run(counts.count, counter, operation, InMemoryStore())
    told = counts.compare(taken, counts.COUNTS[operation, "memory"], counts.ONCE)
    if operation in counts.EXACT and is_known():
        assert told == ""
    assert "MORE" not in told or not is_known()


@pytest.mark.parametrize("operation", IN_FILES)
def test_what_an_operation_takes_in_files_is_no_more_than_it_took(counter, operation, monkeypatch):
    # A disk that is slow, or that is not known to be local, makes hops.
    monkeypatch.setattr(loop_writes, "SLOW", 60)
    monkeypatch.setattr(loop_writes, "is_local", lambda _device: True)
    with tempfile.TemporaryDirectory() as folder:
        taken = trio.run(counts.count, counter, operation, FileStore(folder))
    told = counts.compare(taken, counts.COUNTS[operation, "files"], 3)
    assert "MORE" not in told or not is_known()


@pytest.mark.parametrize("name", calls.ROWS)
def test_what_does_not_depend_on_the_machine_is_no_more_than_it_was(name):
    figures = calls.find_figures()
    # In a process of its own: what other tests left behind changes what objects weigh.
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, name], cwd=ROOT, capture_output=True, check=True, text=True
    )
    taken = float(done.stdout)
    assert taken > 0
    assert taken <= figures.get(name, taken) * (1 + calls.SLACK)
