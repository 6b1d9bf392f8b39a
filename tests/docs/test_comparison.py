"""The page that compares: our cells lead to programs that tests run, theirs to their own pages."""

import re

from tests.docs.test_code import PAGES, ROOT

PAGE = ROOT / "docs" / "comparison.md"
OWN = (
    "ai.pydantic.dev",
    "docs.langchain.com",
    "openai.github.io",
    "learn.microsoft.com",
    "github.com/microsoft",
    "google.github.io/adk-docs",
    "code.claude.com",
    "platform.claude.com",
)
LINK = re.compile(r"\[[^\]]+\]\(([^)]+)\)")


def rows():
    """Return the rows of both tables, without their heads."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    assert [row[1] for row in cells].count("Greenroom") == 2
    return [row for row in cells if row[1] not in {"Greenroom", "---"}]


def test_each_of_our_cells_leads_to_a_program_that_a_test_runs():
    found = {(name, ours) for name, ours, *_ in rows()}
    assert 10 < len(found) == len(rows()) / 2  # our column is the same in both
    for name, ours in found:
        links = LINK.findall(ours)
        assert links, name
        for link in links:
            check_program(name, (PAGE.parent / link.partition("#")[0]).resolve())


def check_program(name, target):
    """Check that a page has programs, all of which are run, or that a test runs this one."""
    if target.suffix == ".md" and target.is_relative_to(ROOT / "docs"):
        assert target in PAGES
        assert "```python" in target.read_text()
    else:
        modules = [*(ROOT / "tests/examples").glob("*.py"), ROOT / "tests/interop/test_inspect.py"]
        tests = "".join(path.read_text() for path in modules)
        at = target.parent.name if target.name == "README.md" else target.name
        assert f'"{at}' in tests, name


def test_each_cell_of_theirs_is_a_link_to_their_own_pages_or_says_nothing():
    for name, _, *theirs in rows():
        assert len(theirs) == 3, name
        for cell in theirs:
            link = LINK.fullmatch(cell)
            assert cell == "—" or (link and any(each in link[1] for each in OWN)), (name, cell)


def test_its_benchmarks_name_the_day_and_the_versions_of_the_others():
    assert "(reference/benchmarks.md#beside-others)" in PAGE.read_text()
    table = (ROOT / "docs/reference/benchmarks.md").read_text().partition("## Beside others")[2]
    assert re.search(r"Measured on 20\d\d-\d\d-\d\d", table)
    for name in ("pydantic-ai-slim", "openai-agents", "langgraph", "agent-framework-core"):
        assert re.search(rf"{name} \d+\.\d+", table)


def test_it_says_when_they_were_read():
    assert re.search(r"on \*\*\d+ \w+ 20\d\d\*\*", PAGE.read_text())
    assert PAGE.read_text().count("## Where others are better") == 1
