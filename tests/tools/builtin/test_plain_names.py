"""Names as a model types them, and names that look like patterns."""

import os
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from greenroom.core import AgentContext, ReadPath, RuleDecision, ToolError, WritePath
from greenroom.fs._internal import NamePattern
from greenroom.permissions import PermissionManager, PermissionRule
from greenroom.tools import Edit, Glob, Grep, Read, Write
from greenroom.tools.builtin import plain_names
from greenroom.tools.builtin.plain_names import find_named, plain_name
from tests.absent_programs import needs

NAMES = [
    ("Shot at 1.00\u202fPM.txt", "Shot at 1.00 PM.txt"),
    ("a\u00a0b.txt", "a b.txt"),
    (unicodedata.normalize("NFD", "café.txt"), "café.txt"),
    ("café.txt", unicodedata.normalize("NFD", "café.txt")),
    ("it\u2019s.txt", "it's.txt"),
    ("\u201ca\u201d \u2013 b.txt", '"a" - b.txt'),
    ("a\u200bb.txt", "ab.txt"),
    (unicodedata.normalize("NFD", "한국어") + "/" + unicodedata.normalize("NFD", "é"), "한국어/é"),
]


@pytest.fixture(params=NAMES, ids=ascii)
def named(request, root: Path) -> tuple[str, str]:
    real, typed = request.param
    (root / real).parent.mkdir(exist_ok=True)
    (root / real).write_text("one\n")
    return real, typed


def test_the_one_file_of_that_plain_name_is_meant(call, root: Path, named) -> None:
    real, typed = named
    result = call(Read(), file_path=typed)
    assert result.text.startswith("     1\tone\n")
    assert f"[the name on the disk is {real!a}]" in result.text
    edited = call(Edit(), file_path=typed, old_string="one", new_string="two")
    assert f"[the name on the disk is {real!a}]" in edited.text
    written = call(Write(), file_path=str(root / typed), content="three\n")
    assert written.text.startswith("replaced ")
    assert f"[the name on the disk is {real!a}]" in written.text
    assert (root / real).read_text() == "three\n"
    assert not os.path.lexists(root / typed)


@pytest.mark.every(3)
@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=needs("rg")), False])
def test_searches_find_it_too(call, root: Path, named, use_ripgrep: bool) -> None:
    real, typed = named
    assert call(Glob(use_ripgrep=use_ripgrep), pattern=typed).text == real
    assert call(Grep(use_ripgrep=use_ripgrep), pattern="one", path=typed).text == real
    if "\u200b" not in real:  # ripgrep is given only names that may differ
        assert call(Grep(use_ripgrep=use_ripgrep), pattern="one", glob=typed).text == real


def test_rules_judge_the_name_on_the_disk(context: AgentContext, root: Path, named) -> None:
    real, typed = named
    change = {"file_path": typed, "old_string": "a", "new_string": "b", "content": ""}
    assert Read().effects(change, context) == (ReadPath(str(root / real)),)
    assert Edit().effects(change, context) == (WritePath(str(root / real)),)
    assert Write().effects(change, context) == (WritePath(str(root / real)),)
    assert Grep().effects({"path": typed}, context) == (ReadPath(str(root / real)),)
    rules = [PermissionRule.deny_path(real), PermissionRule.allow_all()]
    manager = PermissionManager(rules)
    assert manager.check(Read(), {"file_path": typed}, context) is RuleDecision.DENY


def test_two_files_of_one_plain_name_are_never_taken_for_each_other(call, root: Path) -> None:
    for space in "\u00a0\u202f":
        (root / f"a{space}b.txt").write_text("x\n")
    with pytest.raises(ToolError, match="no file a b"):
        call(Read(), file_path="a b.txt")
    call(Write(), file_path="a b.txt", content="new\n")
    assert "the name on the disk" not in call(Read(), file_path="a b.txt").text
    assert len(os.listdir(root)) == 3


