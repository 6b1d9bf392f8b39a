"""Builds the documentation as a site, for `.ci/docs`.

Zensical reads one folder of pages, so they are laid out in one first: those of docs/; a
page for each module that docs/reference/api/README.md lists, which mkdocstrings fills; and every
other file that a page links to, code as plain text. The map in
docs/README.md is the navigation. Links are changed to where their targets now are, so the pages
can be read on a forge as well as on the site.
"""

import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from fronts import list_offered

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MAP = DOCS / "README.md"
API = DOCS / "reference" / "api" / "README.md"
LINK = re.compile(r"(?<=\]\()([^)\s#:]+)")


def build(folder: Path) -> None:
    """Build the site; exit with what is wrong if there is a warning."""
    with TemporaryDirectory() as name:
        stage = Path(name)
        lay_out(stage / "docs")
        (stage / ".ci").mkdir()
        shutil.copy(ROOT / ".ci" / "fronts.py", stage / ".ci")
        settings = {"site_dir": str(stage / "site"), "nav": read_map()}
        added = "".join(f"{key}: {json.dumps(value)}\n" for key, value in settings.items())
        (stage / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text() + added)
        run = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"],
            cwd=stage,
            env=os.environ | {"NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if run.returncode or "griffe: " in run.stdout:  # those are warnings of docstrings
            sys.exit(re.sub(r"\x1b\[[\d;]*m", "", run.stdout))
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(stage / "site", folder)


def lay_out(pages: Path) -> None:
    """Write all pages below a folder, and the files that they link to."""
    shutil.copytree(DOCS, pages, ignore=shutil.ignore_patterns("*.py", "__pycache__", "*.md"))
    waiting = list(DOCS.rglob("*.md"))
    modules = list_modules()
    done = set()
    while waiting:
        source = waiting.pop()
        if source in done:
            continue
        done.add(source)
        page = pages / place(source)
        page.parent.mkdir(parents=True, exist_ok=True)
        if source in modules:
            page.write_text(write_module(modules[source]))
        elif source.suffix == ".md":
            text, linked = move_links(source)
            page.write_text(text)
            waiting += linked
        else:
            shutil.copy(source, page)


def list_modules() -> dict[Path, str]:
    """Return the modules with a page in the reference, by their files."""
    files = [(API.parent / link).resolve() for link in LINK.findall(API.read_text())]
    names = {file: file.relative_to(ROOT).with_suffix("") for file in files}
    return {
        file: ".".join(name.parts).removesuffix(".__init__")
        for file, name in names.items()
        if name.parts[0] == "greenroom"
    }


def place(source: Path) -> Path:
    """Return where a file of the repository is, below the folder of pages."""
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    if source in (modules := list_modules()):
        return Path("reference", "api", f"{modules[source]}.md")
    path = source.relative_to(ROOT)
    if path.suffix == ".md":
        return path if path.parent.name else Path("project", path.name.lower())
    return Path("source", f"{path}.txt")


def move_links(source: Path) -> tuple[str, list[Path]]:
    """Return a page's text with the links as they are on the site, and the files they lead to."""
    linked = []

    def move(link: re.Match[str]) -> str:
        target = (source.parent / link[0]).resolve()
        if not target.exists() or (target.is_relative_to(DOCS) and source.is_relative_to(DOCS)):
            return link[0]
        linked.append(target)
        return os.path.relpath(place(target), place(source).parent)

    return LINK.sub(move, source.read_text()), linked


def write_module(name: str) -> str:
    """Write the page of a module: its entries, or those of its names where they are at home."""
    if name != "greenroom":
        return f"# {name}\n\n::: {name}\n"
    top = importlib.import_module(name)
    # An entry is on the page of the package that offers the name as well.
    homes = {each: home for home in sorted(list_modules().values()) for each in list_offered(home)}
    rows = [
        f"| [`{each}`][{homes[each]}.{each}] | {describe(getattr(top, each))} |"
        for each in sorted(list_offered(name), key=str.lower)
    ]
    head = f"# {name}\n\nWhat most programs need: `from greenroom import Agent`.\n\n"
    return head + "\n".join(["| name | what it is |", "| --- | --- |", *rows]) + "\n"


def describe(value: object) -> str:
    """Return the first sentence of a class's or function's docstring."""
    if not (isinstance(value, type) or inspect.isroutine(value)):
        return ""
    doc = inspect.getdoc(value) or ""
    return " ".join(doc.partition("\n\n")[0].split()).replace("|", "\\|")


def read_map() -> list[dict[str, object]]:
    """Return the navigation: the lists of the map, by their headings."""
    navigation: list[dict[str, object]] = [{"Home": "README.md"}]
    for line in MAP.read_text().splitlines():
        if line.startswith("## "):
            section: list[object] = []
            group = section
            navigation.append({line[3:]: section})
        elif line.startswith("### "):
            group = []
            section.append({line[4:]: group})
        elif found := re.match(r"- \[(.+?)\]\((.+?)\)", line):
            source = (MAP.parent / found[2]).resolve()
            group.append(
                {found[1]: str(place(source))} if source != API else {found[1]: read_api()}
            )
    return navigation


def read_api() -> list[str | dict[str, str]]:
    """Return the navigation of the modules' pages, the first of which lists them."""
    modules = {name: str(place(file)) for file, name in list_modules().items()}
    return [str(place(API)), *({name: page} for name, page in modules.items())]


if __name__ == "__main__":
    build(Path(sys.argv[1]).resolve())
