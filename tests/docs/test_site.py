"""The site has an entry for every public name, with its signature, and needs no other server."""

import html
import importlib
import inspect
import json
import os
import re
import subprocess
from enum import Enum
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import is_typeddict

import pytest

import greenroom

ROOT = Path(__file__).parents[2]
TOOLS = ("zensical", "mkdocstrings_handlers", "griffe")

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, TOOLS)), reason="needs the tools of the extra `docs`"
)

FRONTS = (path.parent.relative_to(ROOT) for path in (ROOT / "greenroom").rglob("*/__init__.py"))
NAMES = (".".join(path.parts) for path in FRONTS)
PACKAGES = sorted(name for name in NAMES if hasattr(importlib.import_module(name), "__all__"))


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if built := os.environ.get("GREENROOM_SITE"):  # `.ci/run` builds it once for all workers
        return Path(built)
    folder = tmp_path_factory.mktemp("docs") / "site"
    run = subprocess.run(
        [ROOT / ".ci" / "docs", folder], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


@cache
def read_entries(page):
    """Return the signatures on a page of the reference, by the ids of their headings."""
    heads = r'<h[2-6] id="(greenroom\.[^"]+)"'
    _, *parts = re.split(heads, page.read_text())
    signature = r'<div class="[^"]*doc-signature[^"]*">(.*?)</div>'
    found = {}
    for name, body in zip(parts[::2], parts[1::2], strict=True):
        shown = "".join(re.findall(signature, body, re.DOTALL))
        found[name] = html.unescape(re.sub("<[^>]*>", "", shown))
    return found


def find_parameters(value):
    """Return the names of a callable's parameters, which its signature has to show."""
    kinds = (Enum, BaseException)
    if isinstance(value, type) and (is_typeddict(value) or issubclass(value, kinds)):
        return []
    if not (isinstance(value, type) or inspect.isroutine(value)):
        return []
    if getattr(value, "_is_protocol", False):
        return []
    parameters = inspect.signature(value).parameters.values()
    return [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_has_an_entry_with_its_signature(site, package):
    entries = read_entries(site / "reference" / "api" / package / "index.html")
    module = importlib.import_module(package)
    wrong = []
    for name in module.__all__:
        value = getattr(module, name)
        signature = entries.get(f"{package}.{name}")
        words = set(re.findall(r"\w+", signature or ""))
        if not inspect.ismodule(value) and (
            signature is None or not words >= set(find_parameters(value))
        ):
            wrong.append((name, signature))
    assert wrong == [], "a constant needs a docstring, below the line that defines it"


def test_what_most_programs_need_is_one_list_that_leads_to_the_entries(site):
    page = (site / "reference" / "api" / "greenroom" / "index.html").read_text()
    linked = re.findall(r'href="\.\./([\w.]+)/#([\w.]+)"', page)
    offered = set(greenroom.__all__) - {"__version__"}
    assert {name.rpartition(".")[2] for _, name in linked} == offered
    api = site / "reference" / "api"
    lost = [name for home, name in linked if name not in read_entries(api / home / "index.html")]
    assert lost == []


def test_options_are_written_out(site):
    entries = read_entries(site / "reference" / "api" / "greenroom.tools" / "index.html")
    assert "requires_permission: bool | None = ..." in entries["greenroom.tools.tool"]


def test_what_calls_return_has_its_methods_without_a_door(site):
    api = site / "reference" / "api"
    for package, names in {
        "greenroom.runtime": ("Supervisor.wait", "Turn.set_result", "Turn.suspend"),
        "greenroom.agents": ("AgentRun.text", "RestorePlan.apply"),
    }.items():
        offered = importlib.import_module(package).__all__
        entries = read_entries(api / package / "index.html")
        for name in names:
            assert name.partition(".")[0] not in offered
            assert entries[f"{package}.{name}"]
        assert "<code>returned</code>" in (api / package / "index.html").read_text()


def test_docstrings_have_their_sections_and_examples(site):
    page = (site / "reference" / "api" / "greenroom.core" / "index.html").read_text()
    entry = page.partition('id="greenroom.core.Usage"')[2].partition("<h2 ")[0]
    assert {"Attributes:", "Examples:"} <= set(re.findall(r"doc-section-title\">(.*?)<", entry))
    assert "doc-section-title" in entry
    assert "&gt;&gt;&gt;" in entry


def test_the_navigation_is_the_map(site):
    page = (site / "index.html").read_text()
    tabs = page.partition("md-tabs__list")[2].partition("</nav>")[0]
    shown = [
        " ".join(tab.split()) for tab in re.findall(r"md-tabs__link.*?>(.*?)</a>", tabs, re.DOTALL)
    ]
    headings = re.findall("^## (.*)$", (ROOT / "docs" / "README.md").read_text(), re.MULTILINE)
    assert shown == ["Home", *headings]


def test_pages_need_no_other_server(site):
    loaded = r'<(?:script|img|iframe|source)[^>]+src="(?:https?:)?//|<link[^>]+href="(?:https?:)?//'
    pages = list(site.rglob("*.html"))
    assert len(pages) > 100
    assert [page for page in pages if re.search(loaded, page.read_text())] == []
    sheets = "".join(sheet.read_text() for sheet in site.rglob("*.css"))
    assert not re.search(r"@import|url\([\"']?(?:https?:)?//", sheets)


def test_pages_are_found_by_their_words(site):
    index = json.loads((site / "search.json").read_text())
    assert any("greenroom.agents.Agent" in str(each) for each in index["items"])
