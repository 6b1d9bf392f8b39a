"""Our programs are as short as the page for newcomers says, and no longer than theirs."""

import ast
import importlib
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOW_TO = ROOT / "docs" / "how-to"
PAGES = {
    "coming-from.md": {"pydantic/pydantic-ai": 5, "openai/openai-agents-python": 5},
    "coming-from-teams.md": {
        "langchain-ai/": 6,
        "microsoft/autogen": 2,
        "crewAIInc/crewAI": 1,
        "openai/openai-agents-python": 1,
    },
}
SIZE = r"(\d+) lines, (\d+) statements\."
PROGRAM = re.compile(
    rf"^### (?P<task>.+?)\n\n\[.+?\]\((?P<link>\S+)\):\s{SIZE} Here: {SIZE}\n"
    r"(?P<rest>.*?)(?=^### |\Z)",
    re.MULTILINE | re.DOTALL,
)
PROGRAMS = {page: list(PROGRAM.finditer((HOW_TO / page).read_text())) for page in PAGES}
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def counts(statement):
    """Whether a statement is neither an import nor a string that stands alone."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return not isinstance(statement.value.value, str)
    return not isinstance(statement, ast.Import | ast.ImportFrom)


def measure(source):
    """Count lines and statements as the page says that they are counted."""
    statements = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    lines = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for statement in statements:
        if not counts(statement):
            lines.difference_update(range(statement.lineno, statement.end_lineno + 1))
    return len(lines), sum(map(counts, statements))


def test_what_counts():
    source = '''\
import os
from os import (
    path,
)

@print  # a line, but not a statement
def function(
    parameter,
):
    """Say something.

    More of it.
    """
    # a comment
    return """one

two"""

function()
"""what it prints"""
'''
    assert measure(source) == (8, 3)


@pytest.mark.parametrize("page", PAGES)
def test_there_are_ten_programs_from_these_manuals(page):
    sources = [program["link"] for program in PROGRAMS[page]]
    assert len(sources) == (HOW_TO / page).read_text().count("\n### ") == 10
    for repository, count in PAGES[page].items():
        assert sum(f"github.com/{repository}" in link for link in sources) == count
    # A commit and lines, so that what was counted can be counted again.
    for link in sources:
        assert re.search(r"/blob/[0-9a-f]{40}/\S+\?plain=1#L\d+-L\d+$", link), link


@pytest.mark.parametrize(
    "program",
    [program for page in PAGES for program in PROGRAMS[page]],
    ids=lambda program: program["task"],
)
def test_a_program_is_no_longer_than_theirs(program):
    (source,) = re.findall(r"^```python\n(.*?)^```", program["rest"], re.MULTILINE | re.DOTALL)
    *theirs, lines, statements = map(int, program.group(3, 4, 5, 6))
    assert measure(source) == (lines, statements)
    assert lines <= theirs[0]
    assert statements <= theirs[1]


def offered():
    """Return everything that packages offer, by name."""
    fronts = (ROOT / "greenroom").glob("*/__init__.py")
    modules = [importlib.import_module(f"greenroom.{path.parent.name}") for path in fronts]
    return {name: getattr(module, name) for module in modules for name in dir(module)}


def test_our_names_for_those_of_papers_exist():
    ours, missing, count = offered(), [], 0
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \|", (HOW_TO / "coming-from-designs.md").read_text(), re.MULTILINE
    )
    for _, here in rows:
        for code in re.findall(r"`([A-Za-z]\w*(?:\.\w+)?)`", here):
            name, _, member = code.partition(".")
            if code.islower() and name not in ours:
                continue  # a member or an option, which stands with its class
            count += 1
            fields = getattr(ours.get(name), "__annotations__", {})
            if name not in ours or (member and member not in (*dir(ours[name]), *fields)):
                missing.append(code)
    assert count > 80
    assert missing == []
