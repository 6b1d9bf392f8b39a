"""A check of an input ends soon, whatever its schema and the input are."""

import logging
import random
import time

import pytest
import trio
import trio.testing

from greenroom.core import AgentContext, ToolResult
from greenroom.schemas._internal import InputValidator
from greenroom.tools import ToolRegistry, as_tool
from tests.conftest import EXAMPLES

BOMB = "^(a|aa)+$"
HOSTILE = "a" * 200 + "!"


def of(**properties):
    return {"type": "object", "properties": properties}


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, "greenroom.tools")
    return caplog


def test_a_pattern_that_is_not_one_for_us_is_left_unchecked_with_one_warning(warnings):
    schema = of(a={"pattern": "("}, b={"pattern": "["}, c={"pattern": "^x$"})
    validator = InputValidator("look", schema)
    assert validator.fault({"a": "y", "b": "y"}) is None
    assert "'y' does not match '^x$'" in validator.fault({"c": "y"})
    assert len(warnings.messages) == 1
    assert "tool look: a part of its schema is not checked: the pattern '('" in warnings.messages[0]


def test_patterns_that_are_too_large_together_are_left_unchecked(warnings):
    patterns = {f"p{n}": {"pattern": f"^(ab{{100}}){{99}}{n}$"} for n in range(40)}
    validator = InputValidator("look", of(**patterns))
    faults = [validator.fault({name: "y"}) for name in patterns]
    assert 10 < sum(map(bool, faults)) < 30
    assert len(warnings.messages) == 1


def test_a_match_that_takes_too_long_is_left_unchecked_with_one_warning(warnings):
    validator = InputValidator("look", of(a={"pattern": BOMB}))
    assert warnings.messages == []
    for _ in range(3):
        assert validator.fault({"a": HOSTILE}) is None
    assert validator.fault({"a": "B"})
    assert len(warnings.messages) == 1


@pytest.mark.parametrize(
    ("schema", "fits", "misfits"),
    [
        ({"patternProperties": {"^x_": {"type": "integer"}}}, {"x_a": 1, "y": "b"}, {"x_a": "b"}),
        (
            {"patternProperties": {"^x_": {}}, "additionalProperties": False},
            {"x_a": 1},
            {"y": 1},
        ),
        (
            {"patternProperties": {"^x_": {}}, "additionalProperties": {"type": "integer"}},
            {"x_a": "b", "y": 1},
            {"y": "b"},
        ),
        ({"propertyNames": {"pattern": "^[a-z]+$"}}, {"a": 1}, {"A": 1}),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1}, {"b": 1}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [1, True, "1"]}, {"a": [1, 1.0]}),
        (
            {"properties": {"a": {"uniqueItems": True}}},
            {"a": [[1], {"x": 1}, {"x": [1]}, {}, [], "x", None, False, 0]},
            {"a": [{"x": [1], "y": 2}, {"y": 2, "x": [1.0]}]},
        ),
    ],
)
def test_names_and_items_are_checked_by_our_own_means(schema, fits, misfits):
    validator = InputValidator("T", schema)
    assert validator.fault(fits) is None
    assert validator.fault(misfits)


DIALECT = {"$schema": "https://json-schema.org/draft/2020-12/schema"}


@pytest.mark.parametrize(
    "schema",
    [
        of(a={**DIALECT, "pattern": BOMB}),
        of(a={"$schema": "http://json-schema.org/draft-07/schema#", "pattern": BOMB}),
        {**DIALECT, **of(a={"anyOf": [{"pattern": BOMB}, {"$ref": "#"}]})},
        of(a={"$ref": "#/x/y"}) | {"x": {"y": {**DIALECT, "pattern": BOMB}}},
    ],
)
def test_a_dialect_of_its_own_does_not_bring_another_engine(schema):
    assert InputValidator("T", schema).fault({"a": HOSTILE}) is None


def test_what_no_engine_of_ours_can_tell_is_warned_of(warnings):
    schema = {"patternProperties": {"^x_": {}}, "unevaluatedProperties": False}
    assert InputValidator("T", schema).fault({"y": 1}) is None
    assert "unevaluatedProperties" in warnings.messages[0]


