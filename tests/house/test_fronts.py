"""What a front offers: a program's names at the package, the other packages' in `_internal`."""

import ast
import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import greenroom
from greenroom.core import GreenroomError

ROOT = Path(greenroom.__file__).parents[1]
PACKAGES = sorted(f"greenroom.{path.parent.name}" for path in ROOT.glob("greenroom/*/__init__.py"))
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
# Written by programs, from the code.
GENERATED = {
    ROOT / "docs" / name
    for name in (
        "reference/chunks.md",
        "reference/errors.md",
        "reference/models.md",
        "reference/serving.md",
        "how-to/from-development-versions.md",
    )
}


def pages():
    """Yield what people have written for people who use Greenroom."""
    yield ROOT / "README.md"
    for path in sorted((ROOT / "docs").rglob("*.md")):
        if not {"api", "providers"} & set(path.parts) and path not in GENERATED:
            yield path


@cache
def programs():
    """Return every program of the pages and the examples, by its place."""
    found = {path.name: path.read_text() for path in (ROOT / "examples").rglob("*.py")}
    for page in pages():
        for block in FENCE.finditer(page.read_text()):
            if block[1] in {"python", "pycon"}:
                found[f"{page.name}:{block.start()}"] = block[2]
    return found


@cache
def imported():
    """Return the modules of ours that each program imports from, with the names."""
    found = {}
    for place, source in programs().items():
        for module, names in re.findall(
            r"^[ >]*from (greenroom[\w.]*) import (\([^)]*\)|[^\n(]+)", source, re.MULTILINE
        ):
            taken = found.setdefault(place, {}).setdefault(module, set())
            taken |= {each.split()[0] for each in names.strip("()").split(",") if each.strip()}
    return found


def offered():
    """Return every name that a program may import, and the value."""
    modules = {module for taken in imported().values() for module in taken}
    deeper = {module for module in modules if module.count(".") > 1}
    found = {}
    for package in ["greenroom", *PACKAGES]:
        front = importlib.import_module(package)
        found |= {(package, name): getattr(front, name) for name in getattr(front, "__all__", ())}
    for taken in imported().values():
        for module in deeper & set(taken):
            home = importlib.import_module(module)
            found |= {(module, name): getattr(home, name) for name in taken[module]}
    return found


def test_a_front_holds_what_programs_need_and_no_more():
    assert len(greenroom.__all__) <= 110
    names = {name for _, name in offered()}
    assert len(names) <= 350


@pytest.mark.parametrize("package", PACKAGES)
def test_a_front_lists_its_names_in_order_and_no_name_is_at_both_fronts(package):
    front = importlib.import_module(package)
    names = list(getattr(front, "__all__", ()))
    assert len(set(names)) == len(names)
    assert set(names) <= set(dir(front))
    try:
        second = importlib.import_module(f"{package}._internal")
    except ModuleNotFoundError:
        return
    assert not set(names) & {name for name in dir(second) if not name.startswith("_")}


@cache
def code_on_pages():
    """Return the words of code: in programs, in the other blocks, and in the text of pages."""
    words = set()
    for source in programs().values():
        words.update(re.findall(r"\w+", source))
    for page in pages():
        text = page.read_text()
        for block in FENCE.finditer(text):
            words.update(re.findall(r"\w+", block[2]))
        for span in re.findall(r"`([^`]+)`", FENCE.sub("", text)):
            words.update(re.findall(r"\w+", span))
    return words


def types_of(value):
    """Yield the names of the types that a program meets with a value: taken, given or raised."""
    if isinstance(value, type):
        for kind in value.__mro__:
            if kind.__module__.startswith("greenroom."):
                yield kind.__name__
                yield from _words(vars(kind).get("__annotations__", {}).values())
                for member in map(_plain, vars(kind).values()):
                    yield from types_of(member) if inspect.isfunction(member) else ()
    elif inspect.isfunction(value):
        yield from _words(value.__annotations__.values())
        raised = re.search(r"\n *Raises:\n((?: {4,}.*\n?|\n)+)", f"\n{value.__doc__ or ''}")
        yield from re.findall(r"(\w+Error): ", raised[1]) if raised else ()
    else:
        yield from re.findall(r"\w+", str(value)) if "greenroom." in str(value) else ()


def _plain(member):
    member = getattr(member, "__func__", member)
    return inspect.unwrap(member.fget if isinstance(member, property) else member)


def _words(annotations):
    for each in annotations:
        yield from re.findall(r"\w+", each if isinstance(each, str) else str(each))


def test_every_name_at_a_front_is_named_on_a_page_or_is_a_type_of_one():
    names = offered()
    known = {key for key in names if key[1] in code_on_pages()}
    types = {word for key in known for word in types_of(names[key])}
    unknown = {key for key in names if key not in known and key[1] not in types}
    errors = {key for key in unknown if isinstance(names[key], type)}
    errors = {key for key in errors if issubclass(names[key], GreenroomError)}
    assert sorted(unknown - errors - {("greenroom", "__version__")}) == []
    assert errors == set()


def test_no_page_or_example_imports_what_is_between_packages():
    within = {
        (place, module)
        for place, taken in imported().items()
        for module in taken
        if re.search(r"\._", module)
    }
    assert within == set()


def test_a_program_imports_from_few_places():
    """The top, the package that it is about, and the helpers for its test: three, as a rule."""
    places = [len(taken) for taken in imported().values()]
    assert len(places) > 200
    assert sum(count > 3 for count in places) <= len(places) / 20
    assert max(places) <= 5


def test_each_dotted_name_on_a_page_exists():
    named = re.compile(rf"`((?:{'|'.join(map(re.escape, PACKAGES))})\b(?:\.\w+)*)")
    assert [
        f"{page.name}: {name}"
        for page in pages()
        for name in named.findall(page.read_text())
        if not found(name)
    ] == []


def found(name):
    parts = name.split(".")
    value = importlib.import_module(".".join(parts[:2]))
    for depth, part in enumerate(parts[2:], 3):
        if not hasattr(value, part):
            try:
                importlib.import_module(".".join(parts[:depth]))
            except ModuleNotFoundError:
                return False
        value = getattr(value, part)
    return True


def importers():
    """Return the names that somebody takes from each second front."""
    taken = {}
    line = re.compile(r"^ *from ([\w.]+\._internal) import (\([^)]*\)|[^\n(]+)", re.MULTILINE)
    for folder in ("greenroom", "tests", "benchmarks", "docs"):
        for path in (ROOT / folder).rglob("*.py"):
            for module, names in line.findall(path.read_text()):
                whole = re.sub(r"#.*", "", names).strip("()")
                each = (name.split()[0] for name in whole.split(",") if name.strip())
                taken.setdefault(module, set()).update(each)
    return taken


def test_somebody_imports_each_name_of_a_second_front():
    taken = importers()
    for package in PACKAGES:
        path = ROOT / package.replace(".", "/") / "_internal.py"
        if path.exists():
            stub = path.with_suffix(".pyi")
            tree = ast.parse((stub if stub.exists() else path).read_text())
            names = {
                alias.name
                for node in tree.body
                if isinstance(node, ast.ImportFrom) and node.module != "greenroom._lazy"
                for alias in node.names
            }
            assert names - taken.get(f"{package}._internal", set()) == set(), package
