"""The house rules that a tool does not check: sizes, borders, documented names."""

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

import greenroom

ROOT = Path(greenroom.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


@cache
def imports(module):
    nodes = ast.walk(ast.parse(module.read_text()))
    return [node for node in nodes if isinstance(node, (ast.Import, ast.ImportFrom))]


def package_of(module):
    return module.relative_to(ROOT).parts[0].removesuffix(".py")


def test_a_module_is_held_at_once():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: length for name, length in lengths.items() if length > 600} == {}


def test_imports_across_packages_name_the_package():
    reaching = [
        f"{module.relative_to(ROOT)}: {ast.unparse(node)}"
        for module in MODULES
        for node in imports(module)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("greenroom.")
        if node.module.count(".") > 1 and node.module.split(".")[1] != package_of(module)
    ]
    assert reaching == []


def importers(name):
    found = set()
    for module in MODULES:
        for node in imports(module):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                names = [node.module or ""]
            if any(each.split(".")[0] == name for each in names):
                found.add(str(module.relative_to(ROOT)))
    return found


def test_one_module_imports_httpx():
    assert len(importers("httpx")) == 1


def test_only_the_terminal_adapter_and_the_thread_for_asyncio_know_asyncio():
    assert importers("asyncio") - {"runtime/crossing.py"} == {
        name for name in importers("asyncio") if name.startswith("cli/")
    }


def test_nothing_is_left_unsaid_or_undone():
    left = re.compile(r"NotImplementedError|# *(TODO|FIXME|XXX|HACK)|no cover")
    assert [str(module) for module in MODULES if left.search(module.read_text())] == []


def public_values(package):
    """Return what a package offers: in its `__all__` where it loads lazily, or what it imports."""
    names = getattr(package, "__all__", vars(package))
    values = [getattr(package, name) for name in names if not name.startswith("_")]
    return [value for value in values if not inspect.ismodule(value)]


def public_signatures(kind):
    for name, value in inspect.getmembers(kind):
        if not name.startswith("_") and callable(value):
            yield f"{kind.__name__}.{name}{inspect.signature(value)}"


def test_no_public_method_of_the_runtime_takes_or_returns_its_private_actor():
    runtime = importlib.import_module("greenroom.runtime")
    signatures = [
        signature for value in public_values(runtime) for signature in public_signatures(value)
    ]
    assert any("AgentRuntime.spawn(" in signature for signature in signatures)
    assert [signature for signature in signatures if re.search(r"\bActor\b", signature)] == []


PACKAGES = [
    info.name
    for info in pkgutil.walk_packages([str(ROOT)], "greenroom.")
    if info.ispkg and not info.name.rpartition(".")[2].startswith("_")
]


@pytest.mark.parametrize("name", PACKAGES)
def test_public_names_are_documented(name):
    package = importlib.import_module(name)
    assert package.__doc__
    for value in public_values(package):
        if inspect.isclass(value) or inspect.isfunction(value):
            assert inspect.getdoc(value), f"{value.__name__} of {name} has no docstring"
