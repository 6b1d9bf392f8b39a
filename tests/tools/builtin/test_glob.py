import os
import subprocess
from pathlib import Path

import pytest
import trio
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, ReadPath, ToolError
from greenroom.tools import Glob, Grep, ToolRegistry
from greenroom.tools.builtin import glob as glob_module
from greenroom.tools.builtin.file_tree import (
    GlobPattern,
    IgnoreRules,
    list_alternatives,
    walk_files,
)
from tests.absent_programs import needs

ENGINES = [
    pytest.param(True, id="ripgrep", marks=needs("rg")),
    pytest.param(False, id="python"),
]


def plant(root: Path, *paths: str) -> None:
    """Make empty files, each newer than the one before."""
    for age, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
        os.utime(root / path, (1_000_000 + age, 1_000_000 + age))


@pytest.fixture(params=ENGINES)
def glob(call, request):
    tool = Glob(use_ripgrep=request.param)
    return lambda pattern, **options: call(tool, pattern=pattern, **options).text.split("\n")


def test_the_newest_file_comes_first(glob, root: Path) -> None:
    plant(root, "b.py", "sub/deep/c.py", "a.py", "a.txt")
    assert glob("**/*.py") == ["a.py", "sub/deep/c.py", "b.py"]
    assert glob("*.py") == ["a.py", "b.py"]
    assert glob("./*.py") == ["a.py", "b.py"]
    assert glob(f"{root}/sub/**") == ["sub/deep/c.py"]


def test_braces_and_hidden_files(glob, root: Path) -> None:
    plant(root, "a.ts", "b.tsx", ".hidden.ts", "c.js")
    assert glob("*.{ts,tsx}") == [".hidden.ts", "b.tsx", "a.ts"]


def test_a_folder_is_searched_and_paths_stay_usable(glob, context, root: Path) -> None:
    plant(root, "a.py", "sub/b.py")
    assert glob("*.py", path="sub") == ["sub/b.py"]
    context.workspace.cwd = root / "sub"
    assert glob("*.py") == ["b.py"]
    assert glob("*.py", path="..") == [str(root / "a.py")]


def test_more_than_the_limit_is_counted(glob, root: Path) -> None:
    plant(root, *(f"{n}.py" for n in range(105)))
    found = glob("*.py")
    assert found[:2] == ["104.py", "103.py"]
    assert found[100:] == ["[5 more files match; narrow the pattern or raise limit]"]
    assert len(glob("*.py", limit=3)) == 4


def test_what_git_ignores_is_left_out(glob, root: Path) -> None:
    plant(root, "keep.log", "a.log", "build/x.py", "sub/.git/config", ".git/config", "sub/a.tmp")
    plant(root, "sub/b.py", "sub/secret/key")
    (root / ".gitignore").write_text("*.log\n!keep.log\nbuild/\n.gitignore\n")
    (root / "sub" / ".gitignore").write_text("/secret\n*.tmp\n.gitignore\n")
    assert sorted(glob("**")) == ["keep.log", "sub/b.py"]
    assert glob("**", path="sub") == ["sub/b.py"]


def test_links_are_not_followed(glob, root: Path) -> None:
    plant(root, "a.py", "../outside/b.py")
    (root / "link").symlink_to(root.parent / "outside")
    (root / "loop").symlink_to(root)
    (root / "c.py").symlink_to(root / "a.py")
    assert glob("**/*.py") == ["a.py"]


def test_nothing_found_says_so_and_helps(glob, root: Path) -> None:
    assert glob("*.py") == ["no file matches *.py in .; try **/*.py for all folders"]
    assert glob("**/*.py") == ["no file matches **/*.py in ."]


def test_names_that_are_no_utf8_do_no_harm(glob, root: Path) -> None:
    os.close(os.open(os.fsencode(root) + b"/caf\xe9 \n.py", os.O_CREAT))
    assert "\n".join(glob("*.py")) == "caf\ufffd \\n.py"