doubling = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)}
HEAVY = {
    "nested patterns": (of(a={"pattern": BOMB}), {"a": HOSTILE}),
    "many patterns": (of(**{f"p{n}": {"pattern": BOMB} for n in range(200)}),
                      {f"p{n}": HOSTILE for n in range(200)}),
    "plain text": (of(a={"pattern": "b" + "a" * 1_999}), {"a": "a" * 99_999}),
    "many items": (of(a={"items": {"pattern": BOMB}}), {"a": [HOSTILE] * 1_000}),
    "many names": ({"patternProperties": {BOMB: False}}, {HOSTILE + str(n): 1 for n in range(999)}),
    "names": ({"propertyNames": {"pattern": BOMB}}, {HOSTILE: 1}),
    "a doubling schema": ({"$ref": "#/$defs/d0", "$defs": doubling | {"d40": {"type": "object"}}},
                          {}),
    "unequal objects": (of(a={"uniqueItems": True}), {"a": [{"n": n} for n in range(20_000)]}),
    "deep unique items": (of(a={"uniqueItems": True}),
                          {"a": [[list(range(50_000)), n] for n in range(20)]}),
    "quoted lists": ({"additionalProperties": {"type": "array"}},
                     {str(n): f"[{'1,' * 400_000}1" for n in range(50)}),
    "a long list": (of(a={"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}),
                    {"a": [1] * 100_000}),
    "names with each other": (of(a={"unevaluatedProperties": {"type": "integer"}}),
                              {"a": {str(n): n for n in range(20_000)}}),
    "items with each other": (of(a={"unevaluatedItems": {"type": "integer"}}),
                              {"a": list(range(20_000))}),
    "a huge enum": (of(a={"items": {"enum": [{"n": n} for n in range(5_000)]}}),
                    {"a": [{"n": -1}] * 1_000}),
    "a loop": (of(a={"$ref": "#/$defs/l"}) | {"$defs": {"l": {"$ref": "#/$defs/l"}}}, {"a": 1}),
}  # fmt: skip


async def measure(schema, inputs):
    """Run a call for each input; return the most CPU time of a pause: of all, and of the loop."""

    class Look:
        name, description, parameters_schema = "look", "Look.", schema

        def execute(self, **_):
            return "seen"

    registry = ToolRegistry([as_tool(Look())])
    context = AgentContext(session_id="s-1", agent_type="demo")
    await registry.execute("look", {}, context)  # the first check imports what it needs
    ours, used = [0.0], [0.0]

    async def beat():
        while True:
            last, cpu = time.process_time(), time.thread_time()
            await trio.sleep(0.002)
            ours.append(time.process_time() - last)  # not what other programs take meanwhile
            used.append(time.thread_time() - cpu)

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(beat)
            await trio.testing.wait_all_tasks_blocked()  # so it also sees what the loop itself does
            for each in inputs:
                assert isinstance(await registry.execute("look", each, context), ToolResult)
            await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
    return max(ours), max(used)


@pytest.mark.integration
@pytest.mark.parametrize("kind", HEAVY)
@pytest.mark.every(5)
async def test_other_tasks_go_on_while_an_input_is_checked(kind):
    schema, arguments = HEAVY[kind]
    ours, used = await measure(schema, [arguments])
    # Far less than any of these takes; a slow and busy machine and a tracer need the room.
    assert used < 0.5
    assert ours < 1


class Silent(dict):
    """An object of a call that is too large to be written."""

    def __repr__(self):
        raise AssertionError("it is written as a whole")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"enum": [1, 2]},
        {"const": 1},
        {"minItems": 5_000},
        {"maxItems": 1},
        {"contains": {"type": "integer"}},
        {"uniqueItems": True},
        {"items": False},
        {"prefixItems": [{}], "items": False},
        {"prefixItems": [False]},
        {"items": {"not": {}}},
        {"unevaluatedItems": False},
        {"not": {"type": "array"}},
        {"not": {}},
        False,
        {"anyOf": [{"type": "integer"}, {"maxItems": 2}]},
        {"oneOf": [{}, {"type": "array"}]},
        {"items": {"minProperties": 3}},
        {"items": {"required": ["b"]}},
        {"items": {"properties": {"a": {"maxItems": 1}}}},
        {"items": {"properties": {"a": False}}},
        {"items": {"additionalProperties": False}},
        {"items": {"unevaluatedProperties": False}},
        {"items": {"dependentRequired": {"a": ["b"]}}},
    ],
)
def test_an_error_never_writes_all_of_a_value(schema):
    value = [Silent(a=[Silent(x=[]), Silent()]) for _ in range(100)]
    fault = InputValidator("look", of(a=schema)).fault({"a": value})
    assert fault.splitlines()[1].startswith("- a")


WRAPS = ["({})*", "({})+$", "^({})*$", "({}|a)*b", "(?:{}){{0,60}}!", "({}){{2,}}", "(?=({})+b)"]
CORES = [
    "a+",
    "a*",
    "a|aa",
    "[a-z]+",
    r"\w*\s?",
    ".*",
    r"\p{L}+",
    "a{1,200}",
    "(a|b)?",
    "(?:a?){9}",
]
REST = [r"\1", r"\1+$", "(?<=a{9})", "(?!b).*", "$", "b", r"(?<=\w+)!", "{1000}", "(a{1000}){1000}"]
HOSTILES = [
    "a" * 25 + "!",
    "a" * 300 + "!",
    "ab" * 400,
    "a " * 2_000 + "b",
    "\u00e9" * 999,
    "!" * 9_999,
]


@pytest.mark.integration
async def test_hundreds_of_patterns_do_not_hold_up_the_loop():
    chance = random.Random(4)
    patterns = []
    for _ in range(5 * EXAMPLES):
        core = chance.choice(CORES)
        for _ in range(chance.randint(1, 3)):
            core = chance.choice(WRAPS).format(core)
        patterns.append(core + "".join(chance.choices(REST, k=chance.randint(0, 2))))
    schema = of(**{f"p{n}": {"pattern": each} for n, each in enumerate(patterns)})
    inputs = [{f"p{n}": chance.choice(HOSTILES)} for n in range(len(patterns))]
    ours, used = await measure(schema, inputs)
    assert used < 0.25
    assert ours < 0.5
