"""Nested repositories: how far they are searched, and what the report says about the rest."""

import os
from pathlib import Path

import pytest

from greenroom.core import Workspace
from greenroom.sandbox import resolved_policy as nested
from greenroom.sandbox.report import Mechanisms, report_in_place, report_on
from greenroom.sandbox.resolved_policy import NestedRepositories, PolicyPaths
from greenroom.tools import Sandbox


def make(root: Path, *names: str) -> None:
    for name in names:
        (root / name).mkdir(parents=True)


def found(root: Path) -> set[str]:
    return {os.path.relpath(name, root) for name in NestedRepositories.of(str(root)).names}


def test_they_are_found_two_folders_deep(tmp_path: Path) -> None:
    make(tmp_path, ".git/modules/x/.git", "a/.git", "a/b/.hg", "c/d/.svn", "c/d/e/.git", "f")
    (tmp_path / "f" / ".git").write_text("gitdir: elsewhere")
    (tmp_path / "way").symlink_to(tmp_path / "a")
    assert found(tmp_path) == {"a/.git", "a/b/.hg", "c/d/.svn", "f/.git"}
    assert NestedRepositories.of(str(tmp_path)).is_complete


def test_what_comes_later_is_not_found(tmp_path: Path) -> None:
    make(tmp_path, "a/.git")
    assert found(tmp_path) == {"a/.git"}
    make(tmp_path, "b/.git")
    assert found(tmp_path) == {"a/.git"}


def test_a_closed_or_missing_folder_holds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert NestedRepositories.of(str(tmp_path / "gone")) == NestedRepositories((), True)


@pytest.mark.parametrize("bound", ["_MAX_NAMES", "_MAX_FOUND"])
def test_the_look_is_bounded_and_that_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    make(tmp_path, *(f"{n}/.git" for n in range(5)))
    monkeypatch.setattr(nested, bound, 3)
    cut = NestedRepositories.of(str(tmp_path))
    assert not cut.is_complete
    assert len(cut.names) <= 3
    ground = PolicyPaths.of(Sandbox(), Workspace(tmp_path))
    way = Mechanisms("bubblewrap", held_parts=frozenset({"protected"}))
    told = report_in_place(report_on(Sandbox(), way), Sandbox(), ground)
    assert told.enforced["protected"] == (
        "mount namespace, but only those nested repositories found at first"
    )


def test_the_folders_around_them_are_pinned_once(tmp_path: Path) -> None:
    root = os.path.realpath(tmp_path)
    make(tmp_path, "a/.git", "a/b/.git", "c/.git", "d/.git")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / ".git").symlink_to("../a")
    ground = PolicyPaths.of(Sandbox(writable=("c/.git", "d")), Workspace(tmp_path))
    assert set(ground.pinned) == {f"{root}/a", f"{root}/a/b"}
    assert len(ground.pinned) == 2
    assert {f"{root}/a/.git", f"{root}/a/b/.git", f"{root}/d/.git"} <= set(ground.protected)
    assert f"{root}/c/.git" not in ground.protected
    assert ground.unprotected == (f"{root}/e/.git",)


def test_a_link_that_took_the_place_of_a_folder_leads_nowhere(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    make(tmp_path, "root/a/b/.git", "outside/b/.git")
    assert found(root) == {"a/b/.git"}
    (root / "a").rename(root / "c")
    (root / "a").symlink_to(outside)
    ground = PolicyPaths.of(Sandbox(), Workspace(root))
    name = os.path.join(os.path.realpath(root), "a/b/.git")
    assert name not in ground.protected
    assert ground.unprotected == (name,)
    assert ground.pinned == ()
