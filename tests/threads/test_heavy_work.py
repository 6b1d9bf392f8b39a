"""What is so large that work on it takes a thread."""

import msgspec
import pytest

from greenroom.core import TextBlock, ToolResult
from greenroom.threads._internal import is_large


class Pair(msgspec.Struct):
    left: object
    right: object = None


class Plain:
    def __init__(self, value):
        self.value = value


TEXT = "x" * 90


@pytest.mark.parametrize(
    "value",
    [
        TEXT,
        {TEXT: None},
        {"a": {"b": [[TEXT]]}},
        Pair(None, Pair([TEXT])),
        Plain({"a": (TEXT,)}),
        ToolResult((TextBlock(TEXT),)),
        list(range(90)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_large_is_found_however_deep_it_is(value):
    assert is_large(value, 80)
    assert not is_large(value, 200)
