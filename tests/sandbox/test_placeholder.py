"""Placeholders: made where nothing is, and gone when nobody needs them."""

import fcntl
import os
import stat
from pathlib import Path

import pytest

from greenroom.sandbox import temporary_files as placeholder
from greenroom.sandbox.temporary_files import Placeholders


def test_they_stand_while_they_are_held_and_no_longer(tmp_path: Path) -> None:
    names = (str(tmp_path / ".git"), str(tmp_path / ".bashrc"))
    held = Placeholders.hold(names)
    assert stat.S_ISDIR(os.lstat(names[0]).st_mode)
    assert Path(names[1]).read_bytes() == b""
    held.release()
    assert not list(tmp_path.iterdir())
    held.release()


def test_what_exists_stays(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".bashrc").write_text("")
    Placeholders.hold((str(tmp_path / ".git"), str(tmp_path / ".bashrc"))).release()
    assert {path.name for path in tmp_path.iterdir()} == {".git", ".bashrc"}


def test_the_last_holder_removes_them(tmp_path: Path) -> None:
    name = str(tmp_path / ".git")
    first, second = Placeholders.hold((name,)), Placeholders.hold((name,))
    first.release()
    assert os.path.isdir(name)
    second.release()
    assert not os.path.exists(name)


def test_those_of_a_process_that_was_killed_go_with_the_next_ones(tmp_path: Path) -> None:
    name = str(tmp_path / ".git")
    child = os.fork()
    if child == 0:
        Placeholders.hold((name,))
        os.kill(os.getpid(), 9)
    os.waitpid(child, 0)
    assert os.path.isdir(name)
    Placeholders.hold((name,)).release()
    assert not os.path.exists(name)


@pytest.mark.parametrize("name", [".greenroom", ".bashrc"])
def test_one_that_somebody_has_used_stays(tmp_path: Path, name: str) -> None:
    held = Placeholders.hold((str(tmp_path / name),))
    used = tmp_path / name / "rules" if name == ".greenroom" else tmp_path / name
    used.write_text("kept")
    held.release()
    assert used.read_text() == "kept"


def test_a_lock_that_somebody_keeps_is_not_waited_for_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placeholder, "_ROUND_SECONDS", 0.001)
    fd = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with pytest.raises(BlockingIOError, match=r"another program keeps .* locked"):
        Placeholders.hold((str(tmp_path / ".git"),))
    os.close(fd)
    Placeholders.hold((str(tmp_path / ".git"),)).release()
    assert not list(tmp_path.iterdir())


def test_one_that_somebody_has_removed_is_not_missed(tmp_path: Path) -> None:
    held = Placeholders.hold((str(tmp_path / ".git"),))
    (tmp_path / ".git").rmdir()
    held.release()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_refuses_gets_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "refused")

    monkeypatch.setattr(os, "mkdir", refuse)
    Placeholders.hold((str(tmp_path / ".git"),)).release()
    assert not list(tmp_path.iterdir())


def test_what_goes_wrong_half_way_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.mkdir

    def fail(name: str, mode: int) -> None:
        if name.endswith(".hg"):
            raise OSError(28, "full")
        real(name, mode)

    monkeypatch.setattr(os, "mkdir", fail)
    with pytest.raises(OSError, match="full"):
        Placeholders.hold((str(tmp_path / ".git"), str(tmp_path / ".hg")))
    assert not list(tmp_path.iterdir())
