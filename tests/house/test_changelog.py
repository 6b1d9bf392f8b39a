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
    assert (copy / "CHANGELOG.md").read_text() == (
        "# Changelog\n\n## 0.2.0\n\n### Added\n\n- `Agent` runs.\n\n### Fixed\n\n- `Read` reads.\n"
        "- So does `Grep`.\n\n## 0.1.0\n\n- All of it.\n"
    )
    assert list((copy / "changelog.d").glob("*.md")) == []


def test_a_fragment_of_no_kind_is_refused(copy):
    (copy / "changelog.d" / "tools.md").write_text("`Read` reads.\n")
    with pytest.raises(ValueError, match="added, changed, fixed, removed"):
        runpy.run_path(str(copy / "changelog.d" / "release.py"), run_name="__main__")
