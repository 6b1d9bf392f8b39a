"""`import greenroom` is light, complete, and honest about what it offers."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import greenroom

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


def test_the_names_are_sorted_and_known_to_type_checkers():
    assert list(greenroom.__all__) == sorted(greenroom.__all__)
    source = ast.parse(Path(greenroom.__file__).read_text())
    guarded = next(node for node in source.body if isinstance(node, ast.If))
    typed = {alias.asname for node in guarded.body for alias in node.names}
    assert typed | {"__version__"} == set(greenroom.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = greenroom.frobnicate


def test_errors_stand_in_one_tree():
    names = [name for name in greenroom.__all__ if re.fullmatch(r"\w+Error", name)]
    errors = [getattr(greenroom, name) for name in names]
    assert len(errors) > 20
    assert all(issubclass(error, greenroom.GreenroomError) for error in errors)
    drawn = sys.modules["greenroom.core.errors"].__doc__
    assert all(error.__name__ in drawn for error in errors)
