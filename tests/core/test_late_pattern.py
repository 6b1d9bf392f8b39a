"""Expressions that are compiled at their first use do what those of `re` do."""

import copy
import importlib
import re
from pathlib import Path

import pytest

import greenroom
from greenroom.core import late_pattern
from greenroom.core._internal import compile_later

ROOT = Path(greenroom.__file__).parent


def test_it_is_compiled_once_it_is_used():
    late = compile_later("[")
    with pytest.raises(re.error):
        late.match("a")


def test_it_has_what_a_pattern_has():
    source = r"(?P<letter>[a-z])\d"
    late, real = compile_later(source, re.IGNORECASE), re.compile(source, re.IGNORECASE)
    for name in ("pattern", "flags", "groups", "groupindex"):
        assert getattr(late, name) == getattr(real, name)
    assert late.fullmatch("A1")["letter"] == "A"
    assert late.sub("-", "xa1") == "x-"
    assert [each[0] for each in late.finditer("a1b2")] == ["a1", "b2"]
    assert compile_later(rb"\d").findall(b"1a2") == [b"1", b"2"]
    assert copy.copy(late).match("b2")
    with pytest.raises(AttributeError, match="no_such_thing"):
        late.no_such_thing  # noqa: B018


def test_each_in_the_package_can_be_compiled():
    files = [path for path in ROOT.rglob("*.py") if " = compile_later(" in path.read_text()]
    names = [".".join(path.relative_to(ROOT.parent).with_suffix("").parts) for path in files]
    found = 0
    for name in names:
        for value in vars(importlib.import_module(name)).values():
            if isinstance(value, late_pattern._LatePattern):
                assert value.groups >= 0  # no error
                found += 1
    assert found > 100