def test_too_many_files_are_refused(glob, root: Path, monkeypatch) -> None:
    plant(root, "a.py", "b.py", "c.py")
    monkeypatch.setattr(glob_module, "_MAX_FOUND", 2)
    with pytest.raises(ToolError, match="more than 2 files"):
        glob("*.py")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"pattern": "*", "path": "a.py"}, "a.py is not a folder"),
        ({"pattern": "*", "path": "missing"}, "there is no folder missing"),
        ({"pattern": "/etc/*"}, "is not in"),
        ({"pattern": "{a,b}" * 10}, "more than 1000 patterns"),
        ({"pattern": "*", "path": "x" * 300}, "can't list"),
    ],
)
def test_what_can_not_be_listed_is_told(call, root: Path, data, message: str) -> None:
    plant(root, "a.py")
    with pytest.raises(ToolError, match=message):
        call(Glob(), **data)


def test_a_listing_that_takes_too_long_is_stopped(call, root: Path, monkeypatch) -> None:
    monkeypatch.setattr(glob_module, "_SECONDS", 0)
    plant(root, "a.py")
    with pytest.raises(ToolError, match="took over 0 s"):
        call(Glob(use_ripgrep=False), pattern="*")


async def test_a_cancel_stops_the_walk_of_a_huge_tree(
    context: AgentContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def endless(_base: Path, _root: Path, check):
        token.run_sync_soon(entered.set)
        while True:
            check()
            yield "other.py"

    monkeypatch.setattr(glob_module, "walk_files", endless)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            tool = Glob(use_ripgrep=False)
            nursery.start_soon(tool.execute, {"pattern": "none"}, context)
            await entered.wait()
            nursery.cancel_scope.cancel()


def test_rules_see_the_folder(context: AgentContext) -> None:
    assert Glob().effects({"pattern": "*"}, context) == (ReadPath(".", "*"),)
    assert Glob().info({"pattern": "*", "path": "src"}).details == "* in src"


def test_a_folder_that_is_gone_meanwhile_counts_as_empty(root: Path) -> None:
    assert list(walk_files(root / "gone", root, lambda: None)) == []


def test_a_folder_outside_the_workspace_has_rules_of_its_own(root: Path, tmp_path: Path) -> None:
    plant(tmp_path, "other/a.py", "other/b.log")
    (tmp_path / "other" / ".gitignore").write_text("*.log\n")
    assert list(walk_files(tmp_path / "other", root, lambda: None)) == [".gitignore", "a.py"]


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", ".py"], ["a/b.py", "a.pyc"]),
        ("**/*.py", ["a.py", "x/y/a.py"], ["a.txt"]),
        ("a/**", ["a/b", "a/b/c"], ["b/a"]),
        ("a/**/b/**/c", ["a/b/c", "a/x/b/y/z/c", "a/b/b/c"], ["a/c", "a/b/c/d"]),
        ("?[a-c][!x][^y]", ["1aab"], ["1axb", "1aay", "aab"]),
        (r"\*\?", ["*?"], ["ab"]),
        ("{a,b/{c,d}}.x", ["a.x", "b/c.x", "b/d.x"], ["b/.x"]),
        ("{a}{,b}", ["{a}", "{a}b"], ["a"]),
        ("{a,b}/*", ["a/x", "{a,b}/x"], ["{a/x"]),
        (r"a\\b\c*", [r"a\bc", r"a\bcd"], ["abc", r"a\b\c"]),
        ("a\\", ["a", "a\\"], ["ab"]),
        (r"**/a\*b", [r"a\*b", "a*b", r"x/y/a\*b"], [r"xa\*b", r"a\xb"]),
        ("[", ["["], ["a"]),
        ("./a//b", ["a/b"], ["a"]),
    ],
)
def test_patterns(pattern: str, matching: list[str], other: list[str]) -> None:
    compiled = GlobPattern(pattern)
    assert [path for path in [*matching, *other] if compiled.matches(path)] == matching


