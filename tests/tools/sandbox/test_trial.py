"""The trial, run where nothing holds it: it must say so, since a sandbox is judged by what it says."""

import os
import resource
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from greenroom.core import serde
from greenroom.tools.sandbox import trial


@pytest.fixture
def questions(tmp_path: Path) -> dict[str, str]:
    for name in ("inside/.vscode", "outside"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("file", "kept", "hidden"):
        (tmp_path / "outside" / name).write_text("kept")
    return {
        "inside": str(tmp_path / "inside"),
        "outside": str(tmp_path / "outside"),
        "hidden": str(tmp_path / "outside" / "hidden"),
        "protected": str(tmp_path / "inside" / ".vscode"),
        "socket": str(tmp_path / "outside" / "socket"),
        "pid": str(os.getpid()),
        "net": os.readlink("/proc/self/ns/net"),
        "pid_namespace": os.readlink("/proc/self/ns/pid"),
    }


def test_without_a_sandbox_limits_alone_are_held(questions: dict[str, str]) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(questions["socket"])
        listener.listen()
        command = [sys.executable, trial.__file__, serde.dumps(questions).decode()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    held = set(serde.decode(done.stdout, list[str]))
    assert held - {"processes"} == {"memory", "file_size"}


def test_a_wall_is_no_sandbox(questions: dict[str, str]) -> None:
    questions["inside"] = "/nowhere"
    with pytest.raises(FileNotFoundError):
        trial.held(questions)


def test_an_attempt_counts_as_refused_only_if_all_like_it_are(tmp_path: Path) -> None:
    fails, works = partial(trial.read, str(tmp_path / "gone")), partial(trial.fill, 1)
    assert trial.refused(fails, fails)
    assert not trial.refused(fails, works)
    assert not trial.refused(works)


def test_a_namespace_is_another_only_where_it_can_be_told() -> None:
    assert not trial.is_apart("net", os.readlink("/proc/self/ns/net"))
    assert trial.is_apart("net", "net:[1]")
    assert not trial.is_apart("net", "")
    assert not trial.is_apart("nowhere", "nowhere:[1]")


def test_a_limit_is_tried_and_put_back(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    long = partial(trial.write, str(tmp_path / "long"), "x" * 100)
    assert trial.limited(resource.RLIMIT_FSIZE, 10, long)
    assert not trial.limited(resource.RLIMIT_FSIZE, 1000, long)
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == before
