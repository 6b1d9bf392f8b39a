"""Braces written out, compared with a slower search for them."""

from hypothesis import given, strategies as st

from greenroom.shell.name_patterns import _find_braces


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