def test_an_awkward_pattern_takes_no_time() -> None:
    assert not GlobPattern("**/" * 30 + "*a" * 30 + "b").matches("/".join(["a" * 200] * 60))


@pytest.mark.parametrize("pattern", ["{" * 100_000, "{a" * 50_000 + "}" * 50_000])
def test_braces_of_any_depth_take_no_time(pattern: str) -> None:
    assert list_alternatives(pattern) == [pattern]


async def test_a_pattern_beyond_all_measure_is_refused(context: AgentContext) -> None:
    registry = ToolRegistry([Glob(), Grep()])
    with trio.fail_after(60):
        glob = await registry.execute("Glob", {"pattern": "{" * 1_001}, context)
        grep = await registry.execute("Grep", {"pattern": "x", "glob": "{" * 1_001}, context)
    assert glob.is_error
    assert grep.is_error


@given(st.text("a,{}", max_size=12))
def test_braces_never_fail_and_end(pattern: str) -> None:
    assert list_alternatives(pattern)


def test_a_line_of_blanks_takes_no_time() -> None:
    assert IgnoreRules.parse(["a" + " " * 200_000 + "b"]).ignores("a" + " " * 200_000 + "b")


IGNORES = """
# a comment
*.log
!keep.log
/top.txt
build/
docs/*.html
**/cache
deep/**
!deep/
a/**/z
\\#odd
\\!odd
trail\\ 
back\\\\slash
blank   
sub/
!sub/inner
?.one
[xy].two
/
"""  # noqa: W291

PATHS = [
    *["a.log", "keep.log", "x/keep.log", "top.txt", "x/top.txt", "build/f", "x/build/f", "build2"],
    *["docs/a.html", "docs/x/a.html", "cache", "x/cache/f", "deep/f", "deep/x/f", "a/z", "a/b/c/z"],
    *["#odd", "!odd", "odd", "trail ", "trail", "blank", "sub/inner", "sub/f", "q.one", "qq.one"],
    *["x.two", "z.two", "other/deep/f", "comment", "back\\slash", "backslash"],
]


def test_a_negated_class_that_is_not_closed_ignores_nothing_else():
    assert not IgnoreRules.parse(["[^]["]).ignores("x")
    assert IgnoreRules.parse(["[^]]"]).ignores("x")


@needs("git")
def test_ignore_rules_agree_with_git(root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text(IGNORES)
    (root / "x").mkdir()
    (root / "x" / ".gitignore").write_text("!top.txt\nkeep.log\n")
    plant(root, *PATHS)
    (root / "build2").unlink()
    (root / "build2").symlink_to("build")
    command = ["git", "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=root, check=True, capture_output=True).stdout
    wanted = set(listed.decode().split("\0")) - {"", "build2"}
    assert set(walk_files(root, root, lambda: None)) == wanted
    assert set(walk_files(root / "x", root, lambda: None)) == {
        path[2:] for path in wanted if path.startswith("x/")
    }


def test_rules_of_a_file_that_is_no_file_are_none(root: Path) -> None:
    os.mkfifo(root / ".gitignore")
    assert not IgnoreRules.parse([]).below(root, "").ignores("a")


def test_a_file_that_is_gone_meanwhile_counts_as_old(root: Path) -> None:
    plant(root, "a.py")
    assert glob_module._newest(root, ["gone.py", "a.py"], 2) == [root / "a.py", root / "gone.py"]


def test_a_gitignore_with_a_mark_or_dos_lines_is_obeyed(call, root: Path) -> None:
    (root / ".gitignore").write_bytes(b"\xef\xbb\xbf*.log\r\nb.txt\r\n")
    for name in ("a.log", "a.txt", "b.txt"):
        (root / name).touch()
    assert call(Glob(use_ripgrep=False), pattern="[ab].*").text == "a.txt"