def test_a_name_that_exists_is_that_file(root: Path) -> None:
    (root / "a b").touch()
    (root / "a\u00a0b").touch()
    assert find_named(str(root / "a b")) == str(root / "a b")
    assert find_named(str(root / "a\u00a0b")) == str(root / "a\u00a0b")


def test_a_huge_folder_is_not_searched(root: Path, monkeypatch) -> None:
    monkeypatch.setattr(plain_names, "_MAX_ENTRIES", 1)
    for name in ("a\u00a0b", "c"):
        (root / name).touch()
    assert find_named(str(root / "a b")) == str(root / "a b")


@pytest.mark.parametrize("path", ["/", "/no/such\0name", "/" + "é" * 5_000, "/dev/null/é"])
def test_a_path_that_can_not_be_is_itself(path: str) -> None:
    assert find_named(path) == path


@given(st.text(max_size=20))
def test_a_plain_name_is_its_own_plain_name(name: str) -> None:
    once = plain_name(name)
    assert plain_name(once) == once
    assert plain_name(unicodedata.normalize("NFD", name)) == once


BRACKETS = [
    ("app/[id]/page.tsx", ["app/[id]/page.tsx", "app/[id]/*.tsx", "**/[id]/*", "app/[[]id]/*"]),
    (
        "app/[...slug]/[[...x]].ts",
        ["app/[...slug]/[[...x]].ts", "app/[...slug]/*", "**/[[...x]].*"],
    ),
    ("k[1].txt", ["k[1].txt", "k[1].*", "*[1].txt"]),
    ("(group)/@modal/a.ts", ["(group)/@modal/*.ts"]),
    ("{slug}/a.ts", ["{slug}/*.ts", "{slug}/a.ts"]),
    ("what?*.md", ["what?*.md", "what??.md"]),
]


@pytest.mark.in_turns("use_ripgrep")
@pytest.mark.parametrize(("path", "patterns"), BRACKETS)
@pytest.mark.parametrize("use_ripgrep", [pytest.param(True, marks=needs("rg")), False])
def test_signs_of_patterns_in_names_are_found(
    call, root: Path, path: str, patterns: list[str], use_ripgrep: bool
) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("x\n")
    for pattern in patterns:
        assert call(Glob(use_ripgrep=use_ripgrep), pattern=pattern).text == path
        assert call(Grep(use_ripgrep=use_ripgrep), pattern="x", glob=pattern).text == path
    assert call(Grep(use_ripgrep=use_ripgrep), pattern="x", path=os.path.dirname(path)).text == path
    assert "x" in call(Read(), file_path=path).text


def test_a_set_is_still_a_set_and_git_knows_only_sets(call, root: Path) -> None:
    for name in ("a1", "a2", "a[12]", "b3", "b[34]"):
        (root / name).write_text("x")
    (root / ".gitignore").write_text("b[34]\n")
    shown = call(Glob(use_ripgrep=False), pattern="*[0-9]*").text.split("\n")
    assert sorted(shown) == ["a1", "a2", "a[12]", "b[34]"]
    found = call(Glob(use_ripgrep=False), pattern="a[12]").text.split("\n")
    assert sorted(found) == ["a1", "a2", "a[12]"]


@pytest.mark.parametrize("path", ["app/[id]/page.tsx", "app/[id]/x/y"])
def test_rules_about_such_names_hold(context: AgentContext, path: str) -> None:
    for rule in ("app/[id]/**", "**/[id]/**"):
        denied = PermissionManager([PermissionRule.deny_path(rule)])
        assert denied.check(Read(), {"file_path": path}, context) is RuleDecision.DENY
        allowed = PermissionManager([PermissionRule.allow_path(rule)])
        assert allowed.check(Read(), {"file_path": path}, context) is RuleDecision.ALLOW


@given(st.text("a[]!^-*?b", max_size=8))
def test_a_name_matches_the_pattern_that_is_written_like_it(name: str) -> None:
    assert NamePattern(name).fits(name)
