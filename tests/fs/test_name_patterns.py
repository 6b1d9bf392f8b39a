"""Patterns of names and of paths, compared with the shell's and with slower ways."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given, strategies as st

from greenroom.fs._internal import NamePattern, expand_braces, match_names, read_names
from greenroom.fs.name_patterns import _find_braces

PARTS = [*"ab-*?", "**", "[ab]", "[!a]", "[a-b]", "[-a]", "[]a]", "[", "]"]


@given(st.lists(st.sampled_from(PARTS), max_size=7).map("".join), st.text("ab-][", max_size=7))
def test_a_pattern_fits_the_names_that_the_shell_would_say(pattern, name):
    assert NamePattern(pattern).fits(name) is fnmatchcase(name, pattern)


def test_a_set_is_negated_as_the_shell_does_it():
    for pattern in ("x[^a]", "x[!a]", "x[^]a]"):
        assert NamePattern(pattern).fits("xb")
        assert not NamePattern(pattern).fits("xa")
    assert NamePattern("[[^]").fits("^")


@pytest.mark.parametrize(
    ("pattern", "head", "tail", "plain"),
    [
        ("a.py", "a.py", "a.py", True),
        ("a*b?c", "a", "c", False),
        ("[ab]c", "", "c", False),
        ("*", "", "", False),
        ("a[", "a", "", False),
        ("", "", "", True),
        ("a**", "a", "", False),
    ],
)
def test_what_stands_before_and_behind_the_stars_is_known(pattern, head, tail, plain):
    glob = NamePattern(pattern)
    assert (glob.head, glob.tail, glob.plain) == (head, tail, plain)


def search(pattern: str) -> list[int]:
    for start in range(len(pattern)):
        depth, edges = 0, [start]
        for position in range(start, len(pattern) if pattern[start] == "{" else start):
            depth += (pattern[position] == "{") - (pattern[position] == "}")
            edges += [position] if pattern[position] == "," and depth == 1 else []
            if depth == 0 and len(edges) == 1:
                break
            if depth == 0:
                return [*edges, position]
    return []


@given(st.text("a,{}", max_size=12))
def test_the_first_braces_that_close_and_have_a_comma_are_found(pattern: str) -> None:
    assert _find_braces(pattern) == search(pattern)


def test_more_alternatives_than_wanted_are_an_error():
    assert expand_braces("{a,b}{c,d}", most=4) == ["ac", "ad", "bc", "bd"]
    with pytest.raises(ValueError, match="more than 3 alternatives"):
        expand_braces("{a,b}{c,d}", most=3)


@pytest.mark.parametrize(
    ("pattern", "path", "folder", "fits"),
    [
        ("src/**", "src/a/b", False, True),
        ("src/**", "src", False, False),
        ("src/**", "src", True, True),
        ("**/a", "a", False, True),
        ("**/a", "b/c/a", False, True),
        ("a/*/b", "a/x/y/b", False, False),
        ("a/**/b", "a/x/y/b", False, True),
    ],
)
def test_two_stars_are_any_depth(pattern, path, folder, fits):
    wanted = read_names(tuple(pattern.split("/")))
    assert match_names(wanted, path.split("/"), folder=folder) is fits
