"""The probe outside of any sandbox: it must report that nothing is held."""

import os
import resource
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from greenroom.core._internal import serde
from greenroom.sandbox import probe


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
        command = [sys.executable, probe.__file__, serde.dumps(questions).decode()]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    held = set(serde.decode(done.stdout, list[str]))
    assert held - {"processes"} == {"memory", "file_size"}


def test_a_wall_is_no_sandbox(questions: dict[str, str]) -> None:
    questions["inside"] = "/nowhere"
    with pytest.raises(FileNotFoundError):
        probe.try_all(questions)


def test_without_a_temporary_folder_it_is_no_sandbox_either(
    questions: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", "/nowhere")
    with pytest.raises(FileNotFoundError, match="/nowhere"):
        probe.try_all(questions)


def test_an_attempt_counts_as_refused_only_if_all_like_it_are(tmp_path: Path) -> None:
    fails, works = partial(probe.read, str(tmp_path / "gone")), partial(probe.fill, 1)
    assert probe.is_refused(fails, fails)
    assert not probe.is_refused(fails, works)
    assert not probe.is_refused(works)


def test_a_namespace_is_another_only_where_it_can_be_told() -> None:
    assert not probe.is_apart("net", os.readlink("/proc/self/ns/net"))
    assert probe.is_apart("net", "net:[1]")
    assert not probe.is_apart("net", "")
    assert not probe.is_apart("nowhere", "nowhere:[1]")


def test_a_limit_is_tried_and_put_back(tmp_path: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    long = partial(probe.write, str(tmp_path / "long"), "x" * 100)
    assert probe.is_limited(resource.RLIMIT_FSIZE, 10, long)
    assert not probe.is_limited(resource.RLIMIT_FSIZE, 1000, long)
    assert resource.getrlimit(resource.RLIMIT_FSIZE) == before


@pytest.mark.parametrize(("room", "held"), [(0, False), (3, True), (29, True), (30, False)])
def test_a_bomb_is_held_where_some_are_started_and_more_are_refused(
    monkeypatch: pytest.MonkeyPatch, room: int, held: bool
) -> None:
    started: list[int] = []

    def fork() -> int:
        if len(started) == room:
            raise BlockingIOError
        started.append(1)
        return 1

    monkeypatch.setattr(os, "fork", fork)
    assert probe.bomb(10) == held


def test_what_may_not_be_used_is_named(questions: dict[str, str]) -> None:
    inside = questions["inside"]
    probe.check_paths({**questions, "read": f"{inside}\0{probe.__file__}", "write": inside})
    for verb in ("read", "write"):
        with pytest.raises(SystemExit, match=f"it may not {verb} /nowhere"):
            probe.check_paths({**questions, verb: f"{inside}\0/nowhere"})


def test_what_is_mounted_to_be_read_alone_is_no_matter_of_owners() -> None:
    assert probe.is_open_to_us("/proc/self/status", os.R_OK)
    assert not probe.is_open_to_us("/nowhere", os.R_OK)
