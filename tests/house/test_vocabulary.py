"""The words of the API: one name for one thing, over every signature that a program meets."""

import importlib
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import greenroom
from greenroom.agents import Tools

ROOT = Path(greenroom.__file__).parents[1]
PACKAGES = sorted(f"greenroom.{path.parent.name}" for path in ROOT.glob("greenroom/*/__init__.py"))
SECONDS = {"timeout", "deadline", "period", "grace"}
# A loop, a wrapper and a hook are handed the model that somebody else has opened.
GIVEN_MODELS = {"Compactor", "ProviderWrapper", "Substitutes.model", "coder", "find_window"}


@cache
def signatures():
    """Return the parameters of every public callable, by its name: `Class.method`, `function`."""
    found = {}
    for package in ["greenroom", *PACKAGES]:
        front = importlib.import_module(package)
        for name in getattr(front, "__all__", ()):
            found |= _signatures_of(name, getattr(front, name))
    return found


def _signatures_of(name, value):
    if not callable(value):
        return {}
    members = vars(value).items() if inspect.isclass(value) else ()
    plain = {key: getattr(each, "__func__", each) for key, each in members if key[0] != "_"}
    functions = {f"{name}.{key}": each for key, each in plain.items() if inspect.isfunction(each)}
    found = {}
    for key, each in {name: value, **functions}.items():
        try:
            found[key] = dict(inspect.signature(each, eval_str=False).parameters)
        except (TypeError, ValueError):  # a type without a constructor of its own
            continue
    return found


def words():
    """Yield the rows of the glossary's table: a word, the words in its place, the exceptions."""
    text = (ROOT / "docs/glossary.md").read_text().partition("## Words in signatures")[2]
    for line in text.splitlines():
        if line.startswith("| `"):
            cells = line.strip("|").split("|")
            yield tuple(re.findall(r"`([^`]+)`", cells[at]) for at in (0, 2, 3))


def parameters(*names):
    """Yield each public parameter of these names, with the callable that takes it."""
    for owner, taken in signatures().items():
        yield from ((owner, each) for name, each in taken.items() if name in names)


@pytest.mark.parametrize("row", list(words()), ids=lambda row: row[0][0])
def test_a_thing_has_the_same_name_in_every_signature(row):
    _, instead, exceptions = row
    found = {owner for owner, _ in parameters(*instead)}
    assert sorted(found - set(exceptions)) == []
    assert sorted(set(exceptions) - found) == [], "an exception that no longer exists"


def test_most_words_of_the_table_are_used():
    used = {name for taken in signatures().values() for name in taken}
    named = {word for row in words() for word in row[0] if "…" not in word}
    assert named - used == set()


def test_a_model_can_be_given_by_its_name():
    refused = {
        owner
        for owner, each in parameters("llm")
        if "str" not in str(each.annotation).split(".")[-1]
    }
    assert {owner for owner in refused if owner not in GIVEN_MODELS} == set()


def test_tools_are_whatever_can_be_a_tool_or_a_registry():
    kinds = {str(each.annotation) for _, each in parameters("tools")}
    assert str(Tools) in kinds
    for kind in kinds - {str(Tools)}:
        assert re.search(
            r"ToolRegistry|ToolDefinition|interface\.Tool|Tools|Iterable\[object", kind
        )


def test_limits_are_counts_and_times_are_seconds():
    for owner, each in parameters("limit"):
        assert "int" in str(each.annotation), owner
    for owner, each in parameters(*SECONDS):
        assert re.search(r"float|datetime|Timeouts", str(each.annotation)), owner


def test_agents_are_taken_one_after_the_other():
    takers = {owner: each.kind for owner, each in parameters("agents")}
    takers.pop("HostInfo")  # a count
    takers.pop("WebServer")  # a mapping: each under the type of its sessions
    assert set(takers.values()) == {inspect.Parameter.VAR_POSITIONAL}
