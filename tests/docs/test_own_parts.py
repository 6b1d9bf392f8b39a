"""The table of parts names members and arguments that there are."""

import inspect
import re
from functools import reduce
from pathlib import Path

import pytest

import greenroom
from greenroom import flow, memory

PAGE = Path(__file__).parents[2] / "docs/how-to/own-parts.md"
ROWS = [
    [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if re.match(r"\| (an?|vectors) ", line)
]
NAMED = [(row[1][0], member) for row in ROWS if row[1] for member in row[2]]
TAKEN = [place.rstrip(")=").split("(") for row in ROWS for place in row[3] if "(" in place]


@pytest.mark.parametrize(("protocol", "member"), NAMED)
def test_a_part_has_the_members_of_its_protocol(protocol, member):
    kind = reduce(getattr, protocol.split(".")[1:], greenroom)
    assert hasattr(kind, member) or member in kind.__annotations__


@pytest.mark.parametrize(("name", "argument"), TAKEN)
def test_a_part_is_passed_by_an_argument_that_there_is(name, argument):
    home = next(each for each in (greenroom, flow, memory) if hasattr(each, name))
    assert argument in inspect.signature(getattr(home, name)).parameters


def test_each_part_is_in_the_table():
    assert len(ROWS) == 8
