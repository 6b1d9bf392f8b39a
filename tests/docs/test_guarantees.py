"""Each guarantee names tests, and each test that is named exists."""

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "guarantees.md").read_text()
LINK = r"\[`(tests/[\w/]+\.py)::(\w+)`\]\((?:\.\./)+([\w/.]+)\)"


@cache
def defined_in(path):
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in tree.body if isinstance(node, functions)}


def test_every_test_that_is_named_exists_in_the_file_that_is_linked():
    named = re.findall(LINK, PAGE)
    assert len(named) == PAGE.count("::test_") > 50
    missing = [
        f"{path}::{name}"
        for path, name, target in named
        if path != target or name not in defined_in(path)
    ]
    assert missing == []


def test_every_guarantee_names_a_test():
    guarantees = re.findall(r"^- .*?(?=^\S|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert len(guarantees) > 40
    assert [each for each in guarantees if not re.search(LINK, each)] == []


def test_every_paragraph_of_limits_names_a_test():
    limits = re.findall(r"^\*Limits?\.\*.*?(?=^$|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert len(limits) > 10
    assert [each for each in limits if not re.search(LINK, each)] == []
