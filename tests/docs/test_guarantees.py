"""Each guarantee links tests, and each test that is linked exists."""

import ast
import re
from functools import cache
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "guarantees.md"
LINK = re.compile(r"\[\d+\]\((?P<path>\.\./\.\./tests/[\w/]+\.py) \"(?P<name>\w+)\"\)")


def areas():
    """Yield the rows of each area, a row as its guarantee, its limit and its links."""
    for area in PAGE.read_text().split("\n## ")[1:]:
        rows = re.findall(r"^\| (.*) \|$", area, re.MULTILINE)
        assert rows[:2] == ["guarantee | limits | tests", "--- | --- | ---"]
        yield [re.split(r"(?<!\\)\|", row) for row in rows[2:]]


@cache
def defined_in(path):
    tree = ast.parse((PAGE.parent / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


def test_every_test_that_is_linked_exists():
    links = list(LINK.finditer(PAGE.read_text()))
    assert len(links) == PAGE.read_text().count("/tests/") > 700
    missing = [link.group() for link in links if link["name"] not in defined_in(link["path"])]
    assert missing == []


def test_a_row_is_a_guarantee_or_a_limit_and_every_guarantee_links_a_test():
    rows = [[cell.strip() for cell in row] for area in areas() for row in area]
    assert len(rows) > 250
    assert [row for row in rows if len(row) != 3 or bool(row[0]) == bool(row[1])] == []
    assert [row for row in rows if row[0] and not LINK.search(row[2])] == []


def test_a_cell_is_read_at_a_glance():
    cells = [cell.strip() for area in areas() for row in area for cell in row[:2]]
    assert [cell for cell in cells if len(cell.split()) > 25] == []


def test_the_limits_of_every_area_link_a_test():
    for area in areas():
        limits = [row for row in area if row[1].strip()]
        assert not limits or any(LINK.search(row[2]) for row in limits), limits


def test_the_areas_are_listed_first():
    head, *found = PAGE.read_text().split("\n## ")
    listed = re.findall(r"^- \[(.*)\]\(#", head, re.MULTILINE)
    assert listed == [area.partition("\n")[0] for area in found]
