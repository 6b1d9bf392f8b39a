"""Every page is on the map, and every link within the repository leads somewhere."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))


def links(page):
    """Return the targets of a page's links that are not on the web, without code blocks."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "code", text)
    return [link for link in re.findall(r"\]\(([^)\s]+)", text) if ":" not in link]


def is_provider(page):
    return page.parent.name == "providers"


def anchors(page):
    """Return the names by which links reach the headings of a page."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_the_map_lists_every_page_with_a_line_about_it():
    listed = re.findall(
        r"^- \[.+\]\((.+?)\): .+\.$", (DOCS / "README.md").read_text(), re.MULTILINE
    )
    inside = [page for page in listed if not page.startswith("../")]
    servers = links(DOCS / "reference" / "providers" / "compatible.md")
    pages = {
        str(page.relative_to(DOCS))
        for page in PAGES
        if not (is_provider(page) and page.name in servers)
    }
    assert sorted(inside) == sorted(pages - {"README.md"})


def test_the_reference_lists_every_package():
    packages = [path.parent.relative_to(ROOT) for path in ROOT.glob("greenroom/**/__init__.py")]
    modules = {path: importlib.import_module(".".join(path.parts)) for path in packages}
    fronts = {
        str(ROOT / path / "__init__.py") for path in packages if hasattr(modules[path], "__all__")
    }
    listed = links(DOCS / "reference" / "api" / "README.md")
    found = {str((DOCS / "reference" / "api" / link).resolve()) for link in listed}
    assert fronts <= found


def test_every_example_is_listed():
    listed = links(ROOT / "examples" / "README.md")
    examples = ROOT / "examples"
    programs = [path.name for path in examples.glob("*.py")]
    products = [str(path.relative_to(examples)) for path in examples.glob("*/README.md")]
    assert sorted(listed) == sorted(programs + products)


@pytest.mark.parametrize(
    "page",
    [*sorted(ROOT.glob("*.md")), ROOT / "examples" / "README.md", *PAGES],
    ids=lambda page: page.name,
)
def test_links_lead_somewhere(page):
    lost = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


def test_files_of_the_package_that_pages_name_exist():
    packages = "|".join(path.parent.name for path in (ROOT / "greenroom").glob("*/__init__.py"))
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(rf"`(?:greenroom/)?((?:{packages})/[\w/]+\.\w+)`", page.read_text())
    }
    assert len(named) > 20
    assert [each for each in sorted(named) if not (ROOT / "greenroom" / each[1]).exists()] == []


def test_the_glossary_says_each_word_once():
    words = re.findall(
        r"^\| (?!word|---)(.*?) \|", (DOCS / "glossary.md").read_text(), re.MULTILINE
    )
    assert len(words) == len(set(words)) > 70


def test_the_architecture_draws_every_package():
    drawing = (DOCS / "concepts" / "architecture.md").read_text().split("```")[1]
    lines = [re.split(r" {3,}", line.strip()) for line in drawing.splitlines()[1:]]
    packages = {path.parent.name for path in (ROOT / "greenroom").glob("*/__init__.py")}
    assert packages <= {word for line in lines for word in line}
