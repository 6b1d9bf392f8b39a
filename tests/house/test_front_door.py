"""`import greenroom` is light, complete, and honest about what it offers."""

import importlib
import inspect
import os
import pkgutil
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import msgspec
import pytest
from rich.pretty import pretty_repr

import greenroom
from greenroom.llm.endpoint import Endpoint
from greenroom.session.branches import Branch

HEAVY = {"httpx", "pydantic", "jsonschema", "rich", "prompt_toolkit", "trio"}


def test_importing_loads_nothing_heavy():
    script = "import sys, greenroom; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not HEAVY & set(loaded)


@pytest.mark.parametrize("name", greenroom.__all__)
def test_every_name_is_there(name):
    assert getattr(greenroom, name) is not None
    assert name in dir(greenroom)


LAZY = sorted(each.parent.name for each in Path(greenroom.__file__).parent.glob("*/__init__.pyi"))


@pytest.mark.parametrize("name", LAZY)
def test_a_lazy_package_has_what_its_stub_names(name):
    package = importlib.import_module(f"greenroom.{name}")
    assert set(package.__all__) <= set(dir(package))
    assert all(getattr(package, each) is not None for each in package.__all__)


def test_a_name_is_no_module_of_the_same_name_that_was_loaded_before():
    script = (
        "import greenroom.llm.cached, greenroom.agents.coder\n"
        "from greenroom.llm import cached; from greenroom.agents import coder\n"
        "print(callable(cached), callable(coder), callable(greenroom.llm.cached))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["True"] * 3


def test_the_package_works_from_an_archive(tmp_path):
    folder = Path(greenroom.__file__).parent
    archive = tmp_path / "packed.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in folder.rglob("*"):
            if file.suffix in (".py", ".pyi"):
                packed.write(file, file.relative_to(folder.parent))
    script = "from greenroom import AgentSession; print(AgentSession.__module__)"
    printed = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(archive)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed.strip() == "greenroom.session.agent_session"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = greenroom.frobnicate


def subclasses(kind):
    for each in kind.__subclasses__():
        yield each
        yield from subclasses(each)


def test_the_front_door_holds_what_most_programs_need_and_no_more():
    assert len(greenroom.__all__) <= 110


def test_every_error_is_drawn_in_its_place_and_exported_by_its_package():
    for module in pkgutil.walk_packages(greenroom.__path__, "greenroom."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    ours = (error for error in subclasses(greenroom.GreenroomError))
    errors = {error for error in ours if error.__module__.startswith("greenroom.")}
    tree = sys.modules["greenroom.core.errors"].__doc__
    drawn = re.findall(r"^ {4}([│ ]*)[├└]── (\w+) ", tree, re.MULTILINE)
    path, found = ["GreenroomError"], {}
    for bars, name in drawn:
        path[len(bars) // 4 + 1 :] = [name]
        found[name] = path[-2]
    assert found == {error.__name__: error.__base__.__name__ for error in errors}
    packages = {error: ".".join(error.__module__.split(".")[:2]) for error in errors}
    assert [error for error in errors if not is_offered(error, packages[error])] == []


def test_what_a_struct_leaves_out_of_its_repr_rich_does_not_print():
    for module in pkgutil.walk_packages(greenroom.__path__, "greenroom."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    structs = [each for each in subclasses(msgspec.Struct) if each.__module__.startswith("green")]
    reticent = [each for each in structs if each.__repr__ is not msgspec.Struct.__repr__]
    assert len(reticent) >= 5
    shown = [each for each in reticent if each.__rich_repr__ is msgspec.Struct.__rich_repr__]
    assert shown == [Branch]  # it only shortens
    endpoint = Endpoint("acme", "https://models.example", {"authorization": "a key"}, ("a key",))
    assert "a key" not in pretty_repr(endpoint) + repr(endpoint)


def is_offered(error, package):
    """Tell whether programs or the other packages can catch an error."""
    fronts = [sys.modules.get(name) for name in (package, f"{package}._internal")]
    return error in [getattr(front, error.__name__, None) for front in fronts]


def _callables(module):
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) == module.__name__ and callable(value):
            yield f"{module.__name__}.{name}", value
            for method, each in vars(value).items() if isinstance(value, type) else ():
                yield f"{module.__name__}.{name}.{method}", getattr(each, "__func__", each)


def test_no_signature_shows_the_environment():
    """`help()` and generated pages print defaults, which would be the user's keys."""
    modules = pkgutil.walk_packages(greenroom.__path__, "greenroom.")
    places = {
        place
        for each in modules
        if not each.name.endswith("__main__")
        for place, value in _callables(importlib.import_module(each.name))
        if callable(value) and os.environ["PATH"] in _describe(value)
    }
    assert places == set()


def _describe(value):
    try:
        return str(inspect.signature(value))
    except (TypeError, ValueError):  # written in C
        return ""
