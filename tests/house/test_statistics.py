"""Every public class with state has `statistics()`: a frozen value with documented fields."""

import importlib
import inspect
import re
import typing

import pytest

STATEFUL = [
    ("greenroom.core._internal", "Instruments"),
    ("greenroom.memory", "PostgresMemory"),
    ("greenroom.memory", "SQLiteMemory"),
    ("greenroom.net", "HttpClient"),
    ("greenroom.permissions", "PermissionManager"),
    ("greenroom.resilience", "Budget"),
    ("greenroom.resilience", "CircuitBreaker"),
    ("greenroom.resilience", "ConcurrencyLimit"),
    ("greenroom.resilience", "RateLimit"),
    ("greenroom.resilience", "TokenBudget"),
    ("greenroom.runtime", "AgentHandle"),
    ("greenroom.runtime", "AgentRuntime"),
    ("greenroom.runtime", "Subscription"),
    ("greenroom.runtime._internal", "Supervisor"),
    ("greenroom.session", "AgentSession"),
    ("greenroom.session", "FileStore"),
    ("greenroom.session", "InMemoryStore"),
    ("greenroom.session", "PostgresStore"),
    ("greenroom.session", "SQLiteStore"),
    ("greenroom.flow", "Topic"),
    ("greenroom.tools", "WorkerPool"),
]
PACKAGES = {package.removesuffix("._internal") for package, _ in STATEFUL}


def answer_of(kind):
    """Return the class of what `statistics()` answers."""
    method = kind.statistics
    home = importlib.import_module(method.__module__)
    return typing.get_type_hints(method, vars(home))["return"]


@pytest.mark.parametrize(("package", "name"), STATEFUL)
def test_it_answers_with_a_frozen_value_of_its_package(package, name):
    home = importlib.import_module(package)
    answer = answer_of(getattr(home, name))
    assert answer.__struct_config__.frozen
    assert answer.__module__.startswith(package.removesuffix("_internal"))
    # Only what is asked of an agent is awaited.
    is_awaited = inspect.iscoroutinefunction(getattr(home, name).statistics)
    assert is_awaited == (name == "AgentHandle")


@pytest.mark.parametrize(("package", "name"), STATEFUL)
def test_each_field_is_explained(package, name):
    answer = answer_of(getattr(importlib.import_module(package), name))
    explained = re.findall(r"^    (\w+): ", inspect.getdoc(answer), re.MULTILINE)
    assert explained == list(answer.__struct_fields__)


def test_every_class_that_has_it_stands_in_the_list():
    fronts = [*PACKAGES, *(f"{package}._internal" for package in PACKAGES)]
    found = {
        (front, name)
        for front in fronts
        for name in dir(importlib.import_module(front))
        if inspect.isclass(value := getattr(importlib.import_module(front), name))
        if hasattr(value, "statistics")
    }
    assert found == set(STATEFUL)
