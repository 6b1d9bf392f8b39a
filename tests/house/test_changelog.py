"""Each change is a line of a fragment, and a release makes a section of them."""

import re
import runpy
import shutil
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "changelog.d"
SCRIPT = runpy.run_path(str(FOLDER / "release.py"))


@pytest.fixture
def copy(tmp_path, monkeypatch):
    """A repository of its own to release from."""
    shutil.copytree(FOLDER, tmp_path / "changelog.d", ignore=shutil.ignore_patterns("*.md"))
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1.0\n\n- All of it.\n")
    (tmp_path / "greenroom").mkdir()
    monkeypatch.setattr(sys, "argv", ["release.py", "0.2.0"])
    return tmp_path


def test_every_fragment_has_a_kind_and_lines_of_one_change():
    for paths in SCRIPT["fragments"]().values():
        for path in paths:
            lines = path.read_text().splitlines()
            assert lines, path
            assert [line for line in lines if not re.fullmatch(r"[A-Z`\[].*[.)]", line)] == [], path


def test_a_release_puts_the_fragments_above_what_was_there_and_removes_them(copy):
    (copy / "changelog.d" / "tools.fixed.md").write_text("`Read` reads.\nSo does `Grep`.\n")
    (copy / "changelog.d" / "agents.added.md").write_text("`Agent` runs.\n")
    runpy.run_path(str(copy / "changelog.d" / "release.py"), run_name="__main__")
    assert without_dates(copy / "CHANGELOG.md") == (
        "# Changelog\n\n## 0.2.0 - TODAY\n\n### Added\n\n- `Agent` runs.\n\n### Fixed\n\n"
        "- `Read` reads.\n- So does `Grep`.\n\n## 0.1.0\n\n- All of it.\n"
    )
    assert list((copy / "changelog.d").glob("*.md")) == []
    assert (copy / "greenroom" / "_version.py").read_text() == '__version__ = "0.2.0"\n'


def without_dates(path):
    return re.sub(r" - \d{4}-\d\d-\d\d\n", " - TODAY\n", path.read_text())


def test_a_section_that_was_begun_gets_the_date_and_the_fragments(copy):
    begun = "# Changelog\n\n## 0.2.0, not released yet\n\nWell.\n\n### Runtime\n\n- It runs.\n"
    older = "\n## 0.1.0 - 2026-01-02\n\n- All of it.\n"
    (copy / "CHANGELOG.md").write_text(begun + older)
    (copy / "changelog.d" / "tools.fixed.md").write_text("`Read` reads.\n")
    runpy.run_path(str(copy / "changelog.d" / "release.py"), run_name="__main__")
    assert without_dates(copy / "CHANGELOG.md") == (
        "# Changelog\n\n## 0.2.0 - TODAY\n\nWell.\n\n### Runtime\n\n- It runs.\n\n### Fixed\n\n"
        "- `Read` reads.\n\n## 0.1.0 - TODAY\n\n- All of it.\n"
    )


def test_the_first_release_has_what_was_added_alone(copy):
    (copy / "CHANGELOG.md").write_text("# Changelog\n\n## 0.2.0, not released yet\n\n- It runs.\n")
    (copy / "changelog.d" / "tools.added.md").write_text("`Read` reads.\n")
    for kind in ("changed", "fixed", "removed"):
        (copy / "changelog.d" / f"tools.{kind}.md").write_text("`Read` wrote.\n")
    runpy.run_path(str(copy / "changelog.d" / "release.py"), run_name="__main__")
    assert without_dates(copy / "CHANGELOG.md") == (
        "# Changelog\n\n## 0.2.0 - TODAY\n\n- It runs.\n\n### Added\n\n- `Read` reads.\n"
    )
    assert list((copy / "changelog.d").glob("*.md")) == []


def test_what_is_no_version_is_refused(copy, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["release.py", "v0.2"])
    with pytest.raises(ValueError, match="no version"):
        runpy.run_path(str(copy / "changelog.d" / "release.py"), run_name="__main__")


def test_a_fragment_of_no_kind_is_refused(copy):
    (copy / "changelog.d" / "tools.md").write_text("`Read` reads.\n")
    with pytest.raises(ValueError, match="added, changed, fixed, removed"):
        runpy.run_path(str(copy / "changelog.d" / "release.py"), run_name="__main__")
