"""Control groups, found and made in folders that look like the kernel's."""

import os
from pathlib import Path

import pytest

from greenroom.sandbox.cgroup import Cgroup, CgroupPlaces

MEGABYTE = 1 << 20


def looks_like(folder: Path, *files: str) -> Path:
    os.makedirs(folder, exist_ok=True)
    for name in files:
        (folder / name).touch()
    return folder


@pytest.fixture
def born(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a new group has from the beginning, as the kernel makes them."""
    files: list[str] = []
    real = Path.mkdir

    def mkdir(path: Path, *args: object, **options: object) -> None:
        real(path, *args, **options)  # type: ignore[arg-type]
        if path.name.startswith("greenroom-"):
            for name in files:
                (path / name).touch()

    def rmdir(path: Path) -> None:
        for each in path.iterdir():
            each.unlink()
        os.rmdir(path)

    monkeypatch.setattr(Path, "mkdir", mkdir)
    monkeypatch.setattr(Path, "rmdir", rmdir)
    return files


def test_the_first_version_has_a_tree_for_each_controller(tmp_path: Path, born: list[str]) -> None:
    own = tmp_path / "own"
    own.write_text("4:memory:/job/1\n8:pids:/\n1:cpu,cpuacct:/\n0::/\n")
    memory = looks_like(tmp_path / "memory" / "job" / "1", "cgroup.procs")
    pids = looks_like(tmp_path / "pids", "cgroup.procs")
    born += ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes", "pids.max"]
    places = CgroupPlaces.find(tmp_path, own)
    assert places == CgroupPlaces(1, (("memory", memory), ("pids", pids)))
    group = Cgroup.make(places, memory_megabytes=3, processes=7)
    first, second = (Path(each).parent for each in group.members)
    assert (first.parent, second.parent) == (memory, pids)
    assert (first / "memory.limit_in_bytes").read_text() == str(3 * MEGABYTE)
    assert (first / "memory.memsw.limit_in_bytes").read_text() == str(3 * MEGABYTE)
    assert (second / "pids.max").read_text() == "7"
    group.remove()
    assert not first.exists()
    assert not second.exists()


def test_the_second_version_has_one_tree(tmp_path: Path, born: list[str]) -> None:
    own = tmp_path / "own"
    own.write_text("0::/user/app/shell\n")
    looks_like(tmp_path, "cgroup.controllers")
    # In our own group there are processes, so only above it can there be limits.
    app = looks_like(tmp_path / "user" / "app", "cgroup.procs")
    looks_like(app / "shell")
    born += ["memory.max", "memory.swap.max", "pids.max"]
    places = CgroupPlaces.find(tmp_path, own)
    assert places == CgroupPlaces(2, (("memory", app), ("pids", app)))
    group = Cgroup.make(places, memory_megabytes=3, processes=7)
    (member,) = group.members
    folder = Path(member).parent
    assert (folder / "memory.max").read_text() == str(3 * MEGABYTE)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "7"


def test_without_limits_there_is_no_group(tmp_path: Path, born: list[str]) -> None:
    places = CgroupPlaces(2, (("memory", tmp_path), ("pids", tmp_path)))
    assert Cgroup.make(places, memory_megabytes=None, processes=None).members == []


def test_a_path_of_the_system_outside_leads_to_the_top(tmp_path: Path, born: list[str]) -> None:
    own = tmp_path / "own"
    own.write_text("8:pids:/docker/0123\n")
    pids = looks_like(tmp_path / "pids", "cgroup.procs")
    born += ["pids.max"]
    assert CgroupPlaces.find(tmp_path, own).folders == (("pids", pids),)


@pytest.mark.parametrize("lack", ["no such file", "nothing can be made", "no limits in it"])
def test_where_none_can_be_made_there_is_no_place(
    tmp_path: Path, lack: str, born: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    if lack != "no such file":
        own.write_text("8:pids:/\n")
    looks_like(tmp_path / "pids", "cgroup.procs")
    if lack == "nothing can be made":
        born += ["pids.max"]

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError

        monkeypatch.setattr(Path, "mkdir", refuse)
    assert CgroupPlaces.find(tmp_path, own).folders == ()


def test_groups_of_the_dead_are_removed_and_those_of_the_living_stay(
    tmp_path: Path, born: list[str]
) -> None:
    own = tmp_path / "own"
    own.write_text("8:pids:/\n")
    pids = looks_like(tmp_path / "pids", "cgroup.procs")
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    dead = looks_like(pids / f"greenroom-{child}-0a")
    alive = looks_like(pids / f"greenroom-{os.getpid()}-0b")
    other = looks_like(pids / "greenroom-x")
    born += ["pids.max"]
    CgroupPlaces.find(tmp_path, own)
    assert [dead.exists(), alive.exists(), other.exists()] == [False, True, True]
