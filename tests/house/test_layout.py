"""The house rules that a tool does not check: sizes, borders, documented names."""

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

import greenroom
from tests import absent_programs

ROOT = Path(greenroom.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))


class Facts(NamedTuple):
    """What the rules ask about a module, found in one walk through it."""

    imports: list
    functions: list
    unknown: list


@cache
def read(module):
    tree = ast.parse(module.read_text())
    nodes = list(ast.walk(tree))
    known = {name for node in nodes for name in identifiers(node)}
    return Facts(
        [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)],
        [(name, length(each)) for name, each in functions(tree, name_of(module))],
        [f"{node.name}: {name}" for node in nodes for name in documented(node) - known],
    )


def imports(module):
    return read(module).imports


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
        if node.module.removesuffix("._internal").count(".") > 1
        if node.module.split(".")[1] != package_of(module)
    ]
    assert reaching == []


def name_of(file):
    parts = file.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def targets(node, names):
    """Yield the modules that an import names: a module of a package, or the package itself."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in names)
    elif node.module in names:
        modules = {f"{node.module}.{alias.name}" for alias in node.names}
        yield from modules & names
        if modules - names:
            yield node.module


@cache
def import_graph():
    """Return what each module imports, wherever: in functions, and for annotations alone.

    A package leads to each of its modules: to what it offers, and so that none of them imports it.
    """
    files = [*MODULES, *ROOT.rglob("*.pyi")]
    names = {name_of(file) for file in files}
    graph = {name: set() for name in names}
    for file in files:
        for node in imports(file):
            graph[name_of(file)].update(targets(node, names))
        if file.stem == "__init__":
            package = name_of(file)
            graph[package] |= {name for name in names if name.startswith(f"{package}.")}
    return graph


def reachable(start, graph):
    found, waiting = set(), [*graph[start]]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph[name]
    return found


def test_no_import_is_part_of_a_cycle():
    graph = import_graph()
    below = {name: reachable(name, graph) for name in graph}
    cyclic = {(a, b) for a in graph for b in graph[a] if a in below[b]}
    assert sorted(f"{a} -> {b}" for a, b in cyclic) == []


def functions(node, prefix):
    """Yield each function below a node, with its dotted name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{prefix}.{child.name}"
            if not isinstance(child, ast.ClassDef):
                yield name, child
            yield from functions(child, name)
        else:
            yield from functions(child, prefix)


def length(function):
    """Count the lines from `def` on, without the docstring."""
    first = function.body[0]
    docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(function) else 0
    return function.end_lineno - function.lineno + 1 - docstring


def test_functions_are_short():
    every = (each for module in MODULES for each in read(module).functions)
    assert [name for name, lines in every if lines > 60] == []


def classes():
    for module in MODULES:
        if module.stem != "__main__":
            name = name_of(module)
            for value in vars(importlib.import_module(name)).values():
                if inspect.isclass(value) and value.__module__ == name:
                    yield value


def is_ours(kind):
    return kind.__module__.partition(".")[0] == "greenroom"


def test_a_class_has_at_most_one_ancestor_of_ours():
    """Our protocols are ancestors too. Errors make a tree, and values on the wire are structs."""
    assert [
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in classes()
        if sum(map(is_ours, kind.__mro__[1:])) > 1
        if not issubclass(kind, BaseException | msgspec.Struct)
    ] == []


def test_no_module_is_named_as_its_folder():
    assert [module for module in MODULES if module.stem == module.parent.name] == []


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
    assert importers("asyncio") - {"runtime/thread_calls.py"} == {
        name for name in importers("asyncio") if name.startswith("cli/")
    }


def test_no_group_is_repeated_possessively():
    """Before Python 3.11.5 `re` matches `(?:…)*+` wrongly; it is right about `(?>(?:…)*)`."""
    possessive = re.compile(r"(?<![\\(])\)(?:[*+?]|\{\{?\d*,?\d*\}\}?)\+")
    assert [str(module) for module in MODULES if possessive.search(module.read_text())] == []


def test_nothing_is_raised_while_a_group_is_handled():
    """Before Python 3.11.4 what an `except*` raises comes out as a group of its own."""
    raising = [
        f"{module}:{node.lineno}"
        for module in MODULES
        for tried in ast.walk(ast.parse(module.read_text()))
        if isinstance(tried, ast.TryStar)
        for handler in tried.handlers
        for node in ast.walk(handler)
        if isinstance(node, ast.Raise)
    ]
    assert raising == []


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
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.ismethod(value)):
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


def documented(node):
    """Return the attributes and arguments that the docstring of a class or function lists."""
    found = set()
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        for part in re.split(r"\n(?=\w+:\n)", ast.get_docstring(node) or ""):
            if part.startswith(("Attributes:\n", "Args:\n")):
                found.update(re.findall(r"^    \**(\w+): ", part, re.MULTILINE))
    return found


def identifiers(node):
    """Yield the names that code has, and no words of its texts."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
            yield name
        case ast.keyword(arg=name) | ast.ClassDef(name=name) | ast.FunctionDef(name=name):
            yield name
        case ast.AsyncFunctionDef(name=name) | ast.alias(name=name):
            yield name


def test_documented_attributes_and_arguments_exist():
    gone = {module: read(module).unknown for module in MODULES}
    assert {module: names for module, names in gone.items() if names} == {}


def test_what_tests_need_is_installed_before_all_of_them_must_run():
    script = (ROOT.parent / ".ci" / "run").read_text()
    installed = re.search(r"for pair in (.*?); do", script, re.DOTALL)[1].split()
    packages = {package for _, _, package in (pair.partition(":") for pair in installed)}
    assert {*absent_programs.PACKAGES.values()} <= packages
